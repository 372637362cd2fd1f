package fetch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
)

// web is the web server of the cases.
func web(t testing.TB) http.HandlerFunc {
	bomb := sync.OnceValue(func() []byte { return bytes.Repeat(gzipped(t, 16<<20, "\x00"), 128) }) // 2 GiB
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			_ = json.NewEncoder(w).Encode(r.Header)
		case "/to":
			w.Header().Set("Location", r.URL.Query().Get("u"))
			code, err := strconv.Atoi(r.URL.Query().Get("code"))
			if err != nil {
				code = http.StatusFound
			}
			w.WriteHeader(code)
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", r.URL.Query().Get("type"))
			send(t, w, bomb())
		case "/flow":
			block := []byte(strings.Repeat("x", 64<<10))
			for r.Context().Err() == nil {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		default:
			send(t, w, []byte("ok"))
		}
	}
}

func wantRefused(t *testing.T, g got, url string, words ...string) {
	t.Helper()
	if g.Refused == nil {
		t.Errorf("%s: not refused: %+v", url, g.Fetched)
		return
	}
	if g.Refused.Field != "fetch.url" || g.Refused.Message == "" || g.Refused.Hint == "" || len(g.body) > 0 || g.Status != 0 {
		t.Errorf("%s: refused by %+v", url, g.Refused)
	}
	if !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(g.Refused.Message, word) }) {
		t.Errorf("%s: %q, want one of %q in it", url, g.Refused.Message, words)
	}
}

func TestCase29MappedIPv4IsRefusedBeforeADial(t *testing.T) {
	s := newStand(t, web(t))
	for _, host := range []string{"[::ffff:7f00:1]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]", "[::]", "[::1]"} {
		for _, port := range []string{":9931", ":80", ""} {
			url := "http://" + host + port + "/"
			wantRefused(t, s.url(url), url, "not allowed")
		}
	}
	s.untouched()
}

func TestCase30IPv6WithIPv4InItIsRefusedBeforeADial(t *testing.T) {
	s := newStand(t, web(t))
	for _, host := range []string{
		"[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::1]", "[2001::80ff:fffe]", "[::7f00:1]",
		"[fe80::5efe:a00:1]", "[fd00:ec2::254]", "100.100.100.200", "0.0.0.0", "192.0.0.192", "169.254.169.254", "10.0.0.1", "[fe80::1%25lo]",
	} {
		url := "http://" + host + "/"
		wantRefused(t, s.url(url), url, "not allowed", "bad host")
	}
	s.untouched()
}

func TestCase31OtherSpellingsOfAnAddressAreRefused(t *testing.T) {
	s := newStand(t, web(t))
	for _, host := range []string{
		"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "127.0.0.1.", "①②⑦.⓪.⓪.①", "127.0.0.1",
		"１２７.0.0.1", "127。0。0。1", "0x7f.1", "017700000001", "%31%32%37.0.0.1", "%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1", "localhost", "LOCALHOST.", "x.localhost",
		"[127.0.0.1]", "allowed.test%00.evil.test", "allowed.test%2eevil", "allowed_test", "a..test", "xn--zzzzzz999999.test", "allowed.test\\.evil.test",
	} {
		url := "http://" + host + ":9931/"
		wantRefused(t, s.url(url), url, "bad host", "not allowed", "not an address")
	}
	s.untouched()
}

func TestCase33EveryFetchDialsOnceAndUsesThatConnectionAlone(t *testing.T) {
	s := newStand(t, web(t))
	for i := range 40 {
		s.deny["allowed.test:80"] = ""
		if i%2 == 1 {
			s.deny["allowed.test:80"] = "resolved address not allowed: 127.0.0.1: 127.0.0.1 is an address of this host"
		}
		g := s.get(s.public, envelope.Fetch{URL: "http://allowed.test/", Fresh: true})
		if refused := strings.Contains(g.Failure, "resolved address not allowed"); refused != (i%2 == 1) || g.Refused != nil {
			t.Fatalf("round %d: %+v", i, g.Fetched)
		}
	}
	if len(s.dials) != 40 || len(s.hits) != 20 {
		t.Errorf("%d dials, %d requests", len(s.dials), len(s.hits))
	}
}

func TestCase35ARedirectIsJudgedBeforeItIsAsked(t *testing.T) {
	s := newStand(t, web(t))
	for _, url := range []string{
		"http://allowed.test/to?u=http://127.0.0.1:9931/wipe", "http://allowed.test/to?code=307&u=http://127.0.0.1/wipe",
		"http://allowed.test/to?u=http://allowed.test:22/", "http://allowed.test/to?u=http://[::1]/",
	} {
		s.dials = nil
		g := s.url(url)
		if g.Refused != nil || !strings.HasPrefix(g.Failure, "redirect to http://") || !strings.Contains(g.Failure, "refused: ") {
			t.Errorf("%s: %+v", url, g.Fetched)
		}
		if g.URL != url || len(g.Hops) != 1 || len(g.body) > 0 {
			t.Errorf("%s: URL %s, hops %q, %d bytes", url, g.URL, g.Hops, len(g.body))
		}
		s.wantDials("allowed.test:80")
	}
}

func TestCase35RefreshIsNotFollowed(t *testing.T) {
	s := newStand(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Refresh", "0;url=http://other.test/")
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Link", "<http://other.test/>; rel=preload")
		send(t, w, []byte(`<meta http-equiv=refresh content="0;url=http://other.test/"><img src="http://other.test/">stay`))
	})
	for _, text := range []bool{false, true} {
		if g := s.get(s.public, envelope.Fetch{URL: "http://allowed.test/", Text: text}); g.Status != 200 || !strings.Contains(string(g.body), "stay") {
			t.Errorf("%+v %s", g.Fetched, g.body)
		}
	}
	s.wantDials("allowed.test:80", "allowed.test:80")
}

func TestCase36OtherSchemesAreRefused(t *testing.T) {
	s := newStand(t, web(t))
	schemes := []string{
		"file:///var/tmp/canary", "FILE:///var/tmp/canary", "gopher://127.0.0.1:9931/_x", "ftp://127.0.0.1/", "data:text/plain,hi", "javascript:alert(1)",
		"dict://allowed.test:80/", "ws://allowed.test/", "unix:///run/x", "jar:http://allowed.test/!/x", "mailto:a@b", "view-source:http://allowed.test/", "http+unix://x/",
	}
	for _, url := range schemes {
		wantRefused(t, s.url(url), url, "scheme not allowed")
	}
	s.untouched()
	for _, url := range append(schemes, "//127.0.0.1:9931/", "http:opaque", "http://me:pw@other.test/") {
		s.dials = nil
		g := s.url("http://allowed.test/to?u=" + strings.ReplaceAll(url, "+", "%2B"))
		if !strings.HasPrefix(g.Failure, "redirect to "+url[:2]) || !strings.Contains(g.Failure, " refused: ") || g.Refused != nil {
			t.Errorf("%s: %+v", url, g.Fetched)
		}
		s.wantDials("allowed.test:80")
	}
}

func TestCase37NothingIsKeptFromHopToHop(t *testing.T) {
	s := newStand(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "id=1; Domain=test; Path=/")
		w.Header().Set("Www-Authenticate", "Basic realm=x")
		web(t)(w, r)
	})
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	g := s.url("http://allowed.test/to?u=http://other.test/echo")
	want := `{"Accept":["*/*"],"Accept-Encoding":["gzip"],"Connection":["close"],"User-Agent":["callcell-fetch/1"]}`
	if strings.TrimSpace(string(g.body)) != want {
		t.Errorf("other.test was sent %s", g.body)
	}
	for _, r := range s.hits {
		if r.Method != http.MethodGet || r.ContentLength != 0 {
			t.Errorf("%s with %d bytes", r.Method, r.ContentLength)
		}
	}
}

func TestCase39ABombEndsAtTheCapAndTwentyLeaveMemoryFlat(t *testing.T) {
	s := newStand(t, web(t))
	s.url("http://allowed.test/bomb") // makes it
	before := heap()
	var peak uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				peak = max(peak, heap())
			}
		}
	}()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			kind := []string{"application/octet-stream", "text/plain", "text/html", "text/html%3Bcharset=utf-16"}[i%4]
			g := s.getAs(fmt.Sprint(i), s.public, envelope.Fetch{URL: "http://allowed.test/bomb?type=" + kind, Text: i >= 10 && i%4 > 0})
			if !g.Cut || g.Bytes != 2<<20 || len(g.body) > 2<<20 || g.WireBytes > 1<<20 {
				t.Errorf("%+v, %d bytes", g.Fetched, len(g.body))
			}
		})
	}
	all.Wait()
	close(stop)
	<-done
	if peak > before+1<<30 { // half of what one of them is unpacked; garbage that nobody has come to collect is in it
		t.Errorf("heap grew by %d MB", (peak-before)>>20)
	}
	t.Logf("heap grew by %d MB", (max(peak, before)-before)>>20)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

func TestCase40AFlowWithoutEndIsCutAtTheCap(t *testing.T) {
	s := newStand(t, web(t))
	g := s.url("http://allowed.test/flow")
	if !g.Cut || g.Bytes != 2<<20 || len(g.body) != 2<<20 || g.Failure != "" {
		t.Errorf("%+v, %d bytes", g.Fetched, len(g.body))
	}
}

func TestCase40ADripEndsAtTheTotalTimeLimit(t *testing.T) {
	starts := map[string]string{
		"a body":   "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
		"a page":   "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n",
		"headers":  "HTTP/1.1 200 OK\r\nX-A: ",
		"a status": "",
	}
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drip := "1\r\nx\r\n"
				if !strings.Contains(start, "chunked") {
					drip = "x"
				}
				f := piped(t, func(write func(string) error) {
					err := write(start)
					for err == nil {
						time.Sleep(time.Second)
						err = write(drip)
					}
				})
				begun := time.Now()
				var body []byte
				out := f.Fetch(t.Context(), "", judge(t, envelope.Network{Fetch: envelope.FetchPublic}),
					wire.Fetch{Fetch: envelope.Fetch{URL: "http://allowed.test/drip", Text: name == "a page"}},
					func(b []byte) error { body = append(body, b...); return nil })
				if took := time.Since(begun); took != 20*time.Second || !strings.Contains(out.Failure, "time limit of 20s") {
					t.Errorf("after %v: %+v", took, out)
				}
				if name == "a body" && (!out.Cut || len(body) < 10 || out.Bytes != int64(len(body))) {
					t.Errorf("%d bytes of body: %+v", len(body), out)
				}
			})
		})
	}
}

func TestCase40HeadersAreCapped(t *testing.T) {
	s := newStand(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 10 << 10 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("y", 1<<10))
		}
	})
	g := s.url("http://allowed.test/")
	if g.Status != 0 || !strings.Contains(g.Failure, "headers of the answer exceed 65536 bytes") {
		t.Errorf("%+v", g.Fetched)
	}
}

func TestCase41TeamsShareNoAnswer(t *testing.T) {
	n := 0
	s := newStand(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		send(t, w, []byte(fmt.Sprint(n)))
	})
	for i, team := range []string{"a", "b", "", "a", "b", ""} {
		g := s.getAs(team, s.public, envelope.Fetch{URL: "http://allowed.test/echo"})
		if want := fmt.Sprint(i%3 + 1); string(g.body) != want || g.Cached != (i >= 3) {
			t.Errorf("team %q got %s, cached %v, want %s", team, g.body, g.Cached, want)
		}
	}
}
