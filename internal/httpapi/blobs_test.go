package httpapi_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/blob"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/httpapi"
	"github.com/callcell/callcell/internal/testing/leak"
)

const octets = "application/octet-stream"

// client returns a client with a key of a team and role.
func (s *stand) client(team string, role gateway.Role) *client.Client {
	s.t.Helper()
	_, key := s.key(team, role)
	c, err := client.New(s.url, key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

// TestBlobsOfOnesTeam: what a team has put it gets, its other keys too; what is
// another team's is not told from what is not there, by any method.
func TestBlobsOfOnesTeam(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	ctx := t.Context()
	mine, sibling, foreign := s.client("blue", gateway.RoleCall), s.client("blue", gateway.RoleCall), s.client("red", gateway.RoleCall)
	text := strings.Repeat("content ", 20_000)
	b, err := mine.PutBlob(ctx, strings.NewReader(text))
	if err != nil || b.Digest != envelope.Digest([]byte(text)) || b.Bytes != int64(len(text)) || b.Put.IsZero() || b.Until.Sub(b.Put) != 7*24*time.Hour {
		t.Fatalf("%+v %v", b, err)
	}
	for name, c := range map[string]*client.Client{"its putter": mine, "another of the team": sibling} {
		r, err := c.GetBlob(ctx, b.Digest)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		size, kept, err := c.HasBlob(ctx, b.Digest)
		list, next, failed := c.ListBlobs(ctx, "")
		if err != nil || !kept || size != int64(len(text)) || failed != nil || len(list) != 1 || list[0].Digest != b.Digest || next != "" {
			t.Errorf("%s: %d %t %v, %+v %v", name, size, kept, err, list, failed)
		}
	}
	_, key := s.key("red", gateway.RoleAdmin)
	none := envelope.Digest([]byte("nobody's"))
	for _, method := range []string{"GET", "HEAD", "DELETE"} {
		theirs, nobodys := s.do(method, "/v1/blobs/"+b.Digest, key, ""), s.do(method, "/v1/blobs/"+none, key, "")
		if theirs.StatusCode != 404 || string(theirs.body) != string(nobodys.body) || len(theirs.Header) != len(nobodys.Header) {
			t.Errorf("%s: %d %s, of nobody's %s", method, theirs.StatusCode, theirs.body, nobodys.body)
		}
	}
	if list, _, err := foreign.ListBlobs(ctx, ""); err != nil || len(list) > 0 {
		t.Errorf("%+v %v", list, err)
	}
	if err := sibling.DropBlob(ctx, b.Digest); err != nil || s.freed.Load() != 1 {
		t.Errorf("%v, freed %d times", err, s.freed.Load())
	}
	var p *client.Problem
	if _, err := mine.GetBlob(ctx, b.Digest); !errors.As(err, &p) || p.Code != "not_found" {
		t.Errorf("%v", err)
	}
	if _, kept, err := mine.HasBlob(ctx, b.Digest); err != nil || kept {
		t.Errorf("%t %v", kept, err)
	}
}

// TestWhatABlobMayBe: bytes of a bounded size, as they are, within the team's
// room; nothing stays of what is refused.
func TestWhatABlobMayBe(t *testing.T) {
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Blob, serve.Body = 3*envelope.MiB, 64*envelope.KiB })
	_, key := s.key("blue", gateway.RoleCall)
	id, admin := s.key("red", gateway.RoleAdmin)
	two := strings.Repeat("x", 2<<20)
	for _, c := range []struct {
		name, body, kind, want string
		more                   []string
	}{
		{"larger than other bodies", two, octets, "", nil},
		{"the same again", two, octets, "", nil},
		{"too large", two + two, octets, "too_large", nil},
		{"over the team's room", two[1:] + "yyy", octets, "quota", nil},
		{"of no type", "x", "", "content_type", nil}, {"JSON", "{}", "application/json", "content_type", nil}, {"a form", "x", "multipart/form-data; boundary=b", "content_type", nil},
		{"compressed", "x", octets, "content_type", []string{"Content-Encoding", "gzip"}},
	} {
		if a := s.do("POST", "/v1/blobs", key, c.body, append([]string{"Content-Type", c.kind}, c.more...)...); a.code() != c.want || c.want == "" && a.StatusCode != 201 {
			t.Errorf("%s: %d %s, want %q", c.name, a.StatusCode, a.body, c.want)
		}
	}
	if u, err := s.blobs.Usage("blue"); err != nil || u.Blobs != 1 {
		t.Errorf("%+v %v", u, err)
	}
	for _, path := range []string{"/v1/blobs/x", "/v1/blobs/" + strings.ToUpper(blob.Digest{}.Name()), "/v1/blobs?after=x", "/v1/blobs/sha256:..%2f..%2fetc%2fpasswd"} {
		if a := s.do("GET", path, key, ""); a.code() != "request" && a.code() != "not_found" {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	if a := s.do("PATCH", "/v1/teams/red", admin, `{"suspended":true}`); a.StatusCode != 200 {
		t.Fatalf("%s", a.body)
	}
	if a := s.do("POST", "/v1/blobs", admin, "x", "Content-Type", octets); a.code() != "permission" {
		t.Errorf("a suspended team (key %s): %d %s", id, a.StatusCode, a.body)
	}
}

// TestABlobThatStops coming ends in time, and nothing of it stays.
func TestABlobThatStops(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Read = envelope.Duration(300 * time.Millisecond) })
	_, key := s.key("blue", gateway.RoleCall)
	address := strings.TrimPrefix(s.url, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST /v1/blobs HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: 9\r\n\r\nx", address, key, octets); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); !strings.Contains(string(text), " 408 ") || !strings.Contains(string(text), `"slow"`) {
		t.Errorf("%.100s %v", text, err)
	}
	if left, err := filepath.Glob(filepath.Join(s.blobsDir, "*", "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

// TestDamagedBlob: an answer whose bytes are not those that were put is broken
// off before its end, and the log says so.
func TestDamagedBlob(t *testing.T) {
	s := newStand(t, nil)
	c := s.client("blue", gateway.RoleCall)
	b, err := c.PutBlob(t.Context(), strings.NewReader(strings.Repeat("x", 100_000)))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(s.blobsDir, "data", "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q %v", files, err)
	}
	if err := os.WriteFile(files[0], bytes.Repeat([]byte("y"), 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := c.GetBlob(t.Context(), b.Digest)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err == nil || len(got) == 100_000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	waitFor(t, func() bool { return strings.Contains(s.lines.String(), "broken off") })
}

// TestCallsOverBlobs: an input by its digest, and outputs as blobs that are an
// input of the next call; another team's is refused as one that is not there.
func TestCallsOverBlobs(t *testing.T) {
	s := newStand(t, nil)
	ctx := t.Context()
	mine, foreign := s.client("blue", gateway.RoleCall), s.client("red", gateway.RoleCall)
	b, err := mine.PutBlob(ctx, strings.NewReader("hello\n"))
	if err != nil {
		t.Fatal(err)
	}
	most := 100 * envelope.Byte
	call := &envelope.Call{Argv: []string{"/bin/work", "again"}, Inputs: []envelope.File{b.File("log")}, Outputs: []string{"log", "large"}, InlineOutputs: &most}
	r, err := mine.Run(ctx, call)
	if err != nil || !r.OK() || len(r.Outputs) != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	small, large := r.Outputs[0], r.Outputs[1]
	if string(small.Data) != "hello\nagain\n" || small.Blob != "" || len(large.Data) > 0 || large.Size != 1200 {
		t.Errorf("%+v", r.Outputs)
	}
	large.Name = "log"
	next := &envelope.Call{Argv: []string{"/bin/streams", "log", "log"}, Inputs: []envelope.File{large}}
	if r, err := mine.Run(ctx, next); err != nil || r.Stdout.Total != 1200 {
		t.Errorf("%+v %v", r, err)
	}
	var p *client.Problem
	_, theirs := foreign.Run(ctx, next)
	if !errors.As(theirs, &p) || p.Refusal() == nil || p.Code != "request" || p.Field != "inputs[0].blob" || p.Call == "" {
		t.Errorf("%v", theirs)
	}
	rows, err := s.log.List(ctx, auditAll())
	if err != nil || len(rows) != 3 || rows[2].Intent.Arguments.Inputs[0].SHA256 != b.Digest || rows[2].Ending.Outputs[1].SHA256 != large.Blob {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// TestCallsAsForms: the files of a form are inputs; who sends it again with
// another boundary under one idempotency key has one call, and its cap and its
// time are those of every body.
func TestCallsAsForms(t *testing.T) {
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Body = 64 * envelope.KiB })
	ctx := t.Context()
	c := s.client("blue", gateway.RoleCall)
	send := func(text string, options ...client.Option) (*envelope.Result, error) {
		call := &envelope.Call{Argv: []string{"/bin/streams", "a b.txt", "dir/b"}}
		return c.RunForm(ctx, call, []client.Part{{Name: "a b.txt", Body: strings.NewReader(text)}, {Name: "dir/b", Body: strings.NewReader("two")}}, options...)
	}
	r, err := send("one", client.Once("k"))
	if err != nil || !r.OK() || string(r.Stdout.Head) != "one" || string(r.Stderr.Head) != "two" {
		t.Fatalf("%+v %v", r, err)
	}
	if again, err := send("one", client.Once("k")); err != nil || again.ID != r.ID {
		t.Errorf("%+v %v", again, err)
	}
	var p *client.Problem
	if _, err := send("other", client.Once("k")); !errors.As(err, &p) || p.Code != "idempotency" {
		t.Errorf("%v", err)
	}
	if _, err := send(strings.Repeat("x", 70<<10)); !errors.As(err, &p) || p.Code != "too_large" {
		t.Errorf("%v", err)
	}
	_, key := s.key("blue", gateway.RoleCall)
	part := func(name, text string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + text + "\r\n"
	}
	good := part("call", `{"argv":["/bin/print"]}`)
	for _, c := range []struct{ name, body, kind, want string }{
		{"a good one", good + "--b--", "multipart/form-data; boundary=b", ""},
		{"no call", part("a", "x") + "--b--", "multipart/form-data; boundary=b", "request"},
		{"two calls", good + good + "--b--", "multipart/form-data; boundary=b", "request"},
		{"no end", good, "multipart/form-data; boundary=b", "request"},
		{"no boundary", good + "--b--", "multipart/form-data", "request"},
		{"a name that is none", good + part("../x", "y") + "--b--", "multipart/form-data; boundary=b", "request"},
		{"two files of one name", good + part("x", "y") + part("x", "z") + "--b--", "multipart/form-data; boundary=b", "request"},
		{"an unknown key", part("call", `{"argv":["/bin/print"],"x":1}`) + "--b--", "multipart/form-data; boundary=b", "request"},
		{"another kind of multipart", good + "--b--", "multipart/mixed; boundary=b", "content_type"},
	} {
		if a := s.do("POST", "/v1/calls", key, c.body, "Content-Type", c.kind); a.code() != c.want {
			t.Errorf("%s: %d %s, want %q", c.name, a.StatusCode, a.body, c.want)
		}
	}
	if a := s.do("POST", "/v1/explain", key, good+"--b--", "Content-Type", "multipart/form-data; boundary=b"); a.code() != "content_type" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := s.do("POST", "/v1/calls", key, good+"--b--", "Content-Type", "multipart/form-data; boundary=b", "Prefer", "respond-async"); a.StatusCode != http.StatusAccepted || read[httpapi.CallState](t, a, 202).ID == "" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
