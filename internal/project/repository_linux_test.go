package project

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// TestNoChangeMakesARepository: git takes a directory with HEAD, objects and
// refs for a repository, whatever it is called, and runs what its config says.
func TestNoChangeMakesARepository(t *testing.T) {
	const head, object = "ref: refs/heads/main\n", "0123456789abcdef0123456789abcdef01234567\n"
	s := newScene(t, map[string]string{"a": "a\n", "old/HEAD": head, "old/objects/x": "", "old/refs/x": "", "old/config": "[core]\n", "bin/head": "#!/bin/sh\n"})
	tree := s.read(t)
	for _, c := range []envelope.Change{
		added("new/HEAD", head), added("HEAD", object), added("new/head", "ref:refs/heads/x"), changed("bin/head", object),
		changed("old/config", "[core]\n\tfsmonitor = x\n"), added("old/hooks/post-checkout", "x"), added("old/commondir", ".."), added("old/config.worktree", "x"),
	} {
		if p := tree.Plan(changes(c)); len(p.Refused) != 1 || !p.Empty() {
			t.Errorf("%v %q may be applied", c.Kind, c.Name)
		}
	}
	for _, c := range []envelope.Change{added("new/HEAD", "HEAD is a word\n"), changed("bin/head", "#!/bin/sh\nexit\n"), added("older/config", "x"), removed("old/HEAD"), changed("a", head)} {
		if p := tree.Plan(changes(c)); len(p.Refused) != 0 {
			t.Errorf("%v %q: %v", c.Kind, c.Name, p.Refused)
		}
	}
}

// TestGitRunsNothingThatWasApplied asks git itself.
func TestGitRunsNothingThatWasApplied(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git")
	}
	ran := filepath.Join(t.TempDir(), "ran")
	s := newScene(t, map[string]string{"a": "a\n"})
	p := s.read(t).Plan(changes(
		added("sub/HEAD", "ref: refs/heads/main\n"), added("sub/objects/x", ""), added("sub/refs/x", ""),
		added("sub/config", "[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = \"touch "+ran+";:\"\n")))
	if err := p.Apply(s.journals); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(git, "status")
	cmd.Dir = filepath.Join(s.dir, "sub")
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, _ := cmd.CombinedOutput() // there may be no repository, which is as well
	if _, err := os.Stat(ran); err == nil {
		t.Errorf("git ran what a change said\n%s", out)
	}
}
