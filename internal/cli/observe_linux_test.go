package cli_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/webhook"
)

// soon bounds what the tests of a daemon wait for.
const soon = time.Minute

// until waits for something to hold, and fails the test where it does not.
func until(t *testing.T, fault func() string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatal(fault())
		case <-again.C:
		}
	}
}

// A gatherer is a collector of OpenTelemetry: it reads what comes by
// OpenTelemetry's own types.
type gatherer struct {
	*httptest.Server
	mu    sync.Mutex // guards what follows
	bytes []byte
	spans map[string][]*otlp.Span // by trace
	heads []http.Header
}

func newGatherer(t *testing.T) *gatherer {
	t.Helper()
	g := &gatherer{spans: map[string][]*otlp.Span{}}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &req) != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.bytes, g.heads = append(g.bytes, body...), append(g.heads, r.Header)
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					id := hex.EncodeToString(s.TraceId)
					g.spans[id] = append(g.spans[id], s)
				}
			}
		}
	}))
	t.Cleanup(g.Close)
	return g
}

// trace returns the spans of a trace, once they are there: a call's come
// together.
func (g *gatherer) trace(t *testing.T, id string) (spans []*otlp.Span) {
	t.Helper()
	until(t, func() string { return "no trace " + id }, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		spans = g.spans[id]
		return len(spans) > 0
	})
	return spans
}

// shape is a trace as paths of names, sorted, without those that are there
// twice.
func shape(spans []*otlp.Span) (paths []string) {
	by := map[string]*otlp.Span{}
	for _, s := range spans {
		by[string(s.SpanId)] = s
	}
	for _, s := range spans {
		path := s.Name
		for p := by[string(s.ParentSpanId)]; p != nil; p = by[string(p.ParentSpanId)] {
			path = p.Name + "/" + path
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func attribute(s *otlp.Span, key string) string {
	for _, kv := range s.Attributes {
		if kv.Key == key {
			return kv.Value.GetStringValue()
		}
	}
	return ""
}

// ask sends a request to a daemon.
func ask(t *testing.T, d *daemon, method, path, secret, body string, headers ...string) (int, http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, got
}

// inside is an address of a private network, which a profile may name and no
// call reaches.
const inside = "10.254.253.252"

// hostile is a call that tries to reach it, and says a word that is nobody
// else's to know.
const hostile = `{"task":"t-1","tool":"probe","script":{"lang":"python","code":"import socket\ntry:\n  s = socket.create_connection(('` + inside + `', 80), 25)\n  s.recv(1)\nexcept OSError: pass\nprint('SESAME')"},"stdin":"U0VTQU1F","inputs":[{"name":"SESAME","data":"U0VTQU1F"}]}`

// observed is a stand whose daemon tells a collector and a receiver.
func observed(t *testing.T, collector, receiver string) (bin, conf string) {
	t.Helper()
	bin = binaries(t)
	conf, _ = stand(t)
	token := filepath.Join(filepath.Dir(conf), "token")
	if err := os.WriteFile(token, []byte("sesame-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addTo(t, conf, fmt.Sprintf(`profiles:
  default: {trust: reviewed, network: {allow: [{host: %s, ports: [80], protocol: tcp}]}}
telemetry: {endpoint: "%s/v1/traces", headers: {Authorization: "file:%s"}, service: tested}
webhooks: [{url: "%s/hook", secret: "file:%s", events: [escape, refusal, key], perMinute: 600}]
`, inside, collector, token, receiver, token))
	return bin, conf
}

// TestDaemonIsTraced: one trace holds every step of a call in every process,
// below the caller's own span, with the call's id and none of its words.
func TestDaemonIsTraced(t *testing.T) {
	g := newGatherer(t)
	bin, conf := observed(t, g.URL, "http://127.0.0.1:9") // where nobody listens: no call waits for it
	secret := secretOf(t, bin, conf, "call")
	d := startDaemon(t, bin, conf)
	const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	status, head, body := ask(t, d, "POST", "/v1/calls", secret, hostile, "Traceparent", "00-"+id+"-"+span+"-01")
	var r envelope.Result
	if err := json.Unmarshal(body, &r); err != nil || status != 200 || !r.OK() {
		t.Fatalf("%d %s", status, body)
	}
	spans := g.trace(t, id)
	want := []string{"call", "call/admit", "call/collect", "call/decide", "call/destroy", "call/destroy/close", "call/destroy/close/launcher.close", "call/enter", "call/load",
		"call/prepare", "call/prepare/hold", "call/prepare/intend", "call/prepare/open", "call/prepare/open/launcher.open", "call/prepare/way", "call/receive",
		"call/record", "call/record/complete", "call/record/settle", "call/render", "call/reserve", "call/run", "call/run/egress", "call/run/exec", "call/stop"}
	if got := shape(spans); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	for _, s := range spans {
		switch {
		case s.Name == "call":
			if hex.EncodeToString(s.ParentSpanId) != span || attribute(s, "callcell.call.id") != head.Get("Callcell-Call") || attribute(s, "callcell.task") != "t-1" ||
				attribute(s, "callcell.tool") != "probe" || attribute(s, "callcell.level") != "container" || attribute(s, "callcell.outcome") != "completed" {
				t.Errorf("%v", s)
			}
		case s.Name == "egress":
			if attribute(s, "server.address") != inside || attribute(s, "callcell.egress.verdict") != "denied" || s.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
				t.Errorf("%v", s)
			}
		case strings.HasPrefix(s.Name, "launcher."):
			if s.EndTimeUnixNano <= s.StartTimeUnixNano || attribute(s, "callcell.measured_by") != "launcher" {
				t.Errorf("%v", s)
			}
		}
	}
	// Without a caller's trace it is the call's own, in every way of asking.
	for _, more := range [][]string{nil, {"Accept", "text/event-stream"}, {"Prefer", "respond-async"}} {
		_, head, _ := ask(t, d, "POST", "/v1/calls", secret, `{"argv":["true"]}`, more...)
		call := head.Get("Callcell-Call")
		if spans := g.trace(t, strings.ReplaceAll(call, "-", "")); len(spans) < 15 {
			t.Errorf("%q: %q", more, shape(spans))
		}
	}
	if out, err := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "audit", "export").Output(); err != nil || !bytes.Contains(out, []byte(id)) {
		t.Errorf("the row does not have the trace: %v %s", err, out)
	}
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
	// A refusal, and a command of its own, are traces too.
	run := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "run", "--json", "--trust", "reviewed", "--", "true")
	out, err := run.Output()
	if json.Unmarshal(out, &r) != nil {
		t.Fatalf("%v %s", err, out)
	}
	if spans := g.trace(t, strings.ReplaceAll(r.ID, "-", "")); len(spans) < 12 {
		t.Errorf("%q", shape(spans))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, word := range []string{"SESAME", "sesame-token", secret, "create_connection"} {
		if bytes.Contains(g.bytes, []byte(word)) {
			t.Errorf("%q is in a trace", word)
		}
	}
	if len(g.heads) == 0 || g.heads[0].Get("Authorization") != "sesame-token" {
		t.Errorf("%v", g.heads)
	}
}

// A receiver is one of webhooks.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex // guards what follows
	answer func(n int, w http.ResponseWriter)
	tries  int
	moved  int // requests that followed a redirect
	got    []webhook.Delivery
	bodies []byte
	faults []string
}

func newReceiver(t *testing.T, secret string, answer func(n int, w http.ResponseWriter)) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		if req.URL.Path != "/hook" {
			r.moved++
			return
		}
		r.tries++
		r.bodies = append(r.bodies, body...)
		var d webhook.Delivery
		if err != nil || json.Unmarshal(body, &d) != nil || d.Version != 1 || d.ID != req.Header.Get("Callcell-Delivery") || d.Event != req.Header.Get("Callcell-Event") {
			r.faults = append(r.faults, string(body))
		}
		var at int64
		if _, err := fmt.Sscanf(req.Header.Get("Callcell-Signature"), "t=%d,", &at); err != nil || webhook.Sign([]byte(secret), time.Unix(at, 0), body) != req.Header.Get("Callcell-Signature") ||
			time.Since(time.Unix(at, 0)).Abs() > time.Minute {
			r.faults = append(r.faults, req.Header.Get("Callcell-Signature"))
		}
		rec := httptest.NewRecorder()
		r.answer(r.tries, rec)
		if rec.Code < 300 {
			r.got = append(r.got, d)
		}
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(rec.Code)
	}))
	t.Cleanup(r.Close)
	return r
}

// has reports whether an event has come that is as wanted.
func (r *receiver) has(wanted func(*webhook.Delivery) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.got, func(d webhook.Delivery) bool { return wanted(&d) })
}

func (r *receiver) say() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d tries, %+v", r.tries, r.got)
}

// TestDaemonTellsReceivers: a receiver that was down is told of an attempted
// escape, of a refusal and of who has no key, signed, with no word of a program;
// no call waits for it.
func TestDaemonTellsReceivers(t *testing.T) {
	g := newGatherer(t)
	r := newReceiver(t, "sesame-token", func(n int, w http.ResponseWriter) {
		if n <= 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	bin, conf := observed(t, g.URL, r.URL)
	secret := secretOf(t, bin, conf, "call")
	d := startDaemon(t, bin, conf)
	status, head, body := ask(t, d, "POST", "/v1/calls", secret, hostile)
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	id := head.Get("Callcell-Call")
	ask(t, d, "POST", "/v1/calls", secret, `{"task":"t-2","argv":["true"],"request":{"resources":{"memory":"64Gi"}}}`)
	ask(t, d, "POST", "/v1/calls", "cck_wrong", `{"argv":["true"]}`)
	until(t, r.say, func() bool {
		return r.has(func(d *webhook.Delivery) bool {
			return d.Event == webhook.Escape && d.Counts["address"] > 0 && slices.Equal(d.Addresses, []string{inside}) && len(d.Calls) == 1 && d.Calls[0].ID == id && d.Calls[0].Task == "t-1" && strings.HasPrefix(d.Caller, "key:k_")
		})
	})
	until(t, r.say, func() bool {
		return r.has(func(d *webhook.Delivery) bool {
			return d.Event == webhook.Refusal && d.Counts["policy"] == 1 && d.Calls[0].Task == "t-2"
		})
	})
	until(t, r.say, func() bool {
		return r.has(func(d *webhook.Delivery) bool { return d.Event == webhook.Key && d.Caller == "127.0.0.1" })
	})
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.faults) > 0 || r.tries < 5 {
		t.Errorf("%d tries, %q", r.tries, r.faults)
	}
	for _, word := range []string{"SESAME", "sesame", secret, "create_connection"} {
		if bytes.Contains(r.bodies, []byte(word)) {
			t.Errorf("%q is in a delivery", word)
		}
	}
	log := strings.Join(d.log, "\n")
	if !strings.Contains(log, "does not take events") || !strings.Contains(log, "takes events again") || strings.Contains(log, "/hook") {
		t.Errorf("the log:\n%s", log)
	}
}

// TestReceiversThatDoNotAnswer: one that is slow or leads elsewhere holds up
// neither calls nor the end, and is not followed.
func TestReceiversThatDoNotAnswer(t *testing.T) {
	stuck := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-stuck:
		case <-req.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(stuck) })
	moved := newReceiver(t, "sesame-token", func(_ int, w http.ResponseWriter) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusPermanentRedirect)
	})
	bin, conf := observed(t, slow.URL, moved.URL)
	secret := secretOf(t, bin, conf, "call")
	d := startDaemon(t, bin, conf)
	for range 3 {
		if status, _, body := ask(t, d, "POST", "/v1/calls", secret, hostile); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	until(t, moved.say, func() bool { moved.mu.Lock(); defer moved.mu.Unlock(); return moved.tries > 0 })
	began := time.Now()
	if err := d.end(syscall.SIGTERM); err != nil { // it says what it could not hand on
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
	if took := time.Since(began); took > soon {
		t.Errorf("the end took %v", took)
	}
	moved.mu.Lock()
	defer moved.mu.Unlock()
	if moved.moved != 0 {
		t.Error("a redirect was followed")
	}
}

// TestSecretsAreTriedAtTheStart: what cannot be signed with is in the log before
// there is an event that needs it, with the field and what mends it.
func TestSecretsAreTriedAtTheStart(t *testing.T) {
	bin, conf := observed(t, "http://127.0.0.1:9", "http://127.0.0.1:9")
	if err := os.Chmod(filepath.Join(filepath.Dir(conf), "token"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, bin, conf)
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	log := strings.Join(d.log, "\n")
	for _, field := range []string{"telemetry.headers.Authorization", "webhooks[0].secret"} {
		if !strings.Contains(log, `"`+field+`: file: everybody can read it (chmod o-r)"`) {
			t.Errorf("%s is not in the log:\n%s", field, log)
		}
	}
}
