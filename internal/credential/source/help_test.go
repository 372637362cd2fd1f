package source

import (
	"context"
	"encoding/pem"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
)

// write makes a file with a mode in a directory of its own.
func write(t testing.TB, content string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func newSet(t testing.TB, s Settings, host Host) *Set {
	t.Helper()
	if host.LookupEnv == nil {
		host.LookupEnv = func(string) (string, bool) { return "", false }
	}
	set, err := NewSet(s, host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

// fetch asks for what words name, and returns its fields in the clear.
func fetch(t testing.TB, set *Set, words string, scopes ...string) (map[string]string, *Grant, error) {
	t.Helper()
	src, err := set.Open(envelope.Credential{Source: words})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g, err := src.Fetch(ctx, Request{Call: "call-1", Scopes: scopes, Fields: []string{src.Field()}})
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(g.Destroy)
	return clear1(g), g, nil
}

func clear1(g *Grant) map[string]string {
	out := map[string]string{}
	for name, s := range g.Secrets {
		out[name] = whole(s)
	}
	return out
}

// wantFault holds err to being a fault for a reason.
func wantFault(t testing.TB, name string, err error, kind Kind, reason Reason) {
	t.Helper()
	var fault *Fault
	if !errors.As(err, &fault) || fault.Kind != kind || fault.Reason != reason || fault.Msg == "" {
		t.Errorf("%s: %v (%+v), want %s of %s", name, err, fault, reason, kind)
	}
}

// server starts an HTTPS server and returns its address and a file with its
// certificate.
func server(t testing.TB, handler http.HandlerFunc) (address, roots string) {
	t.Helper()
	s := httptest.NewTLSServer(handler)
	t.Cleanup(s.Close)
	s.Config.ErrorLog = nil
	block := &pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}
	return s.URL, write(t, string(pem.EncodeToMemory(block)), 0o644)
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
