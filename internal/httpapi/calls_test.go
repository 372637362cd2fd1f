package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/httpapi"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestOneAnswer: a call that ran is its Result, with its row written; the task
// is the body's, else a header's, else the trace's.
func TestOneAnswer(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	trace := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, c := range []struct{ body, task string }{
		{`{"argv":["/bin/print","x"],"task":"mine"}`, "mine"}, {`{"argv":["/bin/print","x"]}`, "header"},
	} {
		a := s.do("POST", "/v1/calls", key, c.body, "Callcell-Task", "header", "Traceparent", trace)
		r := read[envelope.Result](t, a, 200)
		row, err := s.log.Row(t.Context(), r.ID)
		if err != nil || !r.OK() || r.Task != c.task || row.Task != c.task || row.Open() || a.Header.Get("Callcell-Call") != r.ID || r.Receipt == nil {
			t.Errorf("%+v\n%+v %v", r, row, err)
		}
		if !strings.HasPrefix(row.Caller, "key:k_") || row.Team != "blue" {
			t.Errorf("caller %q of team %q", row.Caller, row.Team)
		}
	}
	r := read[envelope.Result](t, s.do("POST", "/v1/calls", key, `{"argv":["/bin/exit","3"]}`, "Traceparent", trace), 200)
	if r.Exit.Code != 3 || r.Task != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("%+v", r)
	}
}

// TestRefusalsAreProblems: each kind has its code, its status, and what mends
// it; those of a call have its id and its receipt.
func TestRefusalsAreProblems(t *testing.T) {
	s := newStandAt(t, stopped{time.Now()}, func(_ *config.Serve, tier *gateway.Tier) { tier.Rate, tier.Tokens = 8, 1000 })
	_, key := s.key("blue", gateway.RoleCall)
	for _, c := range []struct {
		name, body, code, field string
		status                  int
		ofCall                  bool
	}{
		{"not JSON", `{`, "request", "", 400, false},
		{"unknown field", `{"argv":["x"],"arv":1}`, "request", "arv", 400, false},
		{"twice", `{"argv":["x"],"argv":["y"]}`, "request", "argv", 400, false},
		{"null", `{"argv":null}`, "request", "argv", 400, false},
		{"nothing to do", `{}`, "request", "argv", 400, true},
		{"no profile of the key", `{"argv":["x"],"profile":"small"}`, "permission", "profile", 403, true},
		{"wider than the profile", `{"argv":["x"],"request":{"resources":{"memory":"1Ti"}}}`, "policy", "resources.memory", 403, true},
		{"a level that is not here", `{"argv":["x"],"request":{"level":"microvm"}}`, "unsupported", "level", 422, true},
		{"more than the month has", `{"argv":["x"],"maxTokens":5000}`, "budget", "team.tokens", 402, true},
	} {
		a := s.do("POST", "/v1/calls", key, c.body)
		p := read[httpapi.Problem](t, a, c.status)
		if p.Code != c.code || p.Status != c.status || p.Type != "urn:callcell:"+c.code || p.Field != c.field && c.field != "" || p.Detail == "" {
			t.Errorf("%s: %s", c.name, a.body)
		}
		if c.ofCall != (p.Call != "") || c.ofCall != (p.Receipt != nil) {
			t.Errorf("%s: call %q, receipt %v", c.name, p.Call, p.Receipt)
		}
	}
	for range 8 {
		s.do("POST", "/v1/calls", key, `{"argv":["/bin/print"],"maxTokens":1}`)
	}
	a := s.do("POST", "/v1/calls", key, `{"argv":["/bin/print"]}`)
	if p := read[httpapi.Problem](t, a, 429); p.Code != "rate" || !p.Retry || a.Header.Get("Retry-After") == "" ||
		!strings.Contains(a.Header.Get("RateLimit"), "r=0") || !strings.Contains(a.Header.Get("RateLimit-Policy"), "q=8;w=60") {
		t.Errorf("%s %v", a.body, a.Header)
	}
}

// An sse is one event as it came.
type sse struct{ id, kind, data string }

// events reads events until the last, or until n are there.
func events(t *testing.T, r io.Reader, n int) (list []sse) {
	t.Helper()
	var e sse
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "":
			if e.kind != "" {
				list = append(list, e)
			}
			if e.kind == "result" || len(list) == n {
				return list
			}
			e = sse{}
		}
	}
	return list
}

func kinds(list []sse) string {
	var words []string
	for _, e := range list {
		words = append(words, e.kind)
	}
	return strings.Join(words, " ")
}

// TestEventsCanBeHadAgain: a client that loses its connection goes on after the
// last event that it has, and gets the same result.
func TestEventsCanBeHadAgain(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/calls", strings.NewReader(`{"argv":["/bin/print","hello","world"]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}, "Accept": {"text/event-stream"}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	first := events(t, resp.Body, 2)
	cancel()
	resp.Body.Close()
	id := resp.Header.Get("Callcell-Call")
	if kinds(first) != "begun running" || !strings.Contains(first[0].data, id) {
		t.Fatalf("%+v", first)
	}
	var whole []sse
	for after, want := range []string{"begun running stdout stdout result", "running stdout stdout result", "stdout stdout result"} {
		a := s.do("GET", "/v1/calls/"+id+"/events", key, "", "Last-Event-ID", fmt.Sprint(after))
		list := events(t, strings.NewReader(string(a.body)), 0)
		if kinds(list) != want || list[0].id != fmt.Sprint(after+1) || a.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("after %d: %+v", after, list)
		}
		if after == 0 {
			whole = list
		}
	}
	var r envelope.Result
	if err := json.Unmarshal([]byte(whole[4].data), &r); err != nil || !r.OK() {
		t.Errorf("%v %s", err, whole[4].data)
	}
	for _, odd := range []string{"-1", "x", "1e3"} {
		if a := s.do("GET", "/v1/calls/"+id+"/events", key, "", "Last-Event-ID", odd); a.code() != "request" {
			t.Errorf("%s: %s", odd, a.body)
		}
	}
	if a := s.do("POST", "/v1/calls", key, `{"argv":[]}`, "Accept", "text/event-stream"); a.code() != "request" {
		t.Errorf("a refusal is no stream: %s", a.body)
	}
}

// TestOutputIsBounded: a flood is told up to a bound, with a word about it, and
// the result has what the envelope keeps.
func TestOutputIsBounded(t *testing.T) {
	s := newStand(t, nil)
	s.profile.Resources.Output.Total = 1 * envelope.MiB
	_, key := s.key("blue", gateway.RoleCall)
	a := s.do("POST", "/v1/calls", key, `{"argv":["/bin/flood"],"maxTokens":300000}`, "Accept", "text/event-stream")
	list := events(t, strings.NewReader(string(a.body)), 0)
	told := 0
	for _, e := range list {
		if e.kind == "stdout" {
			told += len(e.data) * 3 / 4
		}
	}
	if n := strings.Count(kinds(list), "cut"); n != 1 {
		t.Errorf("%d times it is said that the rest comes later", n)
	}
	if last := list[len(list)-1]; last.kind != "result" || !strings.Contains(kinds(list), "cut") || told > 300<<10 || len(list) > 5000 {
		t.Errorf("%d events, %d bytes of output", len(list), told)
	}
}

// TestLaterAndCancel: a call that is started is listed, read, and cancelled by
// id; its row says so.
func TestLaterAndCancel(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	a := s.do("POST", "/v1/calls", key, `{"argv":["/bin/hang"],"task":"t-9"}`, "Prefer", "respond-async")
	st := read[httpapi.CallState](t, a, 202)
	s.running(key, st.ID)
	if a.Header.Get("Location") != "/v1/calls/"+st.ID || st.State != "running" {
		t.Errorf("%s", a.body)
	}
	list := read[httpapi.CallList](t, s.do("GET", "/v1/calls", key, ""), 200)
	if len(list.Calls) != 1 || list.Calls[0].ID != st.ID || list.Calls[0].Task != "t-9" {
		t.Errorf("%+v", list)
	}
	for range 2 { // of one that has ended it is nothing
		if a := s.do("DELETE", "/v1/calls/"+st.ID, key, ""); a.StatusCode != 202 {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
		s.do("GET", "/v1/calls/"+st.ID+"/events", key, "") // until its end
	}
	got := read[httpapi.CallState](t, s.do("GET", "/v1/calls/"+st.ID, key, ""), 200)
	row, err := s.log.Row(t.Context(), st.ID)
	if got.State != "done" || got.Result == nil || !wasCancelled(got.Outcome, got.Result.Refusal) || err != nil || row.Open() || row.Outcome != got.Outcome {
		t.Errorf("%+v, row %v %v", got, row.Outcome, err)
	}
}

// TestClientThatGoes: a call whose client waits for it ends with the client.
func TestClientThatGoes(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/calls", strings.NewReader(`{"argv":["/bin/hang"]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
	gone := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(req)
		gone <- err
	}()
	waitFor(t, func() bool { return s.gateway.Load().Running == 1 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var rows []audit.Row
	waitFor(t, func() bool {
		rows, err = s.log.List(t.Context(), audit.Filter{})
		return err != nil || len(rows) == 1 && !rows[0].Open()
	})
	if err != nil || rows[0].Outcome != envelope.OutcomeCancelled && rows[0].Reason != envelope.ReasonSetup { // it may not have come to its program
		t.Errorf("%+v %v", rows, err)
	}
	waitFor(t, func() bool { return s.gateway.Load().Running == 0 })
}

// wasCancelled reports whether a call ended by being cancelled, or was before
// its program had started.
func wasCancelled(o envelope.Outcome, r *envelope.Refusal) bool {
	return o == envelope.OutcomeCancelled || r != nil && r.Reason == envelope.ReasonSetup && strings.Contains(r.Message, "cancelled")
}

// running waits until the program of a call is about to be started.
func (s *stand) running(key, id string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), "GET", s.url+"/v1/calls/"+id+"/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if list := events(s.t, resp.Body, 2); kinds(list) != "begun running" {
		s.t.Fatalf("%+v", list)
	}
}

// waitFor waits until something is so.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(5 * time.Minute) // where the host has much else to do
	for !so() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it does not come")
		}
	}
}

// TestIdempotency: the same key and body is one call, at once and later; another
// body is refused; what was refused may be tried again; keys of two callers are
// two.
func TestIdempotency(t *testing.T) {
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	_, other := s.key("blue", gateway.RoleCall)
	body := `{"argv":["/bin/print","once"]}`
	var all sync.WaitGroup
	ids := make(chan string, 10)
	for range 10 {
		all.Go(func() {
			a := s.do("POST", "/v1/calls", key, body, "Idempotency-Key", "k-1")
			ids <- read[envelope.Result](t, a, 200).ID
		})
	}
	all.Wait()
	close(ids)
	seen := map[string]bool{}
	for id := range ids {
		seen[id] = true
	}
	rows, err := s.log.List(t.Context(), audit.Filter{})
	if len(seen) != 1 || len(rows) != 1 || err != nil {
		t.Errorf("%d calls, %d rows, %v", len(seen), len(rows), err)
	}
	if a := s.do("POST", "/v1/calls", key, `{"argv":["/bin/print","twice"]}`, "Idempotency-Key", "k-1"); a.code() != "idempotency" {
		t.Errorf("%s", a.body)
	}
	if a := s.do("POST", "/v1/calls", key, body, "Idempotency-Key", "k-1"); a.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%v", a.Header)
	}
	if r := read[envelope.Result](t, s.do("POST", "/v1/calls", other, body, "Idempotency-Key", "k-1"), 200); seen[r.ID] {
		t.Error("another caller's")
	}
	for range 2 {
		if p := read[httpapi.Problem](t, s.do("POST", "/v1/calls", key, `{}`, "Idempotency-Key", "k-2"), 400); p.Call == "" || seen[p.Call] {
			t.Errorf("%+v", p)
		} else {
			seen[p.Call] = true
		}
	}
	for _, more := range []string{"Idempotency-Key: \r\n", "Idempotency-Key: k-1\r\nIdempotency-Key: k-3\r\n"} { // who sends one means it
		got, err := s.raw("POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + key +
			"\r\nContent-Type: application/json\r\n" + more + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
		if err != nil || !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%q: %.100q %v", more, got, err)
		}
	}
	if a := s.do("POST", "/v1/calls", key, body, "Idempotency-Key", "a b"); a.code() != "request" {
		t.Errorf("%s", a.body)
	}
}

// TestExplainAndFetch: explaining runs nothing and has no row; a fetch is a
// call, here on a host that has no way out.
func TestExplainAndFetch(t *testing.T) {
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	e := read[struct {
		Level   string
		Argv    []string
		Refusal *envelope.Refusal
	}](t, s.do("POST", "/v1/explain", key, `{"argv":["/bin/print","x"]}`), 200)
	rows, err := s.log.List(t.Context(), audit.Filter{})
	if e.Level != "container" || len(e.Argv) != 2 || e.Refusal != nil || len(rows) != 0 || err != nil {
		t.Errorf("%+v, %d rows", e, len(rows))
	}
	s.profile.Network.Fetch = envelope.FetchPublic
	if p := read[httpapi.Problem](t, s.do("POST", "/v1/fetch", key, `{"url":"https://example.com/","bytes":"1Ki"}`), 422); p.Code != "unsupported" || p.Call == "" {
		t.Errorf("%+v", p)
	}
	if a := s.do("POST", "/v1/fetch", key, `{"url":"https://example.com/","argv":["x"]}`); a.code() != "request" {
		t.Errorf("%s", a.body)
	}
}
