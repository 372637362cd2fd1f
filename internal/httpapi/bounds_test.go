package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/health"
	"github.com/callcell/callcell/internal/httpapi"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestPagesOfOthers: what a browser sends for a page of another origin is
// refused, a name that somebody points here too, whatever the key; what the
// operator lists may call.
func TestPagesOfOthers(t *testing.T) {
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) {
		serve.Origins, serve.Hosts = []string{"https://console.example"}, []string{"cells.example"}
	})
	_, key := s.key("blue", gateway.RoleCall)
	here := strings.TrimPrefix(s.url, "http://")
	port := here[strings.LastIndex(here, ":"):]
	for _, c := range []struct {
		headers []string
		want    string
	}{
		{nil, ""},
		{[]string{"Host", "localhost" + port}, ""}, {[]string{"Host", "LOCALHOST"}, ""}, {[]string{"Host", "cells.example"}, ""}, {[]string{"Host", "cells.example:443"}, ""},
		{[]string{"Host", "evil.example" + port}, "host"}, {[]string{"Host", "127.0.0.2" + port}, "host"}, {[]string{"Host", "localhost.evil.example"}, "host"},
		{[]string{"Host", "[::1]" + port}, "host"}, {[]string{"Host", "0.0.0.0" + port}, "host"}, {[]string{"Host", "127.0.0.1.evil.example"}, "host"},
		{[]string{"Origin", s.url}, ""}, {[]string{"Origin", "https://console.example"}, ""},
		{[]string{"Origin", "null"}, "origin"}, {[]string{"Origin", "https://evil.example"}, "origin"}, {[]string{"Origin", "https://" + here}, "origin"},
		{[]string{"Origin", "https://console.example.evil.example"}, "origin"}, {[]string{"Origin", "http://console.example"}, "origin"},
		{[]string{"Sec-Fetch-Site", "cross-site"}, "origin"}, {[]string{"Sec-Fetch-Site", "same-site"}, "origin"},
		{[]string{"Sec-Fetch-Site", "same-origin"}, ""}, {[]string{"Sec-Fetch-Site", "none"}, ""},
		{[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://console.example"}, ""},
	} {
		for _, path := range []string{"/healthz", "/v1/levels"} {
			a := s.do("GET", path, key, "", c.headers...)
			if a.code() != c.want || (c.want == "") != (a.StatusCode == 200) {
				t.Errorf("%s %q: %d %s, want %q", path, c.headers, a.StatusCode, a.body, c.want)
			}
			allowed := a.Header.Get("Access-Control-Allow-Origin")
			if listed := c.want == "" && strings.Contains(fmt.Sprint(c.headers), "https://console.example"); listed != (allowed != "") {
				t.Errorf("%q: allows %q", c.headers, allowed)
			}
		}
	}
	a := s.do("OPTIONS", "/v1/calls", "", "", "Origin", "https://console.example", "Access-Control-Request-Method", "POST")
	if a.StatusCode != 204 || a.Header.Get("Access-Control-Allow-Headers") == "" || a.Header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("preflight: %d %v", a.StatusCode, a.Header)
	}
	if a := s.do("OPTIONS", "/v1/calls", "", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST"); a.code() != "origin" {
		t.Errorf("preflight of another: %d %s", a.StatusCode, a.body)
	}
	for _, path := range []string{"/mcp", "/v1/calls", "/v1/images/build"} { // before it is asked whether there is a key
		for _, c := range [][3]string{{"Host", "evil.example", "host"}, {"Origin", "https://evil.example", "origin"}} {
			if a := s.do("POST", path, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, c[0], c[1]); a.code() != c[2] {
				t.Errorf("%s, %s of another, no key: %d %s", path, c[0], a.StatusCode, a.body)
			}
		}
	}
}

// TestAKeyStandsInItsHeader: what stands anywhere else, or in another way, is no
// key, and a query with one in it is not in the log.
func TestAKeyStandsInItsHeader(t *testing.T) {
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleAdmin)
	for _, c := range []struct{ name, path, header, value string }{
		{"empty", "/v1/calls", "Authorization", ""}, {"no word", "/v1/calls", "Authorization", "Bearer "}, {"null", "/v1/calls", "Authorization", "Bearer null"},
		{"undefined", "/v1/calls", "Authorization", "Bearer undefined"}, {"bare", "/v1/calls", "Authorization", key}, {"of another scheme", "/v1/calls", "Authorization", "Basic " + key},
		{"twice", "/v1/calls", "Authorization", "Bearer " + key + " " + key}, {"in a query", "/v1/calls?access_token=" + key, "X-None", "x"}, {"in a header of others", "/v1/calls", "X-Api-Key", key},
		{"in a cookie", "/v1/calls", "Cookie", "key=" + key}, {"to the assistants' address", "/mcp?key=" + key, "X-None", "x"},
	} {
		if a := s.do("POST", c.path, "", `{"argv":["/bin/print","x"]}`, c.header, c.value); a.StatusCode != 401 || a.code() != "key" {
			t.Errorf("%s: %d %s", c.name, a.StatusCode, a.body)
		}
	}
	if log := s.lines.String(); strings.Contains(log, key) {
		t.Error("the key is in the log")
	}
}

// TestWhatABodyMayBe: JSON alone, of a bounded size, as it is.
func TestWhatABodyMayBe(t *testing.T) {
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Body = 64 * envelope.KiB })
	_, key := s.key("blue", gateway.RoleCall)
	large := `{"argv":["` + strings.Repeat("x", 70<<10) + `"]}`
	for _, c := range []struct {
		body, kind, want string
		more             []string
	}{
		{large, "application/json", "too_large", nil},
		{`{"argv":["/bin/print"]}`, "text/plain", "content_type", nil}, {`a=b`, "application/x-www-form-urlencoded", "content_type", nil},
		{`{"argv":["/bin/print"]}`, "", "content_type", nil},
		{`{"argv":["/bin/print"]}`, "application/json", "content_type", []string{"Content-Encoding", "gzip"}},
		{`{"argv":["/bin/print"]}`, "application/json; charset=utf-8", "", nil},
	} {
		headers := append([]string{"Content-Type", c.kind}, c.more...)
		if a := s.do("POST", "/v1/calls", key, c.body, headers...); a.code() != c.want {
			t.Errorf("%.40s as %q: %d %s, want %q", c.body, c.kind, a.StatusCode, a.body, c.want)
		}
	}
	for path, want := range map[string]string{"/v1/calls?x=1": "request", "/v1/nothing": "not_found", "/": "not_found", "/v1/calls/": "not_found", "/v1/../v1/calls": "not_found"} {
		if a := s.do("GET", path, key, ""); a.code() != want {
			t.Errorf("%s: %d %s, want %s", path, a.StatusCode, a.body, want)
		}
	}
	if a := s.do("PUT", "/v1/calls", key, ""); a.code() != "method" || a.Header.Get("Allow") != "POST, GET" {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
}

// TestStrangersAreBounded: tries without a good key are answered a bounded
// number of times, by address and whatever they say of it; who has a key is not
// held up by them, and they fill neither the log of calls nor a limit of a key.
func TestStrangersAreBounded(t *testing.T) {
	s := newStandAt(t, stopped{time.Now()}, func(_ *config.Serve, tier *gateway.Tier) { tier.Rate = 20 })
	_, key := s.key("blue", gateway.RoleCall)
	codes := map[string]int{}
	for i := range 300 {
		a := s.do("POST", "/v1/calls", fmt.Sprintf("cck_%043d", i), `{"argv":["/bin/print"]}`, "X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i%250), "X-Real-IP", "192.0.2.9", "Forwarded", "for=192.0.2.8")
		codes[a.code()]++
		if a.code() == "tries" && a.Header.Get("Retry-After") == "" {
			t.Fatal("no Retry-After")
		}
	}
	if codes["key"] != 30 || codes["tries"] != 270 {
		t.Errorf("%v", codes)
	}
	clear(codes)
	for i := range 60 {
		codes[s.do("POST", "/v1/calls", key, `{"argv":["/bin/print"]}`, "X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i)).code()]++
	}
	if codes[""] != 20 || codes["rate"] != 40 {
		t.Errorf("with a key: %v", codes)
	}
	rows, err := s.log.List(t.Context(), auditAll())
	if err != nil || len(rows) != 20+10 {
		t.Errorf("%d rows, %v; want those of the 20 calls and of 10 refusals", len(rows), err)
	}
}

// TestProxiesAreListed: a proxy's word about who calls is taken where the
// operator lists the proxy, and up to the first hop that he does not.
func TestProxiesAreListed(t *testing.T) {
	s := newStandAt(t, stopped{time.Now()}, func(serve *config.Serve, _ *gateway.Tier) { serve.Proxies = []string{"127.0.0.0/8", "10.0.0.0/8"} })
	try := func(forwarded string) string {
		return s.do("GET", "/v1/levels", "", "", "X-Forwarded-For", forwarded).code()
	}
	for range 30 {
		try("192.0.2.1")
	}
	for forwarded, want := range map[string]string{"192.0.2.1": "tries", "203.0.113.5, 192.0.2.1": "tries", "192.0.2.1, 10.0.0.7": "tries", "192.0.2.2": "key", "192.0.2.1, 192.0.2.3": "key"} {
		if got := try(forwarded); got != want {
			t.Errorf("%s: %s, want %s", forwarded, got, want)
		}
	}
}

// TestSlowClients: a head that does not come, and a body that does not, end
// their connections in time; others are served meanwhile.
func TestSlowClients(t *testing.T) {
	leak.Check(t)
	soon := envelope.Duration(300 * time.Millisecond)
	for name, c := range map[string]struct {
		limit func(*config.Serve)
		body  string
	}{
		"head": {func(serve *config.Serve) { serve.Header = soon }, ""},
		"body": {func(serve *config.Serve) { serve.Read = soon }, "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"},
	} {
		s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { c.limit(serve) })
		_, key := s.key("blue", gateway.RoleCall)
		address := strings.TrimPrefix(s.url, "http://")
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "POST /v1/calls HTTP/1.1\r\nHost: "+address+"\r\nAuthorization: Bearer "+key+"\r\n"+c.body); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { // meanwhile; its own head may be late too, where the host is slow
			resp, err := http.Get(s.url + "/healthz")
			return err == nil && resp.Body.Close() == nil && resp.StatusCode == 200
		})
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if name == "body" && (err != nil || resp.StatusCode != http.StatusRequestTimeout) {
			t.Errorf("%s: %v %v", name, resp, err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: the connection is still open: %v", name, err)
		}
		conn.Close()
	}
}

// TestHealthMeansIt: the process answers as long as it can, and is not ready
// when a call would be refused.
func TestHealthMeansIt(t *testing.T) {
	s := newStand(t, nil)
	if a := s.do("GET", "/readyz", "", ""); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	s = newStand(t, nil)
	if a := s.do("GET", "/healthz", "", ""); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if h := read[httpapi.Health](t, s.do("GET", "/readyz", "", ""), 200); h.Status != "ok" {
		t.Errorf("%+v", h)
	}
	s.health.Checks = []health.Result{{Name: "store", OK: true}, {Name: "anchors", Soft: true, Reason: health.AnchorBehind, Err: io.ErrClosedPipe}}
	if h := read[httpapi.Health](t, s.do("GET", "/readyz", "", ""), 200); h.Status != "degraded" || len(h.Checks) != 2 || h.Checks[1].Reason != health.AnchorBehind {
		t.Errorf("%+v", h)
	}
	s.health.Ready = false
	s.health.Checks[0] = health.Result{Name: "store", Reason: health.StoreUnwritable, Err: io.ErrClosedPipe}
	a := s.do("GET", "/readyz", "", "")
	if p := read[httpapi.Problem](t, a, 503); p.Code != "unavailable" || !p.Retry || len(p.Checks) != 2 || p.Checks[0].Reason != health.StoreUnwritable || strings.Contains(string(a.body), "pipe") {
		t.Errorf("%s", a.body)
	}
	if a := s.do("GET", "/healthz", "", ""); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if !strings.Contains(s.lines.String(), "pipe") {
		t.Error("the log does not say why")
	}
}

// TestLogIsLines: what a client sends cannot begin another line of the log, and
// neither its query nor its key is in it.
func TestLogIsLines(t *testing.T) {
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	before := strings.Count(s.lines.String(), "\n")
	s.do("GET", "/v1/x%0a%7b%22level%22:%22INFO%22%7d%e2%80%a8y?token=sesame", key, "", "User-Agent", "sesame")
	text := s.lines.String()
	if strings.Count(text, "\n") != before+1 || strings.Contains(text, "sesame") || strings.Contains(text, key) {
		t.Errorf("%s", text)
	}
}

// TestRevokedOverHTTP: a call of a revoked key ends at once, and says why.
func TestRevokedOverHTTP(t *testing.T) {
	s := newStand(t, nil)
	id, key := s.key("blue", gateway.RoleCall)
	_, admin := s.key("red", gateway.RoleAdmin)
	st := read[httpapi.CallState](t, s.do("POST", "/v1/calls", key, `{"argv":["/bin/hang"]}`, "Prefer", "respond-async"), 202)
	s.running(key, st.ID)
	if a := s.do("DELETE", "/v1/keys/"+id, admin, ""); a.StatusCode != 200 {
		t.Fatalf("%s", a.body)
	}
	waitFor(t, func() bool {
		got := read[httpapi.CallState](t, s.do("GET", "/v1/calls/"+st.ID, admin, ""), 200)
		if got.State == "done" && got.Result.Refusal != nil { // it had not come to its program
			return got.Reason == envelope.ReasonPermission
		}
		return got.State == "done" && got.Outcome == envelope.OutcomeCancelled && strings.Contains(strings.Join(got.Result.Warnings, " "), "revoked")
	})
	if a := s.do("GET", "/v1/calls/"+st.ID, key, ""); a.code() != "key" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// TestWhatIsNoCallIsCounted: reading a body has its price, also where it is no
// call. A key that sends such bodies without end is not listened to, and no other
// hears of it.
func TestWhatIsNoCallIsCounted(t *testing.T) {
	s := newStandAt(t, stopped{time.Now()}, nil)
	_, blue := s.key("blue", gateway.RoleCall)
	_, red := s.key("red", gateway.RoleCall)
	codes := map[string]int{}
	for i := range 100 {
		path := []string{"/v1/calls", "/v1/fetch", "/v1/explain"}[i%3]
		codes[s.do("POST", path, blue, `{"argv":`).code()]++
	}
	if codes["request"] != 60 || codes["rate"] != 40 {
		t.Errorf("%v", codes)
	}
	if a := s.do("POST", "/v1/calls", blue, `{"argv":["/bin/print"]}`); a.code() != "rate" || a.Header.Get("Retry-After") == "" {
		t.Errorf("%s", a.body)
	}
	if a := s.do("POST", "/v1/calls", red, `{"argv":["/bin/print"]}`); a.StatusCode != 200 {
		t.Errorf("another key: %s", a.body)
	}
}

// TestWhoWaitsForACallIsBounded: a key that follows one call by many connections
// does not have all there are, however it does so.
func TestWhoWaitsForACallIsBounded(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	const body = `{"argv":["/bin/hang"]}`
	st := read[httpapi.CallState](t, s.do("POST", "/v1/calls", key, body, "Prefer", "respond-async", "Idempotency-Key", "one"), 202)
	s.running(key, st.ID)
	var waiting sync.WaitGroup
	codes := make(chan string)
	for i := range 40 {
		waiting.Go(func() {
			if i%2 == 0 {
				codes <- s.do("GET", "/v1/calls/"+st.ID+"/events", key, "").code()
			} else {
				codes <- s.do("POST", "/v1/calls", key, body, "Idempotency-Key", "one").code()
			}
		})
	}
	for range 8 { // the others wait, but for one that stand.running may still hold the place of
		if code := <-codes; code != "capacity" {
			t.Errorf("%q", code)
		}
	}
	_, other := s.key("red", gateway.RoleCall)
	if a := s.do("POST", "/v1/calls", other, `{"argv":["/bin/print"]}`); a.StatusCode != 200 {
		t.Errorf("%s", a.body)
	}
	s.do("DELETE", "/v1/calls/"+st.ID, key, "")
	heard := map[string]int{}
	for range 32 {
		heard[<-codes]++
	}
	if heard["capacity"] > 1 || heard[""]+heard["setup"] < 31 {
		t.Errorf("%v", heard)
	}
	waiting.Wait()
}

// TestRepetitionsAreCounted: a request that is for a call of before has its price
// too.
func TestRepetitionsAreCounted(t *testing.T) {
	s := newStandAt(t, stopped{time.Now()}, nil)
	_, key := s.key("blue", gateway.RoleCall)
	codes := map[string]int{}
	for range 700 {
		codes[s.do("POST", "/v1/calls", key, `{"argv":["/bin/print"]}`, "Idempotency-Key", "one").code()]++
	}
	if codes[""] != 601 || codes["rate"] != 99 {
		t.Errorf("%v", codes)
	}
}
