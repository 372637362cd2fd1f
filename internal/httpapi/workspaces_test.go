package httpapi_test

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/testing/leak"
)

// work makes the next version of a workspace.
func work(t *testing.T, c *client.Client, name string, version int64, line string) *envelope.Result {
	t.Helper()
	return next(t, c, name, version, "/bin/work", line)
}

func next(t *testing.T, c *client.Client, name string, version int64, argv ...string) *envelope.Result {
	t.Helper()
	r, err := c.Run(t.Context(), &envelope.Call{Argv: argv, Workspace: &envelope.Workspace{Name: name, Version: version}})
	if err != nil || !r.OK() || r.Workspace == nil || r.Workspace.Wrote == 0 {
		t.Fatalf("%+v %v", r, err)
	}
	return r
}

// TestWorkspacesOverHTTP: a call reads a version and writes the next; versions
// are listed, compared, read, exported and removed, by who has their team.
func TestWorkspacesOverHTTP(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	ctx := t.Context()
	c := s.client("blue", gateway.RoleCall)
	first := work(t, c, "notes", 0, "one")
	if r := work(t, c, "notes", 1, "two"); r.Workspace.Read != 1 || r.Workspace.Wrote != 2 {
		t.Errorf("%+v", r.Workspace)
	}
	work(t, c, "other", 0, "x")
	list, err := c.Workspaces(ctx)
	if err != nil || len(list) != 2 || list[0].Name != "notes" || list[0].Version != 2 || list[0].Files != 2 || list[1].Name != "other" {
		t.Errorf("%+v %v", list, err)
	}
	versions, err := c.WorkspaceVersions(ctx, "notes")
	if err != nil || len(versions) != 2 || versions[1].Call != first.ID || versions[0].Version != 2 {
		t.Errorf("%+v %v", versions, err)
	}
	one, err := c.ShowWorkspace(ctx, "notes", 1)
	if err != nil || one.Version != versions[1] || one.Version.Manifest == versions[0].Manifest || !strings.HasPrefix(one.Version.Manifest, "sha256:") {
		t.Errorf("%+v %v", one, err)
	}
	files, err := c.WorkspaceFiles(ctx, "notes", 1)
	if err != nil || len(files) != 2 || files[1].Name != "log" || files[1].Digest != envelope.Digest([]byte("one\n")) || files[1].Bytes != 4 {
		t.Errorf("%+v %v", files, err)
	}
	d, err := c.DiffWorkspace(ctx, "notes", -1, 0)
	if err != nil || d.From != 1 || d.To != 2 || len(d.Files) != 2 || !strings.Contains(d.Files[1].Diff, "+two\n") || d.Files[1].Before != files[1].Digest || d.Cut {
		t.Errorf("%+v %v", d, err)
	}
	if d, err := c.DiffWorkspace(ctx, "notes", 0, 1); err != nil || len(d.Files) != 2 || d.Files[1].Kind != envelope.ChangeAdded {
		t.Errorf("%+v %v", d, err)
	}
	r, err := c.ReadWorkspaceFile(ctx, "notes", 0, "log")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); errors.Join(err, r.Close()) != nil || string(text) != "one\ntwo\n" {
		t.Errorf("%q %v", text, err)
	}
	if got := exported(t, c, "notes", 2); got != fmt.Sprintf("large 644 %d;log 644 8;", 800) {
		t.Errorf("%s", got)
	}
	var p *client.Problem
	if _, err := c.RemoveWorkspace(ctx, "notes", 2); !errors.As(err, &p) || p.Code != "conflict" || p.Status != 409 {
		t.Errorf("%v", err)
	}
	if n, err := c.RemoveWorkspace(ctx, "notes", 1); err != nil || n != 1 || s.freed.Load() != 1 {
		t.Errorf("%d %v", n, err)
	}
	if n, err := c.RemoveWorkspace(ctx, "notes", 0); err != nil || n != 1 {
		t.Errorf("%d %v", n, err)
	}
	if _, err := c.WorkspaceVersions(ctx, "notes"); !errors.As(err, &p) || p.Code != "not_found" {
		t.Errorf("%v", err)
	}
}

// exported says what is in an archive.
func exported(t *testing.T, c *client.Client, name string, version int64) (out string) {
	t.Helper()
	r, err := c.ExportWorkspace(t.Context(), name, version)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, archive); err != nil || n != h.Size || h.Typeflag != tar.TypeReg {
			t.Errorf("%+v %v", h, err)
		}
		out += fmt.Sprintf("%s %o %d;", h.Name, h.Mode, h.Size)
	}
}

// TestWorkspaceConflicts: a version that is not the newest, and a workspace that
// another call has, are refusals of their own kind, and nothing runs.
func TestWorkspaceConflicts(t *testing.T) {
	s := newStand(t, nil)
	ctx := t.Context()
	c := s.client("blue", gateway.RoleCall)
	work(t, c, "w", 0, "one")
	work(t, c, "w", 0, "two")
	conflict := func(err error, reason envelope.Reason, field string, retry bool) {
		t.Helper()
		var p *client.Problem
		if !errors.As(err, &p) || p.Code != "conflict" || p.Status != 409 || p.Refusal() == nil || p.Refusal().Reason != reason || p.Field != field || p.Retry != retry || p.Call == "" {
			t.Errorf("%+v", err)
		}
	}
	at := func(version int64, argv ...string) *envelope.Call {
		return &envelope.Call{Argv: argv, Workspace: &envelope.Workspace{Name: "w", Version: version}}
	}
	_, err := c.Run(ctx, at(1, "/bin/work", "x"))
	conflict(err, envelope.ReasonPolicy, "workspace.version", false)
	st, err := c.Start(ctx, at(2, "/bin/hang"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Resume(ctx, st.ID, 0, func(e client.Event) error { // until it has the workspace
		if e.Kind == "running" {
			return io.EOF
		}
		return nil
	})
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	_, err = c.Run(ctx, at(0, "/bin/work", "x"))
	conflict(err, envelope.ReasonCapacity, "workspace", true)
	var p *client.Problem
	if _, err := c.RemoveWorkspace(ctx, "w", 0); !errors.As(err, &p) || p.Code != "conflict" || !p.Retry {
		t.Errorf("%v", err)
	}
	if err := c.Cancel(ctx, st.ID); err != nil {
		t.Error(err)
	}
	if r, err := c.Resume(ctx, st.ID, 0, func(client.Event) error { return nil }); err != nil || r.Workspace.Wrote != 0 || r.Workspace.Read != 2 {
		t.Errorf("%+v %v", r, err)
	}
	_, err = c.Run(ctx, &envelope.Call{Argv: []string{"/bin/print"}, Workspace: &envelope.Workspace{Name: "new", Version: 3}})
	if !errors.As(err, &p) || p.Code != "request" || p.Field != "workspace.version" {
		t.Errorf("%v", err)
	}
	work(t, c, "w", 2, "three")
}

// TestWorkspacesOfOnesTeam: two teams have one name each for themselves, and what
// is another's is not told from none; a key that reads lists and has no bytes.
func TestWorkspacesOfOnesTeam(t *testing.T) {
	s := newStand(t, nil)
	work(t, s.client("blue", gateway.RoleCall), "w", 0, "blue's")
	_, foreign := s.key("red", gateway.RoleAdmin)
	_, reader := s.key("blue", gateway.RoleRead)
	_, key := s.key("blue", gateway.RoleCall)
	for _, path := range []string{"", "/files", "/file?name=log", "/diff", "/export", "/file?name=log&version=1"} {
		theirs, nobodys := s.do("GET", "/v1/workspaces/w"+path, foreign, ""), s.do("GET", "/v1/workspaces/v"+path, foreign, "")
		if theirs.code() != "not_found" || string(theirs.body) != string(nobodys.body) {
			t.Errorf("%s: %d %s, of nobody's %s", path, theirs.StatusCode, theirs.body, nobodys.body)
		}
		want := 200
		if strings.HasPrefix(path, "/file?") || path == "/diff" || path == "/export" {
			want = 403
		}
		if a := s.do("GET", "/v1/workspaces/w"+path, reader, ""); a.StatusCode != want {
			t.Errorf("%s as a reader: %d %s", path, a.StatusCode, a.body)
		}
	}
	if a := s.do("DELETE", "/v1/workspaces/w", foreign, ""); a.code() != "not_found" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := s.do("GET", "/v1/workspaces", foreign, ""); string(a.body) != `{"workspaces":[]}` {
		t.Errorf("%s", a.body)
	}
	for path, want := range map[string]string{"/w/files?version=0": "request", "/w/files?version=x": "request", "/w/files?version=9": "not_found", "/w/file": "not_found",
		"/w/file?name=..%2flog": "not_found", "/w/diff?from=9": "not_found", "/w%00": "request", "/..": "request"} {
		if a := s.do("GET", "/v1/workspaces"+path, key, ""); a.code() != want {
			t.Errorf("%s: %d %s, want %s", path, a.StatusCode, a.body, want)
		}
	}
	work(t, s.client("red", gateway.RoleCall), "w", 0, "red's")
	if a := s.do("GET", "/v1/workspaces/w/file?name=log", key, ""); string(a.body) != "blue's\n" {
		t.Errorf("%s", a.body)
	}
}

// TestWhatIsToGoIsSaidPlainly: a version that cannot be read, is empty or is said
// twice is not the whole workspace.
func TestWhatIsToGoIsSaidPlainly(t *testing.T) {
	s := newStand(t, nil)
	c := s.client("blue", gateway.RoleCall)
	_, key := s.key("blue", gateway.RoleCall)
	work(t, c, "w", 0, "one")
	work(t, c, "w", 1, "two")
	work(t, c, "w", 2, "three")
	for _, query := range []string{"?upTo=", "?upTo", "?upTo=%zz", "?upTo=1;upTo=2", "?upTo=1&upTo=2", "?upTo=1&upTo=", "?upTo=0", "?upTo=-1", "?upTo=9223372036854775808", "?upto=1", "?upTo=1&%", "?=1"} {
		if a := s.do("DELETE", "/v1/workspaces/w"+query, key, ""); a.code() != "request" {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
	}
	if list, err := c.WorkspaceVersions(t.Context(), "w"); err != nil || len(list) != 3 {
		t.Errorf("%+v %v", list, err)
	}
}

// TestLargeDiffsAreCut: what is not compared is named all the same.
func TestLargeDiffsAreCut(t *testing.T) {
	s := newStand(t, nil)
	c := s.client("blue", gateway.RoleCall)
	work(t, c, "w", 0, strings.Repeat("x", 4000)) // large has 400 KB of it
	d, err := c.DiffWorkspace(t.Context(), "w", 0, 0)
	if err != nil || len(d.Files) != 2 || !d.Cut || d.Files[0].Diff != "" || d.Files[0].Bytes < 400_000 || d.Files[1].Diff == "" || d.Patch != "" {
		t.Errorf("%+v %v", d, err)
	}
}

// TestDiffsAreBoundedTogether: one file is bounded, and a program makes many. What
// is not compared is named all the same.
func TestDiffsAreBoundedTogether(t *testing.T) {
	s := newStand(t, nil)
	c := s.client("blue", gateway.RoleCall)
	next(t, c, "w", 0, "/bin/many", "one")
	next(t, c, "w", 1, "/bin/many", "two")
	d, err := c.DiffWorkspace(t.Context(), "w", 1, 2)
	if err != nil || len(d.Files) != 30 || !d.Cut || d.Patch != "" {
		t.Fatalf("%+v %v", d, err)
	}
	compared := 0
	for _, f := range d.Files {
		if f.Diff != "" {
			compared++
		}
	}
	if compared != 12 { // of 40 000 lines each
		t.Errorf("%d are compared", compared)
	}
}
