package cli

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/blob"
	"github.com/callcell/callcell/internal/workspace"
)

const (
	older = "01a22b22-155f-77ec-a41f-ee8a265882ab"
	newer = "01a22b22-155f-77ec-a41f-ee8a265882ac"
	later = "01a22b22-1560-77ec-a41f-ee8a265882ab"
)

// TestNoRowIsShownThatWasNotAskedFor: whoever answers in the place of the daemon
// has no row printed that is of something else, and none that is not one.
func TestNoRowIsShownThatWasNotAskedFor(t *testing.T) {
	row := func(id, more string) string { return fmt.Sprintf(`{"id":%q,"task":"t"%s}`, id, more) }
	for text, good := range map[string]bool{
		`{"rows":[]}`:   true,
		`{}`:            false,
		`null`:          false,
		`{"rows":null}`: false,
		`{"rows":[` + row(newer, "") + `,` + row(older, "") + `]}`:                        true,
		`{"rows":[` + row(older, "") + `,` + row(newer, "") + `]}`:                        false,
		`{"rows":[` + row(older, "") + `,` + row(older, "") + `]}`:                        false,
		`{"rows":[` + row(later, "") + `,` + row(newer, "") + `,` + row(older, "") + `]}`: false, // more than there may be
		`{"rows":[` + row("x", "") + `]}`:                                                 false,
		`{"rows":[{"id":"` + newer + `","task":"other"}]}`:                                false,
		`{"rows":[{"id":"` + newer + `","damaged":"event 3"}]}`:                           true,
		`{"rows":[` + row(newer, `,"outcome":"splendid"`) + `]}`:                          false,
		`{"rows":[` + row(newer, `,"ending":3`) + `]}`:                                    false,
		`{"rows":[null]}`: false,
		`[]`:              false,
		`<html>`:          false,
	} {
		rows, err := answering(t, http.StatusOK, text).rows(t.Context(), audit.Filter{Task: "t", Limit: 2})
		unusable(t, text, good, len(rows) == 0, err)
	}
	for text, good := range map[string]bool{row(newer, ""): true, row(older, ""): false, `{}`: false, `null`: false} {
		r, err := answering(t, http.StatusOK, text).row(t.Context(), newer)
		unusable(t, text, good, r.ID == "", err)
	}
}

// unusable holds an outcome to what is wanted: something, or a failure of ours.
func unusable(t *testing.T, text string, good, none bool, err error) {
	t.Helper()
	var f *failure
	switch {
	case good && err != nil:
		t.Errorf("%s: %v", text, err)
	case !good && (!none || !errors.As(err, &f) || f.status != exitOwn):
		t.Errorf("%s: %v: want a failure of our own", text, err)
	}
}

// TestARowIsFoundByTheBeginningOfItsID: where one row has it, as in the log itself.
func TestARowIsFoundByTheBeginningOfItsID(t *testing.T) {
	rows := fmt.Sprintf(`{"rows":[{"id":%q},{"id":%q}]}`, newer, older)
	d := answering(t, http.StatusOK, rows)
	if r, err := d.row(t.Context(), newer[:len(newer)-1]); !errors.Is(err, audit.ErrAmbiguous) {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := d.row(t.Context(), newer[:20]+"0"); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := d.row(t.Context(), "ffff"); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("%+v %v", r, err)
	}
	for _, prefix := range []string{"", "x", "01A2", older + "0"} {
		if r, err := d.row(t.Context(), prefix); !errors.Is(err, audit.ErrInvalid) {
			t.Errorf("%q: %+v %v", prefix, r, err)
		}
	}
}

// TestNoTreeIsMadeOfWhatIsNoAnswer: versions, files and bytes of another workspace,
// or of none, are not taken for those that were asked for.
func TestNoTreeIsMadeOfWhatIsNoAnswer(t *testing.T) {
	ctx, zero := t.Context(), blob.Digest{}.Name()
	version := func(name string, n int) string {
		return fmt.Sprintf(`{"name":%q,"version":%d,"manifest":%q,"files":1,"bytes":2}`, name, n, zero)
	}
	for text, good := range map[string]bool{
		`{"workspaces":[]}`: true,
		`{"workspaces":[` + version("a", 1) + `,` + version("b", 7) + `]}`: true,
		`{"workspaces":[` + version("b", 1) + `,` + version("a", 7) + `]}`: false,
		`{"workspaces":[` + version("../a", 1) + `]}`:                      false,
		`{"workspaces":[` + version("a", 0) + `]}`:                         false,
		`{"workspaces":[{"name":"a","version":1}]}`:                        false,
	} {
		list, err := farShelf{answering(t, http.StatusOK, text)}.List(ctx)
		unusable(t, text, good, len(list) == 0, err)
	}
	for text, good := range map[string]bool{
		`{"versions":[` + version("a", 2) + `,` + version("a", 1) + `]}`: true,
		`{"versions":[` + version("a", 1) + `,` + version("a", 2) + `]}`: false,
		`{"versions":[` + version("b", 2) + `]}`:                         false,
		`{"versions":[]}`:                                                false,
	} {
		list, err := farShelf{answering(t, http.StatusOK, text)}.Versions(ctx, "a")
		unusable(t, text, good, len(list) == 0, err)
	}
	file := func(name string, bytes int64) string {
		return fmt.Sprintf(`{"name":%q,"bytes":%d,"digest":%q}`, name, bytes, zero)
	}
	for text, good := range map[string]bool{
		`{"version":` + version("a", 3) + `,"files":[` + file("x", 2) + `]}`:                              true,
		`{"version":` + version("a", 2) + `,"files":[` + file("x", 2) + `]}`:                              false,
		`{"version":` + version("b", 3) + `,"files":[` + file("x", 2) + `]}`:                              false,
		`{"version":` + version("a", 3) + `,"files":[` + file("x", 3) + `]}`:                              false,
		`{"version":` + version("a", 3) + `,"files":[` + file("../x", 2) + `]}`:                           false,
		`{"version":` + version("a", 3) + `,"files":[` + file("x", -2) + `]}`:                             false,
		`{"version":` + version("a", 3) + `,"files":[` + file("x", 1) + `,` + file("x", 1) + `]}`:         false,
		`{"version":` + version("a", 3) + `,"files":[{"name":"x","bytes":2}]}`:                            false,
		`{"version":` + version("a", 3) + `,"files":[` + file("x", 1<<62) + `,` + file("y", 1<<62) + `]}`: false,
		`{}`: false,
	} {
		_, m, err := farShelf{answering(t, http.StatusOK, text)}.Show(ctx, "a", 3)
		unusable(t, text, good, m == nil, err)
	}
	v := &workspace.Version{Name: "a", Number: 3}
	for text, good := range map[string]bool{"hi": true, "ho": false, "hi!": false, "h": false, "": false} {
		data, err := farShelf{answering(t, http.StatusOK, text)}.bytes(ctx, v, []workspace.Entry{{Name: "x", Size: 2, SHA256: blob.Sum([]byte("hi"))}})
		unusable(t, text, good, data == nil, err)
	}
}

// TestAListIsNoLongerThanItMayBe: an answer whose elements are a few bytes each is
// not read to its end, and what has no list does not say that nothing is there.
func TestAListIsNoLongerThanItMayBe(t *testing.T) {
	ctx := t.Context()
	for what, c := range map[string]struct {
		most int
		ask  func(*remote) error
	}{
		"rows":       {1000, func(d *remote) error { _, err := d.rows(ctx, audit.Filter{}); return err }},
		"workspaces": {1 << 20, func(d *remote) error { _, err := farShelf{d}.List(ctx); return err }},
		"versions":   {1 << 20, func(d *remote) error { _, err := farShelf{d}.Versions(ctx, "a"); return err }},
		"files":      {envelope.MaxTreeFiles, func(d *remote) error { _, _, err := farShelf{d}.Show(ctx, "a", 1); return err }},
		"removed":    {0, func(d *remote) error { _, err := farShelf{d}.Remove(ctx, "a", 1); return err }},
	} {
		var f *failure
		if err := c.ask(answering(t, http.StatusOK, `{"status":"ok"}`)); !errors.As(err, &f) || f.status != exitOwn {
			t.Errorf("no %s: %v", what, err)
		}
		if c.most == 0 {
			continue
		}
		long := `{"` + what + `":[` + strings.Repeat("{},", c.most) + `{}]}`
		if err := c.ask(answering(t, http.StatusOK, long)); !errors.As(err, &f) || !strings.Contains(f.msg, fmt.Sprintf("a list of more than %d", c.most)) {
			t.Errorf("%d %s: %v", c.most+1, what, err)
		}
	}
}

// TestARowHasNoMoreThanItMayHave: neither has a page; what is escaped on the way
// does not count for more than it is.
func TestARowHasNoMoreThanItMayHave(t *testing.T) {
	row := func(id, text string, n int) string {
		return `{"id":"` + id + `","task":"` + strings.Repeat(text, n) + `"}`
	}
	for what, c := range map[string]struct {
		text string
		good bool
	}{
		"a large row":   {row(newer, "x", 4*audit.MaxBody), true},
		"escaped":       {row(newer, `\u003c`, 4*audit.MaxBody), true},
		"a larger one":  {row(newer, "x", 4*audit.MaxBody+2<<20), false},
		"tiny elements": {`{"id":"` + newer + `","ending":{"events":[` + strings.Repeat("{},", mostOfARow/3) + `{}]}}`, false},
	} {
		r, err := answering(t, http.StatusOK, c.text).row(t.Context(), newer)
		unusable(t, what, c.good, r.ID == "", err)
	}
	large := func(id string) string { return row(id, "x", 4*audit.MaxBody) }
	page := `{"rows":[` + large(later) + `,` + large(newer) + `,` + large(older) + `,` + large("01a22b20-155f-77ec-a41f-ee8a265882ab") + `]}`
	rows, err := answering(t, http.StatusOK, page).rows(t.Context(), audit.Filter{})
	unusable(t, "a page", false, rows == nil, err)
}

// TestADaemonThatSaysNothingIsRefused: it takes the connection, and that is all.
func TestADaemonThatSaysNothingIsRefused(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errMute)
	defer cancel()
	var f *failure
	if _, err := remoteAt(t, "http://"+mute.Addr().String()).rows(ctx, audit.Filter{}); !errors.As(err, &f) || f.status != exitRefusedHost || !strings.Contains(f.msg, "does not answer") {
		t.Errorf("%v", err)
	}
}

// TestProblemsOfADaemonAreThoseOfThisHost: what is not there, or is held, ends a
// command as it does here.
func TestProblemsOfADaemonAreThoseOfThisHost(t *testing.T) {
	for _, c := range []struct {
		http   int
		text   string
		status int
		msg    string
	}{
		{404, `{"code":"not_found","detail":"x"}`, exitNo, "no such workspace or version: a has no version 3"},
		{409, `{"code":"conflict","detail":"another call has it","retry":true}`, exitRefusedWait, "another call has it"},
		{409, `{"code":"conflict","detail":"that is the newest version"}`, exitUsage, "that is the newest version"},
		{401, `{"code":"key"}`, exitRefusedMend, "refused (permission)"},
		{403, `{"code":"role","detail":"the key's role is read"}`, exitRefusedMend, "the key's role is read"},
		{429, `{"code":"rate","detail":"too many requests","retry":true}`, exitRefusedWait, "refused (rate): too many requests"},
		{503, `{"code":"unavailable","detail":"the store does not answer"}`, exitRefusedWait, "the store does not answer"},
		{500, `{"code":"internal"}`, exitRefusedHost, "refused (setup)"},
		{500, `oops`, exitOwn, "cannot be used"},
	} {
		_, err := farShelf{answering(t, c.http, c.text)}.Remove(t.Context(), "a", 3)
		var f *failure
		if !errors.As(workspaceFailure(err), &f) || f.status != c.status || !strings.Contains(f.msg, c.msg) {
			t.Errorf("%s: %v, %+v", c.text, err, f)
		}
	}
}

// FuzzRowsOf: whatever a daemon says, rows are in order, each is one that was asked
// for, and a line of them is one line.
func FuzzRowsOf(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(`[{"id":%q,"task":"t","tool":"a\u001b[2Jb\n"},{"id":%q,"task":"t","level":"container"}]`, newer, older)))
	f.Add([]byte(fmt.Sprintf(`[{"id":%q,"damaged":"\u202e","task":"x"}]`, newer)))
	f.Add([]byte(fmt.Sprintf(`[{"id":%q,"task":"t","Task":"t2","erased":7}]`, newer)))
	f.Fuzz(func(t *testing.T, text []byte) {
		var list []client.Row
		if json.Unmarshal(text, &list) != nil {
			return
		}
		filter := &audit.Filter{Task: "t", Limit: 3}
		rows, err := rowsOf(list, filter)
		if err != nil {
			if !errors.Is(err, client.ErrAnswer) || rows != nil {
				t.Fatalf("%v %+v", err, rows)
			}
			return
		}
		if len(rows) > 3 {
			t.Fatalf("%d rows", len(rows))
		}
		for i := range rows {
			if !audit.IsID(rows[i].ID) || rows[i].Damaged == "" && rows[i].Task != "t" || i > 0 && rows[i].ID >= rows[i-1].ID {
				t.Fatalf("%+v", rows)
			}
			if line := rowLine(&rows[i]); strings.ContainsAny(line, "\n\r\x1b\a\b\u202e") {
				t.Fatalf("%q", line)
			}
		}
	})
}

// FuzzUnpack: of an archive come the files that are wanted, each as its digest says,
// or an error.
func FuzzUnpack(f *testing.F) {
	wanted := map[string]*workspace.Entry{}
	for _, name := range []string{"a", "b/c"} {
		wanted[name] = &workspace.Entry{Name: name, Size: int64(len(name)), SHA256: blob.Sum([]byte(name))}
	}
	archive := func(names ...string) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, name := range names {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(name)), Mode: 0o644}); err != nil {
				f.Fatal(err)
			}
			if _, err := io.WriteString(w, name); err != nil {
				f.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		return out.Bytes()
	}
	if err := unpack(bytes.NewReader(archive("a", "../x", "b/c")), wanted, map[string][]byte{}); err != nil {
		f.Fatal(err)
	}
	f.Add(archive("a", "../x", "b/c"))
	f.Add(archive("a", "a", "b/c"))
	f.Add(archive("a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		data := map[string][]byte{}
		if unpack(bytes.NewReader(text), wanted, data) != nil {
			return
		}
		if len(data) != len(wanted) {
			t.Fatalf("%q", data)
		}
		for name, got := range data {
			if envelope.CheckName(name) != nil || string(got) != name {
				t.Fatalf("%q: %q", name, got)
			}
		}
	})
}
