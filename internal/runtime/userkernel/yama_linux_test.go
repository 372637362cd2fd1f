package userkernel_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// yama is where the host says who may trace whom.
const yama = "/proc/sys/kernel/yama/ptrace_scope"

// TestYama: gVisor's platform traces processes that it has made itself. A host
// that lets everybody do so has the level; one that lets its administrator alone
// do so says that it has not, and why.
func TestYama(t *testing.T) {
	if os.Getenv("CALLCELL_TEST_MACHINE") == "" {
		t.Skip("changes a setting of the machine: scripts/test-v2 has one of its own")
	}
	set := func(scope string) {
		if err := os.WriteFile(yama, []byte(scope), 0); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(yama)
	if err != nil {
		t.Fatal(err)
	}
	defer set(strings.TrimSpace(string(was)))
	before := newGround(t) // a launcher that was there before
	for _, scope := range []string{"0", "1"} {
		set(scope)
		if r, _ := before.run(t, shape(), nil, "/bin/true"); r.err != nil || r.exit.Code != 0 {
			t.Errorf("ptrace_scope %s: %+v, %v", scope, r.exit, r.err)
		}
	}
	set("2")
	refused := func(g *ground, reason envelope.Reason) {
		var e *cell.Error
		if c, err := g.Open(context.Background(), shape()); !errors.As(err, &e) || e.Reason != reason || !strings.Contains(err.Error(), "administrator") {
			t.Errorf("%v, %v", c, err)
		}
	}
	refused(before, envelope.ReasonSetup)
	after := newGround(t)
	refused(after, envelope.ReasonIsolation)
	if f := after.Features(); f.Available || !strings.Contains(f.Why, "administrator") || !strings.Contains(f.Why, "kernel.yama.ptrace_scope") {
		t.Errorf("%+v", f)
	}
}
