package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A tried is one attempt of a page, and what came of it.
type tried struct {
	Name, Outcome string
	Status        int
	Text          string
}

// A site serves the page of testdata/browser to a browser, and hears what came
// of its attempts.
type site struct {
	t       *testing.T
	address string
	page    string
	reports chan []tried

	mu   sync.Mutex // guards what follows
	conf map[string]any
}

func newSite(t *testing.T) *site {
	t.Helper()
	page, err := os.ReadFile("testdata/browser/page.html")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, page: string(page), reports: make(chan []tried, 8)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	server := &http.Server{Handler: s}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return s
}

// shows has the page made with a configuration.
func (s *site) shows(conf map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conf = conf
}

// ServeHTTP serves the page, takes its report, and answers anybody's page.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	switch r.URL.Path {
	case "/":
		s.mu.Lock()
		conf, err := json.Marshal(s.conf)
		s.mu.Unlock()
		if err != nil {
			s.t.Error(err)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = io.WriteString(w, strings.Replace(s.page, "CONFIG;", string(conf)+";", 1)) // the browser asks again
	case "/report":
		var got struct {
			Page    string
			Results []tried
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			s.t.Errorf("a report: %v", err)
		}
		s.reports <- got.Results
	default:
		http.NotFound(w, r)
	}
}

// A rebound is a name that leads to a page first, and to a daemon from the
// moment on that the page asks for it: what a name server of the page's owner
// would do, and as little as a browser can notice.
type rebound struct {
	l      net.Listener
	to     string
	site   *site
	conns  chan net.Conn // those of the page
	mu     sync.Mutex    // guards turned
	turned bool
}

// rebind listens at the port of address, on another address of this host.
func (s *site) rebind(t *testing.T, address string) {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Fatal(err)
	}
	r := &rebound{l: l, to: address, site: s, conns: make(chan net.Conn)}
	page := &http.Server{Handler: r}
	page.SetKeepAlivesEnabled(false)
	go page.Serve(handed{r})
	go r.accept()
	t.Cleanup(func() {
		l.Close()
		page.Close()
	})
}

// turn has the name lead to the daemon, and reports whether it did already.
func (r *rebound) turn(now bool) (did bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	did, r.turned = r.turned, r.turned || now
	return did
}

func (r *rebound) accept() {
	defer close(r.conns)
	for {
		c, err := r.l.Accept()
		if err != nil {
			return
		}
		if r.turn(false) {
			go r.carry(c)
			continue
		}
		r.conns <- c
	}
}

// ServeHTTP serves the page, on connections that were made before. What the
// browser has in store of those is of no use afterwards: it makes others.
func (r *rebound) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if r.turn(q.URL.Path == "/turn") {
		panic(http.ErrAbortHandler)
	}
	if q.URL.Path != "/turn" {
		r.site.ServeHTTP(w, q)
	}
}

// carry passes a connection on to the daemon.
func (r *rebound) carry(c net.Conn) {
	defer c.Close()
	d, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer d.Close()
	go func() {
		_, _ = io.Copy(d, c)
		d.Close()
	}()
	_, _ = io.Copy(c, d)
}

// handed is the listener of the page's server.
type handed struct{ *rebound }

// Accept implements net.Listener.
func (h handed) Accept() (net.Conn, error) {
	c, ok := <-h.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close implements net.Listener. The listener itself goes on.
func (handed) Close() error { return nil }

// Addr implements net.Listener.
func (h handed) Addr() net.Addr { return h.l.Addr() }

// visit has a browser show a page, and returns what came of its attempts.
func (s *site) visit(t *testing.T, chromium, url string, conf map[string]any) []tried {
	t.Helper()
	conf["report"] = "http://" + s.address + "/report"
	s.shows(conf)
	began := time.Now()
	b := browse(t, chromium, url)
	defer b.close()
	select {
	case got := <-s.reports:
		t.Logf("%s: after %s, silent: %q", url, time.Since(began), silent(got))
		if len(got) < 40 {
			t.Fatalf("%s reports of %d attempts", url, len(got))
		}
		return got
	case <-b.ended:
		t.Fatalf("the browser has ended: %s", b.said())
	case <-time.After(5 * time.Minute):
		t.Fatalf("no report of %s: %s", url, b.said())
	}
	return nil
}

// TestPageOfAnotherOrigin: a page that somebody else serves tries everything
// that a real browser lets it, with a good key even, from another port, another
// name, a name that leads here, and one that has begun to: it reads nothing and
// runs nothing. The same page reads and runs where its origin is listed.
func TestPageOfAnotherOrigin(t *testing.T) {
	path := chromium(t)
	s := usual(t)
	evil, good := newSite(t), newSite(t)
	d := s.daemon(t, "serve: {metrics: '127.0.0.1:0', origins: ['http://"+good.address+"']}\n")
	target, numbers := "http://"+d.address, "http://"+d.metrics
	conf := func(target, metrics string) map[string]any {
		return map[string]any{"target": target, "metrics": metrics, "key": d.key}
	}
	here := func(address string) string { return "http://here.test" + address[strings.LastIndex(address, ":"):] }
	for _, c := range []struct{ name, url, target, metrics string }{
		{"another port", "http://" + evil.address + "/", target, numbers},
		{"another name", "http://localhost" + evil.address[strings.LastIndex(evil.address, ":"):] + "/", target, numbers},
		{"a name that leads here", here(evil.address) + "/", target, numbers},
		{"a name that leads here, of the daemon too", here(evil.address) + "/", here(d.address), here(d.metrics)},
	} {
		before := d.refused()
		got := evil.visit(t, path, c.url, conf(c.target, c.metrics))
		readsNothing(t, c.name, got)
		if n := d.refused() - before; n < len(got)/2 {
			t.Errorf("%s: %d attempts, of which the daemon refused %d", c.name, len(got), n)
		}
	}
	for name, at := range map[string]string{"a name that begins to lead here": d.address, "the same, to the numbers": d.metrics} {
		evil.rebind(t, at)
		url := "http://turns.test" + at[strings.LastIndex(at, ":"):]
		c := conf(url, url)
		c["before"] = url + "/turn"
		got := evil.visit(t, path, url+"/", c)
		readsNothing(t, name, got)
		asked := 0
		for _, a := range got {
			if a.Status == http.StatusMisdirectedRequest {
				asked++
			}
		}
		if asked < 20 {
			t.Errorf("%s: the daemon was asked %d times by that name: %+v", name, asked, got[0])
		}
	}
	s.all(0)
	listed(t, good.visit(t, path, "http://"+good.address+"/", conf(target, numbers)))
	s.rows("fetch", 1)
}

// silent are the attempts of which nothing was heard.
func silent(all []tried) (names []string) {
	for _, a := range all {
		if a.Outcome == "silent" {
			names = append(names, a.Name)
		}
	}
	return names
}

// readsNothing fails the test where a page has read something of the daemon but
// that it is refused, or where an element of it took what came.
func readsNothing(t *testing.T, name string, all []tried) {
	t.Helper()
	for _, a := range all {
		refused := a.Status == http.StatusMisdirectedRequest && strings.Contains(a.Text, `"code":"host"`)
		seen := a.Outcome == "read" && !refused || a.Outcome == "loaded" || a.Outcome == "opened" || a.Outcome != "read" && a.Outcome != "blocked" && a.Outcome != "failed" && a.Text != ""
		if seen {
			t.Errorf("%s: %.400s", name, fmt.Sprint(a))
		}
	}
}

// listed fails the test where a page whose origin is listed could not do what
// the others tried.
func listed(t *testing.T, all []tried) {
	t.Helper()
	want := map[string]string{"GET /v1/levels, with a key": `"container"`, "GET /openapi.json": `"components"`, "POST JSON, with a key": `"outcome":"completed"`,
		"POST JSON for events, with a key": "event: result", "initialize, with a key": "callcell"}
	for _, a := range all {
		if text, ok := want[a.Name]; ok && a.Outcome == "read" && a.Status == http.StatusOK && strings.Contains(a.Text, text) {
			delete(want, a.Name)
		}
		if a.Outcome == "read" && strings.Contains(a.Text, "callcell_running") {
			t.Errorf("the numbers are read by a page: %+v", a)
		}
	}
	for name := range want {
		i := slices.IndexFunc(all, func(a tried) bool { return a.Name == name })
		t.Errorf("a page whose origin is listed could not: %s: %.400s", name, fmt.Sprint(all[max(i, 0)]))
	}
}
