package callcell_test

import (
	"context"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/callcell/callcell"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/leak"
)

// parsed is configOf with a document, in which DIR is a directory of the test's
// own.
func parsed(t testing.TB, dir, document string) callcell.Config {
	t.Helper()
	base := configOf(t)
	conf, err := callcell.ParseConfig("test.yaml", []byte(strings.ReplaceAll(document, "DIR", dir)))
	if err != nil {
		t.Fatal(err)
	}
	conf.State, conf.Helpers, conf.Warn = base.State, base.Helpers, base.Warn
	return conf
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// secretServer is a Vault and a server of OAuth2 in one; what it was asked to
// revoke is in revoked.
type secretServer struct {
	*httptest.Server
	mu      sync.Mutex // guards revoked
	revoked []string
}

func newSecretServer(t *testing.T, roots string) *secretServer {
	t.Helper()
	s := &secretServer{}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	write(t, roots, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	return s
}

// ServeHTTP implements http.Handler.
func (s *secretServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, client, basic := r.BasicAuth()
	vault := r.Header.Get("X-Vault-Token") == "token-of-this-host"
	switch path := r.URL.Path; {
	case vault && strings.HasPrefix(path, "/v1/sys/internal/ui/mounts/"):
		io.WriteString(w, `{"data":{"path":"kv/","type":"kv","options":{"version":"2"}}}`)
	case vault && path == "/v1/kv/data/agents/gh":
		io.WriteString(w, `{"data":{"data":{"token":"value-of-vault"},"metadata":{"version":1}}}`)
	case basic && client == "client-secret" && path == "/token":
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"access_token":"value-of-oauth2","token_type":"Bearer","expires_in":3600}`)
	case basic && path == "/revoke":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.revoked = append(s.revoked, r.PostForm.Get("token"))
	default:
		w.WriteHeader(http.StatusForbidden)
	}
}

const sourcesDocument = `
credentials:
  roots: DIR/roots.pem
  vault: {address: "SERVER", token: "file:DIR/token"}
  oauth2: {crm: {tokenURL: "SERVER/token", revokeURL: "SERVER/revoke", clientID: agent, secret: "env:CALLCELL_TEST_CLIENT"}}
profiles:
  default:
    trust: reviewed
    credentials:
      file: {source: "file:DIR/value", use: {file: true}}
      command: {source: "command:/bin/echo value-of-command", use: {file: true}}
      env: {source: "env:CALLCELL_TEST_VALUE", use: {env: VALUE}}
      vault: {source: "vault:kv/agents/gh#token", use: {file: true}}
      oauth2: {source: "oauth2:crm", use: {file: true}}
  broken:
    trust: reviewed
    credentials: {vault: {source: "vault:kv/agents/none#token", use: {file: true}}}
`

// TestCredentials: every kind of source works from Go; what comes out is masked,
// what can be revoked is when the call ends, and a source that has nothing
// refuses the call.
func TestCredentials(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	s := newSecretServer(t, filepath.Join(dir, "roots.pem"))
	write(t, filepath.Join(dir, "token"), "token-of-this-host\n")
	write(t, filepath.Join(dir, "value"), "value-of-file\n")
	t.Setenv("CALLCELL_TEST_CLIENT", "client-secret")
	t.Setenv("CALLCELL_TEST_VALUE", "value-of-env")
	conf := parsed(t, dir, strings.ReplaceAll(sourcesDocument, "SERVER", s.URL))
	cells := open(t, conf)
	r := cells.Run(t.Context(), &envelope.Call{Script: &envelope.Script{Lang: "sh", Code: `
for n in file command vault oauth2; do [ "$(cat /run/credentials/$n)" = value-of-$n ] && echo $n; done
[ "$VALUE" = value-of-env ] && echo env
echo value-of-file value-of-command value-of-env value-of-vault value-of-oauth2`}})
	out := string(r.Stdout.Head)
	if !r.OK() || !strings.HasPrefix(out, "file\ncommand\nvault\noauth2\nenv\n") || strings.Contains(out, "value-of") || len(r.Masked) != 5 {
		t.Errorf("%v\n%s%s\n%v", r.Refusal, out, r.Stderr.Head, r.Masked)
	}
	s.mu.Lock()
	if !slices.Equal(s.revoked, []string{"value-of-oauth2"}) {
		t.Errorf("revoked %q", s.revoked)
	}
	s.mu.Unlock()
	if r := cells.Run(t.Context(), &envelope.Call{Profile: "broken", Argv: []string{"true"}}); r.Refusal == nil || r.Receipt == nil {
		t.Errorf("a source that has nothing: %+v", r)
	}
}

// TestAnchors: receipts are signed by the key that the document names, and the
// log's head stands at the anchor when Close has returned. An anchor that cannot
// be written ends nothing, and is said.
func TestAnchors(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	var mu sync.Mutex
	var said []string
	conf := parsed(t, dir, `
audit: {key: DIR/audit.key, anchors: [{file: DIR/checkpoints}, {file: DIR/none/checkpoints}]}
profiles: {default: {trust: reviewed}}`)
	conf.Warn = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, text)
	}
	if os.Geteuid() != 0 {
		t.Skip("a real cell takes root")
	}
	cells, err := callcell.New(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	r := cells.Run(t.Context(), &envelope.Call{Argv: []string{"true"}})
	if !r.OK() || r.Receipt.Signature == "" {
		t.Errorf("%+v", r)
	}
	if err := cells.Close(); err == nil || !strings.Contains(err.Error(), "none/checkpoints") {
		t.Errorf("Close says %v of an anchor that is not there", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "audit.key")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(conf.State, "audit.key")); err == nil {
		t.Error("there is a key in the state directory, too")
	}
	text, err := os.ReadFile(filepath.Join(dir, "checkpoints"))
	if err != nil || !strings.Contains(string(text), r.Receipt.Head) || !strings.Contains(string(text), r.Receipt.Key) {
		t.Errorf("%v\n%s\nhas no %s", err, text, r.Receipt.Head)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.ContainsFunc(said, func(text string) bool { return strings.Contains(text, "none/checkpoints") }) {
		t.Errorf("nobody hears of the anchor that is not there: %q", said)
	}
}

// A gatherer is a collector of traces.
type gatherer struct {
	*httptest.Server
	mu    sync.Mutex // guards what follows
	spans []*otlp.Span
	heads []string
}

func newGatherer(t *testing.T) *gatherer {
	t.Helper()
	g := &gatherer{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var sent collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &sent) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.heads = append(g.heads, r.Header.Get("Authorization"))
		for _, resource := range sent.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				g.spans = append(g.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(g.Close)
	return g
}

// TestTelemetry: calls are traced to the collector that the document names, each
// as a trace of its own or within the caller's, and Close hands on the last.
func TestTelemetry(t *testing.T) {
	leak.Check(t)
	dir, g := t.TempDir(), newGatherer(t)
	write(t, filepath.Join(dir, "token"), "sesame\n")
	cells := open(t, parsed(t, dir, fmt.Sprintf(`
telemetry: {endpoint: "%s/v1/traces", headers: {Authorization: "file:DIR/token"}, service: agent}
profiles: {default: {trust: reviewed}}`, g.URL)))
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	own := cells.Run(t.Context(), &envelope.Call{Argv: []string{"true"}})
	within := cells.Run(callcell.WithTraceparent(t.Context(), parent), &envelope.Call{Argv: []string{"true"}})
	odd := cells.Run(callcell.WithTraceparent(t.Context(), "00-no"), &envelope.Call{})
	if !own.OK() || !within.OK() || odd.Refusal == nil {
		t.Fatalf("%+v %+v %+v", own, within, odd)
	}
	if err := cells.Close(); err != nil {
		t.Error(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	roots := map[string]string{} // trace: the parent of its call
	for _, s := range g.spans {
		if s.Name == "call" {
			roots[hex.EncodeToString(s.TraceId)] = hex.EncodeToString(s.ParentSpanId)
		}
	}
	want := map[string]string{strings.ReplaceAll(own.ID, "-", ""): "", strings.ReplaceAll(odd.ID, "-", ""): "", parent[3:35]: parent[36:52]}
	if fmt.Sprint(roots) != fmt.Sprint(want) {
		t.Errorf("traces %v, want %v", roots, want)
	}
	if slices.ContainsFunc(g.heads, func(h string) bool { return h != "sesame" }) {
		t.Errorf("headers %q", g.heads)
	}
}

// TestEnded: who watches hears of every call once, with its row written, refused
// or not; a receiver of webhooks beside it takes nothing from it.
func TestEnded(t *testing.T) {
	leak.Check(t)
	dir, posts := t.TempDir(), make(chan string, 16)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what came is looked at
		posts <- string(body)
	}))
	t.Cleanup(s.Close)
	write(t, filepath.Join(dir, "key"), strings.Repeat("k", 32))
	conf := parsed(t, dir, fmt.Sprintf(`
webhooks: [{url: "%s", secret: "file:DIR/key", events: [refusal]}]
profiles: {default: {trust: reviewed}}`, s.URL))
	var mu sync.Mutex
	var heard []string
	conf.Ended = func(call *envelope.Call, r *envelope.Result) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, fmt.Sprint(call.Tool, " ", r.ID, " ", r.Receipt != nil, " ", r.Refusal != nil))
	}
	cells := open(t, conf)
	ran := cells.Run(t.Context(), &envelope.Call{Tool: "a", Argv: []string{"true"}})
	refused := cells.Run(t.Context(), &envelope.Call{Tool: "b", Argv: []string{"true"}, Profile: "none"})
	if err := cells.Close(); err != nil {
		t.Error(err)
	}
	want := []string{"a " + ran.ID + " true false", "b " + refused.ID + " true true"}
	if !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
	select {
	case body := <-posts:
		if !strings.Contains(body, refused.ID) {
			t.Errorf("the receiver heard %s", body)
		}
	default:
		t.Error("the receiver heard nothing")
	}
}

// TestTrees takes a working tree into calls and applies what became of it.
func TestTrees(t *testing.T) {
	leak.Check(t)
	conf := configOf(t)
	e := reviewed()
	e.Files.Tree.Count, e.Files.Tree.Bytes = 100, envelope.MiB
	conf.Profiles["reviewed"] = e
	cells, dir := open(t, conf), t.TempDir()
	write(t, filepath.Join(dir, "list"), "b\na\n")
	write(t, filepath.Join(dir, ".gitignore"), "ignored\n")
	write(t, filepath.Join(dir, "ignored"), "x")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	changed := func(code string) (*callcell.Tree, *envelope.Result) {
		t.Helper()
		tree, err := cells.ReadTree(t.Context(), dir, callcell.TreeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := cells.Run(t.Context(), &envelope.Call{Tree: tree.Call(), Script: &envelope.Script{Lang: "sh", Code: code}})
		if !r.OK() || r.Changes == nil {
			t.Fatalf("%v %s", r.Refusal, r.Stderr.Head)
		}
		return tree, r
	}
	tree, r := changed("[ ! -e ignored ] && [ ! -e link ] && sort -o list list && mkdir -p .git/hooks && echo x >.git/hooks/post-commit && echo all: >Makefile")
	plan := tree.Plan(r.Changes)
	if len(tree.Skipped) != 1 || len(plan.Changes) != 2 || len(plan.Warnings) != 1 {
		t.Errorf("skipped %v, plan %+v", tree.Skipped, plan)
	}
	if err := plan.Apply(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "list")); err != nil || string(text) != "a\nb\n" {
		t.Errorf("%q %v", text, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		t.Error("a hook came back")
	}
	forged := &envelope.Changes{Complete: true, Files: []envelope.Change{{Name: ".git/hooks/post-commit", Kind: envelope.ChangeAdded, Data: []byte("x")}}}
	if plan := tree.Plan(forged); len(plan.Refused) != 1 || len(plan.Changes) != 0 || plan.Apply() != nil {
		t.Errorf("a hook: %+v", plan)
	}
	stale, r := changed("echo c >>list")
	write(t, filepath.Join(dir, "list"), "mine\n")
	if err := stale.Plan(r.Changes).Apply(); !isError(err, callcell.ErrConflict) {
		t.Errorf("a file that was changed meanwhile: %v", err)
	}
	r.Changes.Complete = false
	if err := stale.Plan(r.Changes).Apply(); !isError(err, nil) {
		t.Errorf("changes that are not complete: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "list")); err != nil || string(text) != "mine\n" {
		t.Errorf("%q %v", text, err)
	}
	if _, err := cells.ReadTree(t.Context(), filepath.Join(dir, "none"), callcell.TreeOptions{}); !isError(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if err := cells.Close(); err != nil {
		t.Error(err)
	}
	if _, err := cells.ReadTree(context.Background(), dir, callcell.TreeOptions{}); err == nil {
		t.Error("a tree is read after Close")
	}
}

// TestWorkspaces lets a tree live on from call to call, as many versions as the
// document keeps.
func TestWorkspaces(t *testing.T) {
	leak.Check(t)
	cells := open(t, parsed(t, t.TempDir(), "workspaces: {versions: 2}\nprofiles: {default: {trust: reviewed, files: {tree: {count: 10, bytes: 1Mi}}}}"))
	for i := range 3 {
		r := cells.Run(t.Context(), &envelope.Call{Workspace: &envelope.Workspace{Name: "notes"}, Script: &envelope.Script{Lang: "sh", Code: "echo x >>log"}})
		if !r.OK() || r.Workspace == nil || r.Workspace.Wrote != int64(i+1) {
			t.Fatalf("%d: %v %+v", i, r.Refusal, r.Workspace)
		}
	}
	w := cells.Workspaces()
	if list, err := w.List(t.Context()); err != nil || len(list) != 1 || list[0].Name != "notes" || list[0].Version != 3 {
		t.Errorf("%+v %v", list, err)
	}
	if list, err := w.Versions(t.Context(), "notes"); err != nil || len(list) != 2 || list[1].Version != 2 {
		t.Errorf("%+v %v", list, err)
	}
	if tree, err := w.Read(t.Context(), "notes", 0); err != nil || len(tree.Files) != 1 || string(tree.Files[0].Data) != "x\nx\nx\n" {
		t.Errorf("%+v %v", tree, err)
	}
	if _, err := w.Read(t.Context(), "notes", 1); !isError(err, callcell.ErrAbsent) {
		t.Errorf("a version that is not kept: %v", err)
	}
	if n, err := w.Remove(t.Context(), "notes", 0); err != nil || n != 2 {
		t.Errorf("%d %v", n, err)
	}
	if bytes, err := w.Collect(t.Context()); err != nil || bytes < 6 {
		t.Errorf("%d %v", bytes, err)
	}
	if _, err := w.Versions(t.Context(), "notes"); !isError(err, callcell.ErrAbsent) {
		t.Errorf("a workspace that is gone: %v", err)
	}
}

// TestCloseEndsTheWayOut: the process that reaches out for calls is gone with
// Close, also where nothing answers it.
func TestCloseEndsTheWayOut(t *testing.T) {
	leak.Check(t)
	cells := open(t, parsed(t, t.TempDir(), `
egress: {resolvers: ["127.0.0.1:1"], limits: {dial: 1s}}
profiles: {default: {trust: reviewed, network: {allow: [{host: allowed.test, ports: [443]}]}}}`))
	r := cells.Run(t.Context(), &envelope.Call{Fetch: &envelope.Fetch{URL: "https://allowed.test/"}})
	if !r.Ran() || r.Fetched == nil || r.Fetched.Failure == "" {
		t.Errorf("%v %+v", r.Refusal, r.Fetched)
	}
	r = cells.Run(t.Context(), &envelope.Call{Script: &envelope.Script{Lang: "sh", Code: "getent hosts denied.test || echo none"}})
	if string(r.Stdout.Head) != "none\n" || attempt(r, "denied.test") != "denied" {
		t.Errorf("%v %s %+v", r.Refusal, r.Stdout.Head, r.Egress)
	}
	if err := cells.Close(); err != nil {
		t.Error(err)
	}
	gone(t, configOf(t).Helpers)
}
