package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// TestStartsCases is case 138: what is picked or looked for first, and taken
// after, collides when many start at once.
func TestStartsCases(t *testing.T) {
	s := usual(t)
	t.Run("138 many commands at once", func(t *testing.T) { startsOfStrangers(t, s, 16, 3) })
	t.Run("138 many commands at once for one workspace", func(t *testing.T) { startsOfOneWorkspace(t, s) })
}

// together runs the commands at once and returns what each printed.
func (s *stand) together(t *testing.T, n int, args ...string) []*envelope.Result {
	t.Helper()
	results := make([]*envelope.Result, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			cmd := exec.Command(filepath.Join(s.bin, "callcell"), append([]string{"--config", s.conf, "run", "--json", "--trust", "reviewed", "--level", s.level, "--image", s.image}, args...)...)
			cmd.Dir = s.dir
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			results[i] = &envelope.Result{}
			if failed := json.Unmarshal(stdout.Bytes(), results[i]); failed != nil {
				t.Errorf("command %d: %v, %v: %s%s", i, err, failed, stdout.String(), stderr.String())
			}
		})
	}
	all.Wait()
	return results
}

// startsOfStrangers has calls that know nothing of each other. Each gets what it
// asks for, and an id of its own; all of it is gone, and the chain is whole.
func startsOfStrangers(t *testing.T, s *stand, atOnce, rounds int) {
	ids := map[string]bool{}
	for range rounds {
		for i, r := range s.together(t, atOnce, "--task", "starts", "--timeout", "60s", "--", "sh", "-c", "echo x > /tmp/x; cat /tmp/x; sleep 0.2") {
			if !r.OK() || text(r.Stdout) != "x\n" || r.Teardown == nil || !r.Teardown.Complete {
				t.Errorf("command %d: %s, %+v, refused %+v, %q, teardown %+v", i, r.Outcome, r.Exit, r.Refusal, text(r.Stderr), r.Teardown)
			}
			ids[r.ID] = true
		}
	}
	calls := atOnce * rounds
	if len(ids) != calls {
		t.Errorf("%d ids of %d calls", len(ids), calls)
	}
	list, err := exec.Command(filepath.Join(s.bin, "callcell"), "--config", s.conf, "audit", "list", "--task", "starts", "--limit", "1000").Output()
	if got := bytes.Count(list, []byte("  completed ")); err != nil || got != calls {
		t.Errorf("%d rows that completed, %v", got, err)
	}
	if out, err := exec.Command(filepath.Join(s.bin, "callcell"), "--config", s.conf, "audit", "verify").CombinedOutput(); err != nil || !strings.Contains(string(out), ": intact: ") {
		t.Errorf("%v: %s", err, out)
	}
}

// startsOfOneWorkspace has calls that want the same workspace, which is not
// there before. One at a time has it, and the others are told to try again; each
// version is of one call, and none is lost.
func startsOfOneWorkspace(t *testing.T, s *stand) {
	wrote := map[int64]bool{}
	for len(wrote) < 5 {
		for i, r := range s.together(t, 10, "--workspace", "shared", "--timeout", "60s", "--", "sh", "-c", "echo line >> log") {
			switch {
			case r.OK() && r.Workspace != nil && r.Workspace.Wrote == r.Workspace.Read+1 && !wrote[r.Workspace.Wrote]:
				wrote[r.Workspace.Wrote] = true
			case r.Refusal != nil && r.Refusal.Reason == envelope.ReasonCapacity && r.Refusal.Retry:
			default:
				t.Fatalf("command %d: %s, %+v, refused %+v, workspace %+v", i, r.Outcome, r.Exit, r.Refusal, r.Workspace)
			}
		}
	}
	r := s.together(t, 1, "--workspace", "shared", "--", "sh", "-c", "wc -l < log")[0]
	if got := strings.TrimSpace(text(r.Stdout)); got != fmt.Sprint(len(wrote)) {
		t.Errorf("%s lines after %d versions", got, len(wrote))
	}
}
