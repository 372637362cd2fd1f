package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/testing/leak"
)

// helperEnv makes the test binary a helper process: its value is what to do,
// and the arguments follow the store's path.
const helperEnv = "CALLCELL_STORE_TEST_HELPER"

func TestMain(m *testing.M) {
	if what := os.Getenv(helperEnv); what != "" {
		if err := help(what, os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func help(what, path string, args []string) error {
	ctx := context.Background()
	if do, ok := helpers()[what]; ok {
		return do(ctx, path)
	}
	d, err := Open(ctx, path)
	if err != nil {
		return err
	}
	defer d.Leave()
	l, err := audit.New(d.Audit(), audit.Options{TTL: 10 * time.Minute}) // how long others keep it waiting is not asked here
	if err != nil {
		return err
	}
	n := -1 // for ever
	if what == "calls" {
		if n, err = strconv.Atoi(args[0]); err != nil {
			return err
		}
	}
	for ; n != 0; n-- {
		id := l.NewID()
		if err := l.Intend(ctx, intent(id)); err != nil {
			return err
		}
		fmt.Println("intent", id)
		r, err := l.Complete(ctx, completed(id))
		if err != nil {
			return err
		}
		fmt.Println("outcome", id, r.Seq)
	}
	return nil
}

// helpers are the things that a helper process can do, beside writing calls.
func helpers() map[string]func(ctx context.Context, path string) error {
	all := platformHelpers()
	all["timed"] = timed
	all["crash"] = crasher
	return all
}

// timed does what a process with one call does, and says how long each step
// took.
func timed(ctx context.Context, path string) error {
	var laps [5]time.Duration
	var err error
	at := time.Now()
	lap := func(i int, e error) {
		err = errors.Join(err, e)
		laps[i] = time.Since(at)
		at = time.Now()
	}
	d, e := Open(ctx, path)
	if e != nil {
		return e
	}
	lap(0, nil)
	l, e := audit.New(d.Audit(), audit.Options{})
	if e != nil {
		return e
	}
	_, e = l.Recover(ctx)
	lap(1, e)
	id := l.NewID()
	lap(2, l.Intend(ctx, intent(id)))
	_, e = l.Complete(ctx, completed(id))
	lap(3, e)
	e = l.Close(ctx)
	d.Leave()
	lap(4, e)
	for _, l := range laps {
		fmt.Println(l.Nanoseconds())
	}
	return err
}

func intent(id string) audit.Intent {
	env := envelope.Default()
	call := &envelope.Call{Tool: "sh", Task: "task", Argv: []string{"sh", "-c", "echo hi"}}
	return audit.IntentOf(id, "local", call, &env, envelope.LevelContainer, []string{"container: reviewed"}, nil)
}

func completed(id string) audit.Ending {
	return audit.EndingOf(&envelope.Result{ID: id, Outcome: envelope.OutcomeCompleted, Exit: envelope.Exit{Source: "host"}})
}

// helper starts a helper process. Its standard output goes to out.
func helper(t testing.TB, out io.Writer, what, path string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, append([]string{path}, args...)...)
	cmd.Env = append(os.Environ(), helperEnv+"="+what)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	return cmd
}

// log returns a log over the store.
func log(t testing.TB, d *DB, o audit.Options) *audit.Log {
	t.Helper()
	l, err := audit.New(d.Audit(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

func verify(t testing.TB, l *audit.Log, against ...envelope.Receipt) audit.VerifyReport {
	t.Helper()
	rep, err := l.Verify(t.Context(), audit.VerifyOptions{Against: against})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// TestProcessesShareOneChain has four processes create one store and write to
// it at once.
func TestProcessesShareOneChain(t *testing.T) {
	leak.Check(t)
	const processes, calls = 4, 50
	path := file(t)
	var wg sync.WaitGroup
	for range processes {
		cmd := helper(t, io.Discard, "calls", path, strconv.Itoa(calls))
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	rep := verify(t, log(t, open(t, path), audit.Options{}))
	if !rep.Intact() || rep.Events != 2*processes*calls || rep.Calls != processes*calls || rep.Open != 0 {
		t.Errorf("%+v", rep)
	}
}

// TestKilledWriterLosesNothing kills a process that writes, again and again:
// what it was told is stored is there, and the chain goes on.
func TestKilledWriterLosesNothing(t *testing.T) {
	path := file(t)
	told := map[string]string{}
	for round := range 5 {
		r, w := io.Pipe()
		cmd := helper(t, w, "for ever", path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(r)
		for n := 0; n < 20+7*round && lines.Scan(); n++ {
			note(told, lines.Text())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		go func() {
			cmd.Wait()
			w.Close()
		}()
		for lines.Scan() {
			note(told, lines.Text())
		}
	}
	d := open(t, path)
	c := &clock{}
	l := log(t, d, audit.Options{Clock: c})
	if _, err := l.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rep := verify(t, l); !rep.Intact() || rep.Calls < int64(len(told)) || len(told) < 50 {
		t.Errorf("%d calls were told, %+v", len(told), rep)
	}
	for id, what := range told {
		row, err := l.Row(t.Context(), id)
		if err != nil || what == "outcome" && row.Outcome != envelope.OutcomeCompleted {
			t.Errorf("%s of %s was told: %+v, %v", what, id, row, err)
		}
	}
}

func note(told map[string]string, line string) {
	if f := strings.Fields(line); len(f) >= 2 && len(f[1]) == 36 {
		told[f[1]] = f[0]
	}
}
