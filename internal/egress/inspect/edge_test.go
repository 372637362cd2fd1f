package inspect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/egress/inject"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/testing/leak"
)

const hidden = "s3cr3t-value/+x"

// granted is a set of one credential of ok.test.
func granted(t testing.TB, text string) *inject.Set {
	t.Helper()
	one, err := secret.New([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := inject.New([]wire.Credential{{Name: "gh", Header: "Authorization", Format: "Bearer {}", Host: "ok.test", Port: 443, Methods: []string{"GET", "POST", "HEAD"}, Path: "/repos/", Secret: one}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Destroy)
	return s
}

func edgeOf(s *inject.Set) *inject.Edge { return s.At("ok.test", 443) }

// everyEdge runs a test for each version of HTTP, of the program and of the
// origin. Afterwards what was masked is compared.
func everyEdge(t *testing.T, h http.HandlerFunc, masks int64, f func(t *testing.T, d *door, c *http.Client)) {
	for _, way := range []struct{ program, origin bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("program HTTP2 %v, origin %v", way.program, way.origin), func(t *testing.T) {
			leak.Check(t)
			s := granted(t, hidden)
			d := open(t, newSiteOf(t, "ok.test", true, way.origin, h), Options{TLS: true, Edge: edgeOf(s)})
			c := d.client(t, way.program)
			f(t, d, c)
			if out := d.leave(t, c); out.Cut || out.Refused != 0 {
				t.Errorf("%+v", out)
			}
			if _, masked := s.Counts(); masked["gh"] != masks {
				t.Errorf("masked %v, want %d", masked, masks)
			}
		})
	}
}

func TestACredentialIsAddedToWhatItIsFor(t *testing.T) {
	arrived := make(chan http.Header, 1)
	everyEdge(t, func(w http.ResponseWriter, r *http.Request) { arrived <- r.Header }, 0, func(t *testing.T, d *door, c *http.Client) {
		for _, row := range []struct {
			method, target string
			with           bool
		}{
			{"GET", "/repos/a?b=c", true}, {"POST", "/repos/a", true}, {"GET", "/repos/", true}, {"DELETE", "/repos/a", false}, {"GET", "/repository", false},
			{"GET", "/REPOS/a", false}, {"GET", "/", false}, {"GET", "/%72epos/a", false},
		} {
			r := request(t, row.method, "https://ok.test"+row.target, "")
			r.Header = http.Header{"Authorization": {"Bearer mine", "Bearer mine"}, "X-Mine": {"1"}, "Range": {"bytes=0-1"}, "Accept-Encoding": {"br"}, "X-Http-Method-Override": {"DELETE"}}
			get(t, c, r)
			got := <-arrived
			want := []string{"Bearer " + hidden}
			if !row.with {
				want = nil
			}
			if !slices.Equal(got["Authorization"], want) || got.Get("X-Mine") != "1" || got["Range"] != nil || got["X-Http-Method-Override"] != nil || got.Get("Accept-Encoding") != "identity" {
				t.Errorf("%s %s: %v", row.method, row.target, got)
			}
		}
	})
}

// TestBareRequestsAreCounted: they go on, and it is said.
func TestBareRequestsAreCounted(t *testing.T) {
	leak.Check(t)
	s := granted(t, hidden)
	d := open(t, newSite(t, "ok.test", true, nil), Options{TLS: true, Edge: edgeOf(s)})
	c := d.client(t, true)
	for _, target := range []string{"/repos/a", "/a", "/repos/b", "/b", "/c"} {
		get(t, c, request(t, "GET", "https://ok.test"+target, ""))
	}
	out := d.leave(t, c)
	used, _ := s.Counts()
	if out.Requests != 5 || out.Bare != 3 || used["gh"] != 2 {
		t.Errorf("%+v %v", out, used)
	}
}

// TestTheProgramsOwnHeaderIsDropped in spellings that no client writes.
func TestTheProgramsOwnHeaderIsDropped(t *testing.T) {
	for _, target := range []string{"/repos/a", "/elsewhere"} {
		leak.Check(t)
		arrived := make(chan http.Header, 1)
		d := open(t, newSite(t, "ok.test", true, func(w http.ResponseWriter, r *http.Request) { arrived <- r.Header }), Options{TLS: true, Edge: edgeOf(granted(t, hidden))})
		check := func(how string) {
			t.Helper()
			got := <-arrived
			for name, values := range got {
				if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, "mine") }) {
					t.Errorf("%s %s: %s: %q", how, target, name, values)
				}
			}
			if with := target == "/repos/a"; (len(got["Authorization"]) == 1) != with {
				t.Errorf("%s %s: %v", how, target, got)
			}
		}
		r := d.raw(t)
		r.send(t, "GET "+target+" HTTP/1.1\r\nHost: ok.test\r\naUTHORIZATION: mine\r\nAuthorization: mine\r\nauthorization:mine\r\nConnection: Authorization\r\n\r\n")
		r.answer(t)
		check("HTTP/1")
		r.send(t, "POST "+target+" HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n1\r\nx\r\n0\r\nAuthorization: mine\r\n\r\n")
		r.answer(t)
		check("a trailer")
		r.Close()
		f := d.frames(t)
		f.ask(t, 1, "", ":method GET", ":scheme https", ":authority ok.test", ":path "+target, "authorization mine", "authorization mine")
		check("HTTP/2")
		f.conn.Close()
		d.outcome(t)
		d.outcome(t)
	}
}

func TestRequestTrailersGoNoFurther(t *testing.T) {
	leak.Check(t)
	arrived := make(chan http.Header, 1)
	d := open(t, newSiteOf(t, "ok.test", true, false, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- r.Trailer
	}), Options{TLS: true, Edge: edgeOf(granted(t, hidden))})
	r := d.raw(t)
	r.send(t, "POST /repos/ HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n1\r\nx\r\n0\r\nX-A: a\r\nAuthorization: mine\r\n\r\n")
	r.answer(t)
	if got := <-arrived; len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// TestWhatIsRefusedOnAHostWithACredential: with the reason, and the next
// request is served.
func TestWhatIsRefusedOnAHostWithACredential(t *testing.T) {
	const upgrades = "Connection: Upgrade\r\nUpgrade: "
	socket := strings.TrimPrefix(strings.TrimSuffix(upgrade, "\r\n"), "GET / HTTP/1.1\r\n"+okHost)
	for name, row := range map[string]struct{ method, target, fields, why string }{
		"dots":            {"GET", "/repos/../admin", "", "component of dots"},
		"encoded dots":    {"GET", "/repos/%2e%2e/admin", "", "encoded dot"},
		"upper case":      {"GET", "/repos/%2E%2E/admin", "", "encoded dot"},
		"slashes":         {"GET", "//repos/", "", "empty component"},
		"slashes within":  {"GET", "/repos//admin", "", "empty component"},
		"encoded slash":   {"GET", "/repos%2f", "", "encoded separator"},
		"a backslash":     {"GET", `/repos/..\admin`, "", "encoded separator"}, // that is how it would be sent
		"NUL":             {"GET", "/repos/%00", "", "control character"},
		"twice":           {"GET", "/repos/%252e%252e/admin", "", "encoded dot"},
		"dots absolutely": {"GET", "https://ok.test/repos/../admin", "", "component of dots"},
		"a websocket":     {"GET", "/repos/", socket, "another protocol"},
		"an upgrade":      {"GET", "/repos/", upgrades + "h2c\r\nHTTP2-Settings: x\r\n", "another protocol"},
		"outside, too":    {"GET", "/else/../where", "", "component of dots"},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			to := newSite(t, "ok.test", true, nil)
			s := granted(t, hidden)
			d := open(t, to, Options{TLS: true, Edge: edgeOf(s)})
			r := d.raw(t)
			r.send(t, row.method+" "+row.target+" HTTP/1.1\r\nHost: ok.test\r\n"+row.fields+"\r\n")
			res, body := r.answer(t)
			if res.StatusCode != 403 || !strings.Contains(body, row.why) || !strings.Contains(body, "host with a credential") || res.Header.Get(markHeader) != denied {
				t.Errorf("%d %q", res.StatusCode, body)
			}
			if row.fields == "" {
				f := d.frames(t)
				status, body := f.ask(t, 1, "", ":method "+row.method, ":scheme https", ":authority ok.test", ":path "+strings.TrimPrefix(row.target, "https://ok.test"))
				if status != 403 || !strings.Contains(body, row.why) {
					t.Errorf("HTTP/2: %d %q", status, body)
				}
				f.conn.Close()
				if out := d.outcome(t); out.Cut || out.Refused != 1 {
					t.Errorf("%+v", out)
				}
			}
			if saw := to.saw(); len(saw) > 0 {
				t.Errorf("the origin saw %q", saw)
			}
			r.send(t, "GET /repos/next HTTP/1.1\r\nHost: ok.test\r\n\r\n")
			if res, _ := r.answer(t); res.StatusCode != 200 {
				t.Errorf("next: %d", res.StatusCode)
			}
			r.Close()
			if out := d.outcome(t); out.Cut || out.Refused != 1 || out.Requests != 1 || !strings.Contains(out.Why, row.why) {
				t.Errorf("%+v", out)
			}
			if used, _ := s.Counts(); used["gh"] != 1 {
				t.Errorf("%v", used)
			}
		})
	}
}

// TestWhatIsRefusedEverywhereEndsTheConnection: a credential does not change
// that.
func TestWhatIsRefusedEverywhereEndsTheConnection(t *testing.T) {
	for name, text := range map[string]string{
		"CONNECT":      "CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n",
		"TRACE":        "TRACE /repos/ HTTP/1.1\r\nHost: ok.test\r\n\r\n",
		"another host": "GET /repos/ HTTP/1.1\r\nHost: other.test\r\n\r\n",
		"another port": "GET /repos/ HTTP/1.1\r\nHost: ok.test:8443\r\n\r\n",
		"plain http":   "GET http://ok.test/repos/ HTTP/1.1\r\nHost: ok.test\r\n\r\n",
		"framing":      "POST /repos/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		leak.Check(t)
		to := newSite(t, "ok.test", true, nil)
		s := granted(t, hidden)
		d := open(t, to, Options{TLS: true, Edge: edgeOf(s)})
		r := d.raw(t)
		r.send(t, text)
		if res, body := r.answer(t); res.StatusCode < 400 {
			t.Errorf("%s: %d %q", name, res.StatusCode, body)
		}
		r.Close()
		if out := d.outcome(t); !out.Cut || len(to.saw()) > 0 {
			t.Errorf("%s: %+v, the origin saw %q", name, out, to.saw())
		}
		if used, _ := s.Counts(); len(used) > 0 {
			t.Errorf("%s: %v", name, used)
		}
	}
}

// TestNoCredentialGoesOverPlainHTTP, whoever asks for it.
func TestNoCredentialGoesOverPlainHTTP(t *testing.T) {
	leak.Check(t)
	arrived := make(chan http.Header, 1)
	s := granted(t, hidden)
	d := open(t, newSite(t, "ok.test", false, func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header }), Options{Port: 443, Edge: edgeOf(s)})
	get(t, d.client(t, false), request(t, "GET", "http://ok.test:443/repos/", ""))
	if got := <-arrived; got.Get("Authorization") != "" {
		t.Errorf("%v", got)
	}
	if used, _ := s.Counts(); len(used) > 0 {
		t.Errorf("%v", used)
	}
}

// TestAProgramThatWaitsIsTold 100, and its body goes on with the header.
func TestAProgramThatWaitsIsTold(t *testing.T) {
	leak.Check(t)
	d := open(t, newSiteOf(t, "ok.test", true, false, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Header.Get("Expect"), r.Header.Get("Authorization"), b)
	}), Options{TLS: true, Edge: edgeOf(granted(t, hidden))})
	r := d.raw(t)
	r.send(t, "POST /repos/ HTTP/1.1\r\nHost: ok.test\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	res, err := http.ReadResponse(r.in, nil)
	if err != nil || res.StatusCode != 100 {
		t.Fatalf("%v %v", res, err)
	}
	r.send(t, "abc")
	if res, body := r.answer(t); res.StatusCode != 200 || body != "100-continue [redacted:gh] abc" {
		t.Errorf("%d %q", res.StatusCode, body)
	}
}

// TestTwoCallsDoNotMix: the same host, the same name, other secrets.
func TestTwoCallsDoNotMix(t *testing.T) {
	leak.Check(t)
	to := newSite(t, "ok.test", true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Who", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer s3cr3t-")[:3])
	})
	var all sync.WaitGroup
	for _, who := range []string{"one", "two"} {
		d := open(t, to, Options{TLS: true, Edge: edgeOf(granted(t, "s3cr3t-"+who+"-value"))})
		for _, h2 := range []bool{false, true} {
			c := d.client(t, h2)
			all.Go(func() {
				for range 30 {
					res, err := c.Get("https://ok.test/repos/")
					if err != nil {
						t.Error(err)
						return
					}
					_ = res.Body.Close()
					if got := res.Header.Get("X-Who"); got != who {
						t.Errorf("%s is %s", who, got)
					}
				}
			})
		}
	}
	all.Wait()
}

func TestACredentialThatIsGoneIsSaid(t *testing.T) {
	leak.Check(t)
	to := newSite(t, "ok.test", true, nil)
	s := granted(t, hidden)
	d := open(t, to, Options{TLS: true, Edge: edgeOf(s)})
	s.Destroy()
	res, body := get(t, d.client(t, false), request(t, "GET", "https://ok.test/repos/", "").WithContext(context.Background()))
	if res.StatusCode != 403 || !strings.Contains(body, "the credential is not available") || len(to.saw()) > 0 {
		t.Errorf("%d %q", res.StatusCode, body)
	}
}
