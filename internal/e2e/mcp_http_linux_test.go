package e2e_test

import (
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCPClientsOverHTTP: the SDKs of others do over HTTP, with a key, what they
// do over standard input and output.
func TestMCPClientsOverHTTP(t *testing.T) {
	dir := installed(t)
	for _, c := range []struct {
		name string
		argv []string
	}{
		{"TypeScript SDK 1", []string{"node", "testdata/clients/client.mjs", "v1"}},
		{"TypeScript SDK 2", []string{"node", "testdata/clients/client.mjs", "v2"}},
		{"Python SDK, the newest revision", []string{"python3", "testdata/clients/client.py", "auto"}},
		{"Python SDK, an older revision", []string{"python3", "testdata/clients/client.py", "legacy"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := usual(t)
			d := s.daemon(t, "")
			cmd := exec.Command(c.argv[0], append(c.argv[1:], "http://"+d.address+"/mcp")...)
			cmd.Env = append(cmd.Environ(), "CLIENTS="+dir, "PYTHONPATH="+filepath.Join(dir, "python"), "KEY="+d.key, "no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1")
			checkSeen(t, watch(t, cmd, (*exec.Cmd).Start))
			s.rows("client", 7)
			for row := range strings.Lines(s.cli(t, "audit", "list", "--task", "client", "--json")) {
				if !strings.Contains(row, `"caller":"key:`+d.keyID+`","team":"blue"`) {
					t.Errorf("a row that does not say whose call it was: %.400s", row)
				}
			}
		})
	}
}

// keyed is a client of HTTP that sends a key.
type keyed struct{ key string }

// RoundTrip implements http.RoundTripper.
func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// session is one of the Go SDK over HTTP.
func (d *daemon) session(t *testing.T) *sdk.ClientSession {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, nil)
	s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: "http://" + d.address + "/mcp", HTTPClient: &http.Client{Transport: keyed{d.key}}, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestMCPOverHTTPEnds: the cell of a call is dead soon after the word of its
// client, and after the revocation of its key; then nothing more is told.
func TestMCPOverHTTPEnds(t *testing.T) {
	s := usual(t)
	d := s.daemon(t, "")
	session := d.session(t)
	hang := func(ctx context.Context, line string) <-chan error {
		over := make(chan error, 1)
		go func() {
			_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "run_command", Arguments: map[string]any{"argv": strings.Fields(line)}})
			over <- err
		}()
		until(t, "it runs", time.Minute, func() bool { return len(inCells(line)) > 0 })
		return over
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := hang(ctx, nap(4331))
	cancel()
	until(t, "it is dead", time.Minute, func() bool { return len(inCells(nap(4331))) == 0 })
	if err := <-over; err == nil {
		t.Error("a cancelled call has an answer")
	}
	if a, failed := sh(t, session, "echo alive", nil); failed || a.Untrusted.Stdout.Text != "alive\n" {
		t.Errorf("%+v", a)
	}
	over = hang(t.Context(), nap(4332))
	s.cli(t, "key", "revoke", d.keyID)
	until(t, "it is dead", time.Minute, func() bool { return len(inCells(nap(4332))) == 0 })
	select {
	case err := <-over:
		if err == nil {
			t.Error("a call of a revoked key has an answer")
		}
	case <-time.After(time.Minute):
		t.Error("a call of a revoked key is still waited for")
	}
	if _, err := session.ListTools(t.Context(), nil); err == nil {
		t.Error("a revoked key is good")
	}
}
