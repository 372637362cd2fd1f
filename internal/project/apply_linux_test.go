package project

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/leak"
)

const afterEveryChange = `a.txt -rw-r--r-- A

b.txt -rwxr-xr-x b

becomes-dir drwxr-xr-x
becomes-dir/f -rw-r--r-- f

becomes-file -rw-r--r-- file

dir drwxr-xr-x
dir/c.txt -rw-r--r-- c

keep -rw-r--r-- keep

new drwxr-xr-x
new/deep drwxr-xr-x
new/deep/e.txt -rw-r--r-- e

run.sh -rwxr-xr-x #!/bin/sh
echo

`

func TestApplyEveryKindOfChange(t *testing.T) {
	leak.Check(t)
	s := newScene(t, files())
	p := s.read(t).Plan(everyChange())
	if len(p.Refused) > 0 {
		t.Fatalf("refused: %v", p.Refused)
	}
	if err := p.Apply(s.journals); err != nil {
		t.Fatal(err)
	}
	if got := s.all(t); got != afterEveryChange {
		t.Errorf("the tree is now\n%s", got)
	}
	if left := s.litter(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPlanRefuses(t *testing.T) {
	s := newScene(t, map[string]string{"Makefile": "all:\n", "dir/a": "a\n", "stra\u00dfe": "s\n", "Twin": "1\n", "twin": "2\n"})
	tree := s.read(t)
	if len(tree.Twins) != 2 {
		t.Errorf("twins: %q", tree.Twins)
	}
	for _, c := range []envelope.Change{
		added(".git/hooks/pre-commit", "x"), added(".GIT/config", "x"), added("sub/.git/config", "x"), added(".git", "gitdir: /tmp\n"), added("git~1/config", "x"),
		added(".git./config", "x"), added(".callcell/x", "x"), added("../up", "x"), added("/abs", "x"), added("a//b", "x"), added("bad\xff", "x"), added("bi\u202edi", "x"),
		added("nul\x00", "x"), added("back\\slash", "x"), added("makefile", "x"), added("MAKEFILE", "x"), added("Dir/a", "x"), added("dir/A", "x"), added("STRASSE", "x"),
		added("dir/a", "x"), changed("absent", "x"), removed("absent"), {Name: "Makefile"}, {Name: "Makefile", Kind: 99}, {Name: "Makefile", Kind: envelope.ChangeMode, Data: []byte("other")},
	} {
		if p := tree.Plan(changes(c)); len(p.Refused) != 1 || !p.Empty() {
			t.Errorf("%v %q may be applied", c.Kind, c.Name)
		}
	}
	if p := tree.Plan(changes(added("new/x", "1"), added("NEW/x", "2"), added("fine", "3"))); len(p.Refused) != 2 || len(p.Changes) != 1 {
		t.Errorf("twins among what is new: %+v", p)
	}
	if p := tree.Plan(changes(changed("Twin", "x"), added("dir/b", "x"))); len(p.Refused) != 0 {
		t.Errorf("twins that the tree has itself: %v", p.Refused)
	}
}

// TestPlanTellsOfExecuteBits: a change of bytes that makes a file one that may be
// executed is told of like one of the bits alone; one that leaves them is not.
func TestPlanTellsOfExecuteBits(t *testing.T) {
	s := newScene(t, map[string]string{"plain": "1\n", "run": "1\n"})
	must(t, os.Chmod(s.dir+"/run", 0o755))
	made, kept := changed("plain", "2"), changed("run", "2")
	made.Executable, kept.Executable = true, true
	p := s.read(t).Plan(changes(made, kept))
	if len(p.Changes) != 2 || len(p.Warnings) != 1 || p.Warnings[0].Name != "plain" || !strings.Contains(p.Warnings[0].Why, "executed") {
		t.Errorf("%+v", p.Warnings)
	}
}

func TestApplyRefusesConflictsByName(t *testing.T) {
	leak.Check(t)
	outside := t.TempDir()
	for name, meanwhile := range map[string]func(*testing.T, *scene){
		"a.txt is changed":         func(t *testing.T, s *scene) { s.put(t, "a.txt", "mine\n") },
		"a.txt of the same size":   func(t *testing.T, s *scene) { s.put(t, "a.txt", "z\n") },
		"a.txt is a link":          func(t *testing.T, s *scene) { relink(t, s.at("b.txt"), s.at("a.txt")) },
		"a.txt is a directory":     func(t *testing.T, s *scene) { must(t, os.Remove(s.at("a.txt")), os.Mkdir(s.at("a.txt"), 0o755)) },
		"a.txt is a FIFO":          func(t *testing.T, s *scene) { must(t, os.Remove(s.at("a.txt")), unix.Mkfifo(s.at("a.txt"), 0o644)) },
		"a.txt is gone":            func(t *testing.T, s *scene) { must(t, os.Remove(s.at("a.txt"))) },
		"a.txt may be executed":    func(t *testing.T, s *scene) { must(t, os.Chmod(s.at("a.txt"), 0o755)) },
		"gone/two is changed":      func(t *testing.T, s *scene) { s.put(t, "gone/two", "mine\n") },
		"new/deep/e.txt is there":  func(t *testing.T, s *scene) { s.put(t, "new/deep/e.txt", "mine\n") },
		"new/deep/e.txt by a file": func(t *testing.T, s *scene) { s.put(t, "new", "mine\n") },
		"new/deep/e.txt by a link": func(t *testing.T, s *scene) { must(t, os.Symlink(outside, s.at("new"))) },
		"becomes-dir is a link":    func(t *testing.T, s *scene) { relink(t, outside, s.at("becomes-dir")) },
		"dir/sub/d.txt by a link": func(t *testing.T, s *scene) {
			must(t, os.RemoveAll(s.at("dir/sub")))
			relink(t, outside, s.at("dir/sub"))
		},
		"becomes-file is not empty": func(t *testing.T, s *scene) { s.put(t, "becomes-file/mine", "mine\n") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, files())
			p := s.read(t).Plan(everyChange())
			meanwhile(t, s)
			before := s.all(t)
			var conflict *ConflictError
			if err := p.Apply(s.journals); !errors.As(err, &conflict) {
				t.Fatalf("%v, want a conflict", err)
			}
			word, _, _ := strings.Cut(name, " ")
			found := false
			for _, c := range conflict.Conflicts {
				found = found || c.Name == word && c.Why != ""
			}
			if !found {
				t.Errorf("%v does not name %s", conflict, word)
			}
			if now := s.all(t); now != before {
				t.Errorf("the tree is now\n%s", now)
			}
			if left := s.litter(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if entries, _ := os.ReadDir(outside); len(entries) > 0 {
				t.Errorf("outside: %v", entries)
			}
		})
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func relink(t *testing.T, to, at string) {
	t.Helper()
	must(t, os.RemoveAll(at), os.Symlink(to, at))
}

// TestApplyMeetsChangesBetweenTheSteps: whatever somebody does to a file after
// the look at it, nothing of his is lost, and nothing is applied in part.
func TestApplyMeetsChangesBetweenTheSteps(t *testing.T) {
	leak.Check(t)
	outside := t.TempDir()
	for name, at := range map[string]struct {
		point  string
		change func(*testing.T, *scene)
	}{
		"written in place": {"journal stands", func(t *testing.T, s *scene) { s.put(t, "a.txt", "mine\n") }},
		"replaced by rename": {"journal stands", func(t *testing.T, s *scene) {
			s.put(t, "mine", "mine\n")
			must(t, os.Rename(s.at("mine"), s.at("a.txt")))
		}},
		"replaced by a link":     {"journal stands", func(t *testing.T, s *scene) { relink(t, outside, s.at("a.txt")) }},
		"what is new is there":   {"journal stands", func(t *testing.T, s *scene) { s.put(t, "new/deep/e.txt", "mine\n") }},
		"a link on the way":      {"journal stands", func(t *testing.T, s *scene) { must(t, os.Symlink(outside, s.at("new"))) }},
		"late, written in place": {"swapped b.txt", func(t *testing.T, s *scene) { s.put(t, "run.sh*", "mine\n") }},
		"late, a link on the way": {"swapped b.txt", func(t *testing.T, s *scene) {
			must(t, os.RemoveAll(s.at("new")), os.Symlink(outside, s.at("new")))
		}},
		"removed": {"staged a.txt", func(t *testing.T, s *scene) { must(t, os.Remove(s.at("a.txt"))) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, files())
			p := s.read(t).Plan(everyChange())
			var want string
			err := p.apply(s.journals, func(point string) {
				if point == at.point {
					at.change(t, s)
				}
			})
			u := newScene(t, files()) // the same tree with that change alone
			at.change(t, u)
			want = u.all(t)
			var conflict *ConflictError
			if !errors.As(err, &conflict) {
				t.Fatalf("%v, want a conflict", err)
			}
			if now := s.all(t); now != want {
				t.Errorf("the tree is now\n%s\nwant\n%s", now, want)
			}
			if left := s.litter(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if entries, _ := os.ReadDir(outside); len(entries) > 0 {
				t.Errorf("outside: %v", entries)
			}
		})
	}
}

func TestApplyKeepsModesAndNeverGivesSetuid(t *testing.T) {
	s := newScene(t, map[string]string{"private": "p\n", "setuid*": "s\n", "group": "g\n"})
	must(t, os.Chmod(s.at("private"), 0o600), os.Chmod(s.at("setuid"), os.ModeSetuid|os.ModeSetgid|0o755), os.Chmod(s.at("group"), 0o664))
	group := changed("group", "G\n")
	group.Executable = true
	setuid := changed("setuid", "S\n")
	setuid.Executable = true
	if err := s.read(t).Plan(changes(changed("private", "P\n"), setuid, group)).Apply(s.journals); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"private": 0o600, "setuid": 0o755, "group": 0o775} {
		if info, err := os.Lstat(s.at(name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

func TestApplyIsOneAtATime(t *testing.T) {
	leak.Check(t)
	s := newScene(t, files())
	p := s.read(t).Plan(everyChange())
	err := p.apply(s.journals, func(point string) {
		if point != "journal stands" {
			return
		}
		if err := p.Apply(s.journals); !errors.Is(err, ErrBusy) {
			t.Errorf("a second one: %v, want ErrBusy", err)
		}
		if _, err := Read(context.Background(), s.dir, Options{Journals: s.journals}); !errors.Is(err, ErrBusy) {
			t.Errorf("a Read: %v, want ErrBusy", err)
		}
	})
	if err != nil || s.all(t) != afterEveryChange {
		t.Errorf("%v\n%s", err, s.all(t))
	}
}

// TestJournalOfTheTreeIsNotOurs: what a tree brings under our names is never
// believed.
func TestJournalOfTheTreeIsNotOurs(t *testing.T) {
	outside := t.TempDir()
	for name, bring := range map[string]func(*testing.T, *scene){
		"a link":      func(t *testing.T, s *scene) { must(t, os.Symlink(outside, s.at(".callcell"))) },
		"a file":      func(t *testing.T, s *scene) { s.put(t, ".callcell", "x\n") },
		"a directory": func(t *testing.T, s *scene) { s.put(t, ".callcell/journal", "x\n") },
	} {
		s := newScene(t, files())
		bring(t, s)
		err := s.read(t).Plan(changes(changed("a.txt", "A\n"))).Apply(s.journals)
		data, readErr := os.ReadFile(s.at("a.txt"))
		must(t, readErr)
		if applied := string(data) == "A\n"; applied != (err == nil) {
			t.Errorf("%s: %v, and the file holds %q", name, err, data)
		}
		if err == nil && name != "a directory" {
			t.Errorf("%s: used as ours", name)
		}
		if entries, _ := os.ReadDir(outside); len(entries) > 0 {
			t.Errorf("%s: outside: %v", name, entries)
		}
		if entries, _ := os.ReadDir(s.journals); len(entries) > 0 {
			t.Errorf("%s: journals: %v", name, entries)
		}
	}
}

// TestABitThatIsGainedIsNamed: what may be executed now, and was not before, wants
// a second look, whatever else became of the file.
func TestABitThatIsGainedIsNamed(t *testing.T) {
	tree := &Tree{Files: []File{{Name: "doc", Data: []byte("a")}, {Name: "run", Data: []byte("a"), Executable: true}}}
	now := func(c envelope.Change) envelope.Change { c.Executable = true; return c }
	p := tree.Plan(changes(now(changed("doc", "b")), now(changed("run", "b")), now(added("new", "b")), added("text", "b")))
	if want := []Note{{"doc", "it may be executed now"}, {"new", "it may be executed now"}}; len(p.Refused) != 0 || !slices.Equal(p.Warnings, want) {
		t.Errorf("%v, refused %v", p.Warnings, p.Refused)
	}
}
