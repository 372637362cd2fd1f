package project

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// killEnv makes the test binary a process that applies everyChange, or
// recovers, and kills itself at the Nth step: "apply|recover DIR JOURNALS N".
const killEnv = "CALLCELL_TEST_KILL"

func TestMain(m *testing.M) {
	if order := os.Getenv(killEnv); order != "" {
		if err := victim(strings.Split(order, "\x1f")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func victim(order []string) error {
	what, dir, journals := order[0], order[1], order[2]
	left, err := strconv.Atoi(order[3])
	if err != nil {
		return err
	}
	step := func(string) {
		if left--; left < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until it comes
		}
	}
	if what == "apply" {
		tree, err := Read(context.Background(), dir, Options{})
		if err != nil {
			return err
		}
		return tree.Plan(everyChange()).apply(journals, step)
	}
	root, err := openRoot(dir)
	if err != nil {
		return err
	}
	if err := lock(root); err != nil {
		return err
	}
	a, err := newApplier(root, journals, step)
	if err != nil {
		return err
	}
	return a.recover()
}

// kill runs a victim and reports whether it was killed.
func kill(t *testing.T, what string, s *scene, n int) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killEnv+"="+strings.Join([]string{what, s.dir, s.journals, strconv.Itoa(n)}, "\x1f"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatalf("%s, killed at step %d: %v: %s", what, n, err, out)
	}
	return false
}

// TestKilledApply: wherever an Apply is killed, the next one who comes finds
// the tree untouched or fully applied, and nothing is left behind; and wherever
// that one is killed, the next.
func TestKilledApply(t *testing.T) {
	before := newScene(t, files()).all(t)
	untouched, applied, steps := 0, 0, 0
	for n := 0; ; n++ {
		s := newScene(t, files())
		if !kill(t, "apply", s, n) {
			if s.all(t) != afterEveryChange {
				t.Errorf("not killed:\n%s", s.all(t))
			}
			steps = n
			break
		}
		for k := n % 3; kill(t, "recover", s, k); k += 3 {
		}
		if err := Recover(s.dir, s.journals); err != nil {
			t.Errorf("killed at step %d: %v", n, err)
		}
		switch s.all(t) {
		case before:
			untouched++
			if applied > 0 {
				t.Errorf("killed at step %d it is untouched, and before that it was applied", n)
			}
		case afterEveryChange:
			applied++
		default:
			t.Errorf("killed at step %d, and recovered, the tree is\n%s", n, s.all(t))
		}
		if left := s.litter(t); len(left) > 0 {
			t.Errorf("killed at step %d: left behind: %v", n, left)
		}
	}
	t.Logf("%d steps: untouched after %d, applied after %d", steps, untouched, applied)
	if untouched < 5 || applied < 15 {
		t.Errorf("%d steps: untouched after %d, applied after %d", steps, untouched, applied)
	}
}

// TestRecoveryMeetsChanges: somebody has changed a file of a tree that is
// applied in part: it stays his, and the others are as they were.
func TestRecoveryMeetsChanges(t *testing.T) {
	reached := false
	for n := 0; !reached; n++ {
		s := newScene(t, files())
		if !kill(t, "apply", s, n) {
			t.Fatal("never applied in part")
		}
		data, err := os.ReadFile(s.at("a.txt"))
		must(t, err)
		info, err := os.Stat(s.at("b.txt"))
		must(t, err)
		if string(data) != "A\n" || info.Mode()&0o111 != 0 {
			continue // not yet between the two
		}
		reached = true
		s.put(t, "b.txt", "mine\n")
		var conflict *ConflictError
		if err := Recover(s.dir, s.journals); !errors.As(err, &conflict) || conflict.Conflicts[0].Name != "b.txt" {
			t.Errorf("%v, want a conflict about b.txt", err)
		}
		want := newScene(t, files())
		want.put(t, "b.txt", "mine\n")
		if s.all(t) != want.all(t) || len(s.litter(t)) > 0 {
			t.Errorf("the tree is\n%s\nand left is %v", s.all(t), s.litter(t))
		}
	}
}

// TestRecoveryKeepsWhatItCannotPutBack: a file that was changed after it was
// applied is not overwritten, and what it held before is not lost.
func TestRecoveryKeepsWhatItCannotPutBack(t *testing.T) {
	for n := 0; ; n++ {
		s := newScene(t, files())
		if !kill(t, "apply", s, n) {
			t.Fatal("never applied in part")
		}
		data, err := os.ReadFile(s.at("a.txt"))
		must(t, err)
		info, err := os.Stat(s.at("b.txt"))
		must(t, err)
		if string(data) != "A\n" || info.Mode()&0o111 != 0 {
			continue
		}
		s.put(t, "a.txt", "edited\n")
		s.put(t, "b.txt", "mine\n")
		var kept *RecoveryError
		if err := Recover(s.dir, s.journals); !errors.As(err, &kept) || kept.Names[0] != "a.txt" {
			t.Fatalf("%v, want a RecoveryError about a.txt", err)
		}
		olds, err := filepath.Glob(filepath.Join(kept.Kept, "*"))
		must(t, err)
		found := false
		for _, old := range olds {
			data, err := os.ReadFile(old)
			must(t, err)
			found = found || string(data) == "a\n"
		}
		data, err = os.ReadFile(s.at("a.txt"))
		if must(t, err); !found || string(data) != "edited\n" {
			t.Errorf("kept %v; a.txt is %q", olds, data)
		}
		return
	}
}
