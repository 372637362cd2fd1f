package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest/fake"
	"github.com/callcell/callcell/internal/placement"
)

// newTreeStand is a stand whose level can run calls with a tree; work is what
// the program /bin/work does.
func newTreeStand(t *testing.T, work func(*fake.Files) error, adjust ...func(*broker.Config)) *stand {
	s := newStand(t, append(adjust, func(c *broker.Config) {
		c.Offers = offers(placement.Offer{Level: envelope.LevelContainer, Available: true})
	})...)
	more := programs()
	more["work"] = func(p *fake.Proc) fake.Status {
		if err := work(p.Files); err != nil {
			fmt.Fprintln(p.Stderr, err)
			return fake.Exit(1)
		}
		return fake.Exit(0)
	}
	s.runtime = fake.New(envelope.LevelContainer, more)
	return s
}

func treeCall() *envelope.Call {
	c := argv("/bin/work")
	c.Tree = &envelope.Tree{
		Files: []envelope.File{
			{Name: "a", Data: []byte("a\n")}, {Name: "b", Data: []byte("b\n")}, {Name: "dir/c", Data: []byte("c\n")}, {Name: "dir/run", Data: []byte("#!\n"), Executable: true},
			{Name: ".git/config", Data: []byte("[core]\n")}, {Name: "kept.log", Data: []byte("log\n")},
		},
		Ignore: []envelope.Ignore{{Rules: "*.log\nbuild/\n"}, {Dir: "dir", Rules: "!x.log\n"}},
	}
	return c
}

// kinds is what a result says of each file.
func kinds(r *envelope.Result) (list []string) {
	if r.Changes == nil {
		return []string{"none"}
	}
	for _, c := range r.Changes.Files {
		list = append(list, c.Kind.String()+" "+c.Name+"="+string(c.Data))
	}
	return list
}

func TestTreeChangesComeBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		work   func(*fake.Files) error
		want   []string
		missed []string
	}{
		{"nothing", func(*fake.Files) error { return nil }, nil, nil},
		{"written as it was", func(f *fake.Files) error { return f.Write("a", []byte("a\n"), false) }, nil, nil},
		{"changed, of the same size", func(f *fake.Files) error { return f.Write("a", []byte("A\n"), false) }, []string{"changed a=A\n"}, nil},
		{"changed, of another size", func(f *fake.Files) error { return f.Write("a", []byte("longer\n"), false) }, []string{"changed a=longer\n"}, nil},
		{"mode", func(f *fake.Files) error { return f.Write("a", []byte("a\n"), true) }, []string{"mode a=a\n"}, nil},
		{"removed", func(f *fake.Files) error { f.Remove("dir/c"); return nil }, []string{"removed dir/c="}, nil},
		{"added", func(f *fake.Files) error { return f.Write("dir/new/x", []byte("x"), true) }, []string{"added dir/new/x=x"}, nil},
		{"ignored where it is new", func(f *fake.Files) error {
			return errors.Join(f.Write("x.log", nil, false), f.Write("build/a/b", nil, false))
		}, nil, nil},
		{"taken in again below", func(f *fake.Files) error { return f.Write("dir/x.log", nil, false) }, []string{"added dir/x.log="}, nil},
		{"of the tree, though it is ignored", func(f *fake.Files) error { return f.Write("kept.log", []byte("LOG\n"), false) }, []string{"changed kept.log=LOG\n"}, nil},
		{"below .git, changed", func(f *fake.Files) error { return f.Write(".git/config", []byte("[core]\n\tfsmonitor=x\n"), false) }, nil, []string{".git/"}},
		{"below .git, removed", func(f *fake.Files) error { f.Remove(".git/config"); return nil }, nil, []string{".git/"}},
		{"below .git, new, in capitals", func(f *fake.Files) error { return f.Write("dir/.GIT/hooks/x", nil, true) }, nil, []string{".git/"}},
		{"a link in its place", func(f *fake.Files) error { return f.Link("a") }, nil, []string{"a"}},
		{"links and FIFOs that are new", func(f *fake.Files) error { return errors.Join(f.Link("l"), f.Fifo("dir/f")) }, nil, []string{"dir/f", "l"}},
		{"names that are none", func(f *fake.Files) error {
			return errors.Join(f.Write("bi\u202edi", nil, false), f.Write("\xff", nil, false))
		}, nil, []string{`"\xff"`, `"bi\u202edi"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTreeStand(t, c.work)
			r := s.run(t.Context(), treeCall())
			if !r.OK() || r.Changes == nil || !r.Changes.Complete {
				t.Fatalf("%v %s: %+v", r.Refusal, r.Stderr.Head, r.Changes)
			}
			if got := kinds(r); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			var missed []string
			for _, m := range r.Changes.Missing {
				missed = append(missed, m.Name)
			}
			if slices.Sort(missed); !slices.Equal(missed, c.missed) {
				t.Errorf("missed %q, want %q", missed, c.missed)
			}
			for _, f := range r.Changes.Files {
				if (f.After == "") != (f.Kind == envelope.ChangeRemoved) || (f.Before == "") != (f.Kind == envelope.ChangeAdded) {
					t.Errorf("digests of %s: %q %q", f.Name, f.Before, f.After)
				}
			}
		})
	}
}

// TestTreeBesideInputs: what the call brings beside its tree is none of it.
func TestTreeBesideInputs(t *testing.T) {
	s := newTreeStand(t, func(f *fake.Files) error { return f.Write("in", []byte("changed"), false) })
	call := treeCall()
	call.Inputs = []envelope.File{{Name: "in", Data: []byte("in")}}
	var env []string
	s.commands = func(cmd cell.Command) { env = cmd.Env }
	if r := s.run(t.Context(), call); !r.OK() || len(r.Changes.Files) != 0 || r.Changes.Same != 5 {
		t.Errorf("%+v", r.Changes)
	}
	if !slices.Contains(env, "HOME="+cell.TempDir) {
		t.Errorf("what the program keeps in its home would be part of the tree: %q", env)
	}
}

func TestTreeCaps(t *testing.T) {
	work := func(f *fake.Files) error {
		f.Remove("dir/c")
		return errors.Join(f.Write("a", []byte("AAAA"), false), f.Write("n1", []byte("1111"), false), f.Write("n2", []byte("2222"), false))
	}
	for _, c := range []struct {
		caps     envelope.OutputCaps
		files    int
		complete bool
	}{
		{envelope.OutputCaps{Count: 4, Bytes: 12}, 4, true}, {envelope.OutputCaps{Count: 3, Bytes: 12}, 3, false},
		{envelope.OutputCaps{Count: 4, Bytes: 11}, 3, false}, {envelope.OutputCaps{Count: 0, Bytes: 0}, 0, false},
	} {
		s := newTreeStand(t, work)
		s.profile.Files.Tree.Changes = c.caps
		r := s.run(t.Context(), treeCall())
		if !r.OK() || len(r.Changes.Files) != c.files || r.Changes.Complete != c.complete {
			t.Errorf("%+v: %d files, complete %v; want %d, %v", c.caps, len(r.Changes.Files), r.Changes.Complete, c.files, c.complete)
		}
		if !c.complete && !slices.ContainsFunc(r.Changes.Missing, func(m envelope.Miss) bool { return strings.Contains(m.Why, "files.tree.changes") }) {
			t.Errorf("%+v: nothing says which cap: %+v", c.caps, r.Changes.Missing)
		}
	}
	s := newTreeStand(t, work)
	s.profile.Files.Tree.Count = 5
	if r := s.run(t.Context(), treeCall()); r.Refusal == nil || r.Refusal.Reason != envelope.ReasonPolicy || r.Refusal.Field != "tree" {
		t.Errorf("a tree over the cap: %+v", r.Refusal)
	}
}

// TestTreeOfALiar: a cell that says what is not so can hide a change of its
// own, and do nothing else.
func TestTreeOfALiar(t *testing.T) {
	for name, lies := range map[string]func([]cell.Entry) []cell.Entry{
		"names above": func(l []cell.Entry) []cell.Entry {
			return append(l, cell.Entry{Name: "../../etc/passwd", Regular: true, Size: 1})
		},
		"names twice": func(l []cell.Entry) []cell.Entry { return append(l, l...) },
		"not there":   func(l []cell.Entry) []cell.Entry { return append(l, cell.Entry{Name: "ghost", Regular: true, Size: 5}) },
		"negative": func(l []cell.Entry) []cell.Entry {
			return append(l, cell.Entry{Name: "minus", Regular: true, Size: -5})
		},
		"huge": func(l []cell.Entry) []cell.Entry {
			return append(l, cell.Entry{Name: "huge", Regular: true, Size: 1 << 62})
		},
		"smaller than so": func(l []cell.Entry) []cell.Entry {
			for i := range l {
				l[i].Size = 0
			}
			return l
		},
	} {
		s := newTreeStand(t, func(f *fake.Files) error { return f.Write("n", []byte("new"), false) })
		s.lies = lies
		r := s.run(t.Context(), treeCall())
		if !r.OK() || r.Changes == nil {
			t.Errorf("%s: %+v", name, r.Changes)
			continue
		}
		for _, c := range r.Changes.Files {
			if envelope.CheckName(c.Name) != nil || c.Name == "ghost" || c.Name == "minus" || c.Name == "huge" {
				t.Errorf("%s: %q came back", name, c.Name)
			}
		}
	}
}

func TestTreeIsWithheld(t *testing.T) {
	for point, want := range map[string]envelope.Outcome{"list": envelope.OutcomeCompleted, "get": envelope.OutcomeCompleted, "stop": envelope.OutcomeCompleted, "close": envelope.OutcomeCompleted} {
		s := newTreeStand(t, func(f *fake.Files) error { return f.Write("n", []byte("new"), false) })
		s.fault(point, func(context.Context) error { return errors.New("broken") })
		r := s.run(t.Context(), treeCall())
		if r.Outcome != want || r.Changes == nil || r.Changes.Complete || len(r.Changes.Files) != 0 || len(r.Changes.Missing) == 0 {
			t.Errorf("%s: %v %+v", point, r.Outcome, r.Changes)
		}
	}
}

func TestTreeNeedsALevelThatCan(t *testing.T) {
	s := newStand(t) // offers what runtimes say of themselves
	if r := s.run(t.Context(), treeCall()); r.Refusal == nil || r.Refusal.Reason != envelope.ReasonUnsupported && r.Refusal.Reason != envelope.ReasonIsolation {
		t.Errorf("%+v", r.Refusal)
	}
}

// A shelf keeps one workspace in memory.
type shelf struct {
	version   int64
	tree      *envelope.Tree
	taken     int
	released  int
	committed *envelope.Changes
	refuse    *envelope.Refusal
	fail      error
	team      string
}

func (s *shelf) Take(_ context.Context, team, _ string, version int64, _ time.Time) (broker.Loan, error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	s.team = team
	s.taken++
	return s, nil
}

func (s *shelf) Version() int64       { return s.version }
func (s *shelf) Tree() *envelope.Tree { return s.tree }
func (s *shelf) Commit(_ context.Context, _ string, _ *envelope.Tree, changes *envelope.Changes) (int64, error) {
	s.committed = changes
	return s.version + 1, s.fail
}

func (s *shelf) Release(context.Context) error { s.released++; return nil }

func TestWorkspaces(t *testing.T) {
	write := func(f *fake.Files) error { return f.Write("n", []byte("new"), false) }
	for _, c := range []struct {
		name  string
		shelf shelf
		work  func(*fake.Files) error
		call  func(*envelope.Call)
		fault string
		wrote int64
		why   string
	}{
		{"the first version", shelf{}, write, nil, "", 1, ""},
		{"the next version", shelf{version: 3, tree: treeCall().Tree}, write, nil, "", 4, ""},
		{"nothing changed", shelf{version: 3, tree: treeCall().Tree}, func(*fake.Files) error { return nil }, nil, "", 0, "nothing changed"},
		{"it fails with a code", shelf{version: 3, tree: treeCall().Tree}, func(f *fake.Files) error { return errors.Join(write(f), errors.New("no")) }, nil, "", 4, ""},
		{"the program is killed", shelf{version: 3, tree: treeCall().Tree}, write, func(c *envelope.Call) { c.Argv = []string{"/bin/signal", "9"} }, "", 0, "did not end by itself"},
		{"the teardown is not complete", shelf{version: 3, tree: treeCall().Tree}, write, nil, "close", 0, "not all changes"},
		{"the listing fails", shelf{version: 3, tree: treeCall().Tree}, write, nil, "list", 0, "not all changes"},
		{"the commit fails", shelf{version: 3, tree: treeCall().Tree, fail: errors.New("disk full")}, write, nil, "", 0, "disk full"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTreeStand(t, c.work, func(b *broker.Config) { b.Workspaces = &c.shelf })
			if c.fault != "" {
				s.fault(c.fault, func(context.Context) error { return errors.New("broken") })
			}
			call := argv("/bin/work")
			call.Workspace = &envelope.Workspace{Name: "w"}
			if c.call != nil {
				c.call(call)
			}
			r := s.run(t.Context(), call)
			w := r.Workspace
			if w == nil || w.Name != "w" || w.Read != c.shelf.version || w.Wrote != c.wrote || !strings.Contains(w.Why, c.why) || (w.Why == "") != (c.wrote > 0) {
				t.Errorf("%+v, want version %d (%s)", w, c.wrote, c.why)
			}
			if c.shelf.taken != 1 || c.shelf.released != 1 || c.shelf.team != "blue" || (c.shelf.committed != nil) != (c.wrote > 0 || c.shelf.fail != nil) {
				t.Errorf("%+v", c.shelf)
			}
			if call.Tree != nil {
				t.Error("the caller's call was changed")
			}
		})
	}
}

func TestWorkspaceRefusals(t *testing.T) {
	run := func(shelf *shelf, change func(*envelope.Call)) *envelope.Result {
		s := newTreeStand(t, func(*fake.Files) error { return nil }, func(b *broker.Config) {
			if shelf != nil {
				b.Workspaces = shelf
			}
		})
		call := argv("/bin/work")
		call.Workspace = &envelope.Workspace{Name: "w"}
		if change != nil {
			change(call)
		}
		r := s.run(t.Context(), call)
		if r.Refusal == nil || s.count("exec") != 0 {
			t.Errorf("not refused: %+v", r)
			r.Refusal = &envelope.Refusal{}
		}
		return r
	}
	if r := run(nil, nil); r.Refusal.Reason != envelope.ReasonUnsupported {
		t.Errorf("%+v", r.Refusal)
	}
	conflict := &envelope.Refusal{Reason: envelope.ReasonPolicy, Message: "it is at version 4"}
	if r := run(&shelf{refuse: conflict}, nil); r.Refusal != conflict {
		t.Errorf("%+v", r.Refusal)
	}
	full := &shelf{version: 2, tree: treeCall().Tree}
	if r := run(full, func(c *envelope.Call) { c.Tree = treeCall().Tree }); r.Refusal.Field != "tree" || full.released != 1 {
		t.Errorf("a tree beside a version: %+v, released %d", r.Refusal, full.released)
	}
	clash := &shelf{version: 2, tree: treeCall().Tree}
	if r := run(clash, func(c *envelope.Call) { c.Inputs = []envelope.File{{Name: "a"}} }); r.Refusal.Reason != envelope.ReasonRequest || clash.released != 1 {
		t.Errorf("an input of the same name: %+v", r.Refusal)
	}
}

// TestSizesThatOverflow: a guest says how large a file is, and the host reads
// as much as it asks for. However large that is said to be, it is within the caps.
func TestSizesThatOverflow(t *testing.T) {
	const many = 251 // with those of the tree one portion, so that bytes are counted when the lie comes
	s := newTreeStand(t, func(f *fake.Files) error {
		var errs []error
		for i := range many {
			errs = append(errs, f.Write(fmt.Sprintf("n%03d", i), []byte("x"), false))
		}
		return errors.Join(append(errs, f.Write("y", nil, false), f.Write("z", []byte("z"), false))...)
	})
	s.profile.Files.Tree.Changes = envelope.OutputCaps{Count: 2 * many, Bytes: envelope.MiB}
	s.lies = func(list []cell.Entry) []cell.Entry {
		for i := range list {
			if list[i].Name == "z" {
				list[i].Size = math.MaxInt64
			}
		}
		return list
	}
	s.gets = func(names []string, caps envelope.OutputCaps) {
		if caps.Bytes < 0 || caps.Bytes > envelope.MiB {
			t.Errorf("%d bytes of %q are asked for", int64(caps.Bytes), names)
		}
	}
	r := s.run(t.Context(), treeCall())
	if r.Changes == nil || r.Changes.Complete || len(r.Changes.Files) != many+1 {
		t.Errorf("%v %s %+v", r.Refusal, r.Stderr.Head, r.Changes)
	}
}

// TestCostlyIgnoreRules: a caller's rules and a program's names are held against
// each other on the host, and take no more of it than they may. What could not be
// decided is not taken for ignored.
func TestCostlyIgnoreRules(t *testing.T) {
	s := newTreeStand(t, func(*fake.Files) error { return nil })
	s.lies = func(list []cell.Entry) []cell.Entry {
		for i := range 5000 {
			list = append(list, cell.Entry{Name: fmt.Sprintf("%s%04d", strings.Repeat("a", 200), i), Regular: true})
		}
		return list
	}
	call := treeCall()
	call.Tree.Ignore = []envelope.Ignore{{Rules: strings.Repeat("*"+strings.Repeat("[a-b]", 90)+"c\n", 2000)}}
	r := s.run(t.Context(), call)
	if r.Changes == nil || r.Changes.Complete || r.Changes.Ignored != 0 || !slices.ContainsFunc(r.Changes.Missing, func(m envelope.Miss) bool { return strings.Contains(m.Why, "takes too long") }) {
		t.Errorf("%v %+v", r.Refusal, r.Changes)
	}
}
