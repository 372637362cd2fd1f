package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/blob"
	"github.com/callcell/callcell/internal/testing/leak"
	"github.com/callcell/callcell/internal/workspace"
)

// keeper keeps workspaces in a store and in blobs beside it.
func keeper(path string, d *DB, keep int64) *workspace.Keeper {
	blobs := blob.New(filepath.Join(filepath.Dir(path), "blobs"), blob.DefaultLimits())
	return workspace.New(d.Workspaces(), blobs, keep, time.Now)
}

func changed(name, text string, kind envelope.ChangeKind) envelope.Change {
	return envelope.Change{Name: name, Kind: kind, Data: []byte(text)}
}

// write takes a workspace, changes it, and lets go.
func write(ctx context.Context, k *workspace.Keeper, team, name string, changes ...envelope.Change) (int64, error) {
	l, err := k.Take(ctx, team, name, 0, time.Now().Add(time.Minute))
	if err != nil {
		return 0, err
	}
	n, err := l.Commit(ctx, "01990000-0000-7000-8000-000000000001", l.Tree(), &envelope.Changes{Files: changes, Complete: true})
	return n, errors.Join(err, l.Release(ctx))
}

func contents(t *envelope.Tree) string {
	var out []string
	for _, f := range t.Files {
		text := f.Name + "=" + string(f.Data)
		if f.Executable {
			text += "*"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestWorkspaceVersions(t *testing.T) {
	leak.Check(t)
	path := file(t)
	k := keeper(path, open(t, path), 100)
	ctx := t.Context()
	first, err := k.Take(ctx, "blue", "w", 0, time.Now().Add(time.Minute))
	if err != nil || first.Version() != 0 || len(first.Tree().Files) != 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	seed := &envelope.Tree{Files: []envelope.File{{Name: "b", Data: []byte("b")}, {Name: "a", Data: []byte("a"), Executable: true}}, Ignore: []envelope.Ignore{{Rules: "*.o"}}}
	n, err := first.Commit(ctx, "call-1", seed, &envelope.Changes{Files: []envelope.Change{changed("b", "B", envelope.ChangeChanged)}})
	if err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := write(ctx, k, "blue", "w", changed("dir/c", "c", envelope.ChangeAdded), changed("a", "", envelope.ChangeRemoved)); err != nil || n != 2 {
		t.Fatalf("%d, %v", n, err)
	}
	for number, want := range map[int64]string{1: "a=a* b=B", 2: "b=B dir/c=c", 0: "b=B dir/c=c"} {
		v, tree, err := k.Read(ctx, "blue", "w", number)
		if err != nil || contents(tree) != want || !reflect.DeepEqual(tree.Ignore, seed.Ignore) || number > 0 && v.Number != number {
			t.Errorf("version %d: %q, %v; want %q", number, contents(tree), err, want)
		}
	}
	list, err := k.Diff(ctx, "blue", "w", 1, 2)
	var got []string
	for _, d := range list {
		got = append(got, fmt.Sprintf("%s %s %q->%q", d.Change.Kind, d.Change.Name, d.Before, d.Change.Data))
	}
	if want := []string{`removed a "a"->""`, `added dir/c ""->"c"`}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for what, err := range map[string]error{
		"of another team":       func() error { _, _, err := k.Read(ctx, "red", "w", 1); return err }(),
		"a version there isn't": func() error { _, _, err := k.Read(ctx, "blue", "w", 9); return err }(),
		"rm of another team":    func() error { _, err := k.Remove(ctx, "red", "w", 0); return err }(),
	} {
		if !errors.Is(err, workspace.ErrAbsent) {
			t.Errorf("%s: %v, want ErrAbsent", what, err)
		}
	}
	if n, err := write(ctx, k, "red", "w", changed("b", "red's", envelope.ChangeAdded)); err != nil || n != 1 {
		t.Errorf("the same name of another team: %d, %v", n, err)
	}
}

func TestWorkspaceConflictsAreRefusals(t *testing.T) {
	leak.Check(t)
	path := file(t)
	k := keeper(path, open(t, path), 100)
	ctx := t.Context()
	for range 2 {
		if _, err := write(ctx, k, "blue", "w", changed("f"+fmt.Sprint(time.Now().UnixNano()), "x", envelope.ChangeAdded)); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(name string, version int64) *envelope.Refusal {
		l, err := k.Take(ctx, "blue", name, version, time.Now().Add(time.Minute))
		if err == nil {
			t.Errorf("%s@%d was given out", name, version)
			return &envelope.Refusal{Message: "none", Reason: 0, Hint: "", Field: fmt.Sprint(l.Release(ctx))}
		}
		return envelope.RefusalOf(err)
	}
	if r := refused("w", 1); r.Reason != envelope.ReasonPolicy || r.Field != "workspace.version" || !strings.Contains(r.Hint, "version 2") || r.Retry {
		t.Errorf("an old version: %+v", r)
	}
	if r := refused("w", 3); r.Reason != envelope.ReasonPolicy {
		t.Errorf("a version to come: %+v", r)
	}
	if r := refused("absent", 1); r.Reason != envelope.ReasonRequest {
		t.Errorf("a version of none: %+v", r)
	}
	l, err := k.Take(ctx, "blue", "w", 2, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if r := refused("w", 2); r.Reason != envelope.ReasonCapacity || !r.Retry || r.Hint == "" {
		t.Errorf("while another has it: %+v", r)
	}
	if _, err := k.Remove(ctx, "blue", "w", 0); !errors.Is(err, workspace.ErrHeld) {
		t.Errorf("removed while a call has it: %v", err)
	}
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestLostHoldsDoNotCommit(t *testing.T) {
	leak.Check(t)
	path := file(t)
	k := keeper(path, open(t, path), 100)
	ctx := t.Context()
	late, err := k.Take(ctx, "blue", "w", 0, time.Now().Add(-time.Second)) // over already
	if err != nil {
		t.Fatal(err)
	}
	if n, err := write(ctx, k, "blue", "w", changed("a", "a", envelope.ChangeAdded)); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	n, err := late.Commit(ctx, "call", &envelope.Tree{}, &envelope.Changes{Files: []envelope.Change{changed("late", "late", envelope.ChangeAdded)}})
	if !errors.Is(err, workspace.ErrLost) || n != 0 {
		t.Errorf("%d, %v; want ErrLost", n, err)
	}
	if err := late.Release(ctx); err != nil {
		t.Error(err)
	}
	if _, tree, err := k.Read(ctx, "blue", "w", 0); err != nil || contents(tree) != "a=a" {
		t.Errorf("%q, %v", contents(tree), err)
	}
}

// TestOneOfManyWrites: of calls that come at once each writes a version of its
// own, or is refused; none is lost.
func TestOneOfManyWrites(t *testing.T) {
	leak.Check(t)
	path := file(t)
	k := keeper(path, open(t, path), 1000)
	var wrote, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 10 {
				switch n, err := write(t.Context(), k, "blue", "w", changed(fmt.Sprintf("f%d-%d", i, j), "x", envelope.ChangeAdded)); {
				case err == nil && n > 0:
					wrote.Add(1)
				case errors.Is(err, workspace.ErrHeld):
					refused.Add(1)
				default:
					t.Errorf("%d, %v", n, err)
				}
			}
		})
	}
	all.Wait()
	v, tree, err := k.Read(t.Context(), "blue", "w", 0)
	if err != nil || v.Number != wrote.Load() || int64(len(tree.Files)) != wrote.Load() || wrote.Load()+refused.Load() != 80 {
		t.Errorf("version %d with %d files, %v; %d wrote and %d were refused", v.Number, len(tree.Files), err, wrote.Load(), refused.Load())
	}
}

func TestOldVersionsGo(t *testing.T) {
	path := file(t)
	k := keeper(path, open(t, path), 3)
	ctx := t.Context()
	kind := envelope.ChangeAdded
	for i := range 6 {
		if _, err := write(ctx, k, "blue", "w", changed("f", strings.Repeat("x", i+1), kind)); err != nil {
			t.Fatal(err)
		}
		kind = envelope.ChangeChanged
	}
	list, err := k.Versions(ctx, "blue", "w")
	if err != nil || len(list) != 3 || list[0].Number != 6 || list[2].Number != 4 {
		t.Errorf("%+v, %v", list, err)
	}
	if r, err := k.GC(ctx); err != nil || r.Blobs != 6 || r.Kept != 6 { // a file and a manifest each
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := k.Remove(ctx, "blue", "w", 6); !errors.Is(err, workspace.ErrStale) {
		t.Errorf("the newest by itself: %v", err)
	}
	if n, err := k.Remove(ctx, "blue", "w", 5); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	if _, tree, err := k.Read(ctx, "blue", "w", 0); err != nil || contents(tree) != "f=xxxxxx" {
		t.Errorf("%v", err)
	}
	if n, err := k.Remove(ctx, "blue", "w", 0); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if r, err := k.GC(ctx); err != nil || r.Kept != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestDamagedVersionsAreFound(t *testing.T) {
	path := file(t)
	d := open(t, path)
	k := keeper(path, d, 100)
	ctx := t.Context()
	if _, err := write(ctx, k, "blue", "w", changed("a", "content", envelope.ChangeAdded)); err != nil {
		t.Fatal(err)
	}
	if err := runSQL(t, path, "UPDATE versions SET manifest = zeroblob(32)"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Read(ctx, "blue", "w", 1); !errors.Is(err, workspace.ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
	if _, err := k.GC(ctx); !errors.Is(err, workspace.ErrCorrupt) {
		t.Errorf("GC: %v: it does not know what is kept", err)
	}
	_, err := k.Take(ctx, "blue", "w", 0, time.Now().Add(time.Minute))
	if r := envelope.RefusalOf(err); r == nil || r.Reason != envelope.ReasonSetup {
		t.Errorf("%v", err)
	}
	if _, err := k.Remove(ctx, "blue", "w", 0); err != nil {
		t.Errorf("held for ever after that: %v", err)
	}
}

// commits writes versions without end, and says each.
func commits(ctx context.Context, path string) error {
	d, err := Open(ctx, path)
	if err != nil {
		return err
	}
	k := keeper(path, d, 1000)
	for i := 0; ; i++ {
		l, err := k.Take(ctx, "blue", "w", 0, time.Now().Add(time.Millisecond))
		if err != nil {
			return err
		}
		n, err := l.Commit(ctx, "call", l.Tree(), &envelope.Changes{Files: []envelope.Change{
			changed(fmt.Sprintf("f%d", l.Version()), fmt.Sprintf("version %d", l.Version()), envelope.ChangeAdded)}})
		if err != nil {
			return err
		}
		if err := l.Release(ctx); err != nil {
			return err
		}
		fmt.Println("version", n)
		if i%7 == 6 {
			if _, err := k.GC(ctx); err != nil {
				return err
			}
		}
	}
}

// TestKilledCommits kills a process that writes versions and collects, again
// and again: what it was told is written is there, whole, and the next goes on.
func TestKilledCommits(t *testing.T) {
	path := file(t)
	told := int64(0)
	for round := range 5 {
		r, w := io.Pipe()
		cmd := helper(t, w, "commits", path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(r)
		for n := 0; n < 4+3*round && lines.Scan(); n++ {
			told = toldVersion(t, lines.Text(), told)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		go func() {
			cmd.Wait()
			w.Close()
		}()
		for lines.Scan() {
			told = toldVersion(t, lines.Text(), told)
		}
		d, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		checkVersions(t, keeper(path, d, 1000), told)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if told < 30 {
		t.Errorf("only %d versions were told", told)
	}
}

func toldVersion(t *testing.T, line string, before int64) int64 {
	t.Helper()
	var n int64
	if _, err := fmt.Sscanf(line, "version %d", &n); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return max(n, before)
}

// checkVersions checks that every version is there and whole.
func checkVersions(t *testing.T, k *workspace.Keeper, told int64) {
	t.Helper()
	list, err := k.Versions(t.Context(), "blue", "w")
	if err != nil || int64(len(list)) < told || list[0].Number != int64(len(list)) {
		t.Fatalf("%d versions, %v; %d were told", len(list), err, told)
	}
	for _, v := range list {
		_, tree, err := k.Read(t.Context(), "blue", "w", v.Number)
		if err != nil || int64(len(tree.Files)) != v.Number {
			t.Fatalf("version %d: %d files, %v", v.Number, len(tree.Files), err)
		}
	}
	if r, err := k.GC(t.Context()); err != nil || r.Kept != 2*len(list) {
		t.Errorf("%d versions: %+v, %v", len(list), r, err)
	}
}
