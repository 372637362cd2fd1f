package inspect

import (
	"net/http"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/testing/leak"
)

const okHost = "Host: ok.test\r\n"

// shapes are requests that name another host, or might to somebody.
func shapes() map[string]struct {
	in     string
	status int
	why    string
} {
	get := "GET / HTTP/1.1\r\n"
	return map[string]struct {
		in     string
		status int
		why    string
	}{
		"other host":             {get + "Host: evil.test\r\n\r\n", 421, `names "evil.test", this connection is for ok.test`},
		"host below":             {get + "Host: a.ok.test\r\n\r\n", 421, "a.ok.test"},
		"host beside":            {get + "Host: evilok.test\r\n\r\n", 421, "evilok.test"},
		"other port":             {get + "Host: ok.test:81\r\n\r\n", 421, "ok.test:81"},
		"padded port":            {get + "Host: ok.test:080\r\n\r\n", 421, "ok.test:080"},
		"no port":                {get + "Host: ok.test:\r\n\r\n", 421, "ok.test:"},
		"two ports":              {get + "Host: ok.test:80:80\r\n\r\n", 421, "ok.test:80:80"},
		"empty host":             {get + "Host:\r\n\r\n", 421, `names ""`},
		"two final dots":         {get + "Host: ok.test..\r\n\r\n", 421, "ok.test.."},
		"user in host":           {get + "Host: ok.test@evil.test\r\n\r\n", 421, "ok.test@evil.test"},
		"list of hosts":          {get + "Host: ok.test, evil.test\r\n\r\n", 421, "ok.test, evil.test"},
		"host and path":          {get + "Host: ok.test/evil.test\r\n\r\n", 421, "ok.test/evil.test"},
		"Kelvin sign":            {get + "Host: o\u212a.test\r\n\r\n", 421, "o"},
		"no host":                {get + "\r\n", 400, "no Host"},
		"no host, old":           {"GET / HTTP/1.0\r\n\r\n", 400, "no Host"},
		"two hosts":              {get + okHost + "Host: evil.test\r\n\r\n", 400, "more than one Host"},
		"absolute, other":        {"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421, "evil.test"},
		"absolute, Host ok":      {"GET http://evil.test/ HTTP/1.1\r\n" + okHost + "\r\n", 421, "two hosts"},
		"absolute, Host other":   {"GET http://ok.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421, "two hosts"},
		"absolute, user":         {"GET http://evil.test@ok.test/ HTTP/1.1\r\n" + okHost + "\r\n", 403, "user information"},
		"absolute, other scheme": {"GET https://ok.test/ HTTP/1.1\r\n" + okHost + "\r\n", 403, "scheme is not http"},
		"absolute, odd scheme":   {"GET ftp://ok.test/ HTTP/1.1\r\n" + okHost + "\r\n", 403, "scheme is not http"},
		"broken escape":          {"GET /%zz HTTP/1.1\r\n" + okHost + "\r\n", 400, "neither a path"},
		"other expectation":      {"GET / HTTP/1.1\r\n" + okHost + "Expect: x\r\n\r\n", 417, "100-continue"},
		"CONNECT":                {"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", 403, "CONNECT"},
		"CONNECT to the host":    {"CONNECT ok.test:80 HTTP/1.1\r\nHost: ok.test:80\r\n\r\n", 403, "CONNECT"},
		"connect":                {"connect /x HTTP/1.1\r\n" + okHost + "\r\n", 403, `method "connect"`},
		"TRACE":                  {"TRACE / HTTP/1.1\r\n" + okHost + "\r\n", 403, "TRACE"},
		"star of GET":            {"GET * HTTP/1.1\r\n" + okHost + "\r\n", 403, "OPTIONS"},
		"both framings":          {"POST / HTTP/1.1\r\n" + okHost + "Content-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nX: y", 400, "both Content-Length"},
		"two lengths":            {"POST / HTTP/1.1\r\n" + okHost + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, "more than one Content-Length"},
		"folded":                 {get + okHost + "X: a\r\n Host: evil.test\r\n\r\n", 400, "folded"},
		"space before a colon":   {get + "Host : evil.test\r\n" + okHost + "\r\n", 400, "white space between"},
		"bare line feed":         {get + "X: y\nHost: evil.test\r\n" + okHost + "\r\n", 400, "bare line feed"},
		"NUL":                    {get + okHost + "X: \x00\r\n\r\n", 400, "NUL"},
		"huge header":            {get + okHost + "X: " + strings.Repeat("x", 100<<10) + "\r\n\r\n", 431, "more than 16384 bytes"},
		"many fields":            {get + okHost + strings.Repeat("X: y\r\n", mostFields+1) + "\r\n", 431, "more than 100 fields"},
		"huge line":              {"GET /" + strings.Repeat("x", 100<<10) + " HTTP/1.1\r\n" + okHost + "\r\n", 431, "more than 16384 bytes"},
		"HTTP/2 without TLS":     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 400, "HTTP/2 without TLS"},
	}
}

// A request that does not match is answered with the reason and ends the
// connection; nothing of it reaches the origin.
func TestAForeignRequestEndsTheConnection(t *testing.T) {
	for _, secure := range []bool{false, true} {
		to := newSite(t, "ok.test", secure, nil)
		for name, c := range shapes() {
			if secure {
				c.in = strings.NewReplacer("http://", "https://", "https://", "http://", "ok.test:80 ", "ok.test:443 ").Replace(c.in)
				c.why = strings.Replace(c.why, "scheme is not http", "scheme is not https", 1)
			}
			t.Run(name, func(t *testing.T) { foreign(t, to, secure, c.in, c.status, c.why) })
		}
	}
}

func foreign(t *testing.T, to *site, secure bool, in string, status int, why string) {
	leak.Check(t)
	before := len(to.saw())
	d := open(t, to, Options{TLS: secure})
	r := d.raw(t)
	// The first request of the connection is as it should be.
	r.send(t, "GET /first HTTP/1.1\r\n"+okHost+"\r\n")
	if res, body := r.answer(t); res.StatusCode != 200 || res.Header.Get(markHeader) != "" {
		t.Fatalf("the first request: %s %q", res.Status, body)
	}
	go func() { _, _ = r.Write([]byte(in + "GET /after HTTP/1.1\r\n" + okHost + "\r\n")) }()
	res, body := r.answer(t)
	r.hungUp(t)
	out := d.outcome(t)
	if res.StatusCode != status || !oneOf(body, why) || !strings.HasSuffix(body, out.Why+"\n") {
		t.Errorf("answer %s %q, want %d %q", res.Status, body, status, why)
	}
	if res.Header.Get(markHeader) != "denied" || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("headers %v", res.Header)
	}
	if !out.Cut || !oneOf(out.Why, why) || out.Refused != 1 || out.Requests != 1 || out.Failed != "" {
		t.Errorf("outcome %+v", out)
	}
	if saw := to.saw()[before:]; len(saw) != 1 || !strings.HasSuffix(saw[0], " /first") {
		t.Errorf("the origin saw %q", saw)
	}
}

func oneOf(text, wants string) bool {
	for want := range strings.SplitSeq(wants, "|") {
		if strings.Contains(text, want) {
			return true
		}
	}
	return false
}

// Spellings of the host that are no other host.
func TestOneHostHasManySpellings(t *testing.T) {
	for name, c := range map[string]struct {
		host string
		port int
		say  []string
		not  []string
		want string // what the origin is told
	}{
		"name":          {"ok.test", 80, []string{"ok.test", "OK.Test", "ok.test.", "ok.test:80", "Ok.tesT.:80"}, []string{"ok.test:443", "ok", "ok.test:http", "[ok.test]"}, "ok.test"},
		"name and port": {"ok.test", 8080, []string{"ok.test:8080", "ok.test"}, []string{"ok.test:80", "ok.test:08080"}, "ok.test:8080"},
		"IPv4":          {"192.0.2.1", 80, []string{"192.0.2.1", "192.0.2.1:80"}, []string{"192.0.2.2", "192.0.2.01", "[::ffff:192.0.2.1]", "3221225985"}, "192.0.2.1"},
		"IPv6":          {"2001:db8::1", 8080, []string{"[2001:db8::1]:8080", "[2001:db8::1]", "[2001:DB8:0::1]:8080"}, []string{"2001:db8::1", "[2001:db8::2]", "[2001:db8::1", "[2001:db8::1%25lo]", "[2001:db8::1]8080"}, "[2001:db8::1]:8080"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Host: c.host, Port: c.port}
			for _, say := range c.say {
				if !o.names(say) {
					t.Errorf("%q is not taken for %s", say, o.authority())
				}
			}
			for _, say := range c.not {
				if o.names(say) {
					t.Errorf("%q is taken for %s", say, o.authority())
				}
			}
			if o.authority() != c.want {
				t.Errorf("the origin is told %q, want %q", o.authority(), c.want)
			}
			to := newSite(t, "ok.test", false, nil)
			d := open(t, to, o)
			r := d.raw(t)
			for _, say := range c.say {
				r.send(t, "GET / HTTP/1.1\r\nHost: "+say+"\r\n\r\n")
				if res, body := r.answer(t); res.StatusCode != 200 || body != c.want+" says " {
					t.Errorf("%q: %s %q", say, res.Status, body)
				}
			}
		})
	}
}

func TestAnAbsoluteTargetOfTheHostPasses(t *testing.T) {
	leak.Check(t)
	to := newSite(t, "ok.test", false, nil)
	d := open(t, to, Options{})
	r := d.raw(t)
	for _, target := range []string{"http://ok.test/a?b", "http://ok.test", "http://OK.test:80/"} {
		host := strings.SplitN(strings.TrimPrefix(target, "http://"), "/", 2)[0]
		r.send(t, "GET "+target+" HTTP/1.1\r\nHost: "+host+"\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic x\r\n\r\n")
		if res, body := r.answer(t); res.StatusCode != 200 || body != "ok.test says " {
			t.Errorf("%s: %s %q", target, res.Status, body)
		}
	}
	want := "HTTP/1.1 GET ok.test /a?b|HTTP/1.1 GET ok.test /|HTTP/1.1 GET ok.test /"
	if got := strings.Join(to.saw(), "|"); got != want {
		t.Errorf("the origin saw %s", got)
	}
}

// What is behind a refused request in the same packet is not read.
func TestPipelinedRequestsAreJudgedOneByOne(t *testing.T) {
	leak.Check(t)
	to := newSite(t, "ok.test", false, nil)
	d := open(t, to, Options{})
	r := d.raw(t)
	ok := "GET /%s HTTP/1.1\r\n" + okHost + "\r\n"
	r.send(t, strings.Replace(ok, "%s", "1", 1)+strings.Replace(ok, "%s", "2", 1)+"GET /3 HTTP/1.1\r\nHost: evil.test\r\n\r\n"+strings.Replace(ok, "%s", "4", 1))
	for _, want := range []int{200, 200, 421} {
		if res, body := r.answer(t); res.StatusCode != want {
			t.Errorf("%s %q, want %d", res.Status, body, want)
		}
	}
	r.hungUp(t)
	if out := d.outcome(t); !out.Cut || out.Requests != 2 || len(to.saw()) != 2 {
		t.Errorf("%+v, the origin saw %q", out, to.saw())
	}
}

// A fault in a body comes when the head has been passed on: the request is
// broken off, and the origin has no whole body.
func TestAFaultInABodyBreaksTheRequestOff(t *testing.T) {
	leak.Check(t)
	whole := make(chan bool, 1)
	to := newSite(t, "ok.test", false, func(w http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 100)
		n, err := 0, error(nil)
		for err == nil {
			_, err = r.Body.Read(buf)
			n++
		}
		whole <- err.Error() == "EOF"
	})
	d := open(t, to, Options{})
	r := d.raw(t)
	r.send(t, "POST / HTTP/1.1\r\n"+okHost+"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\nb\r\n0\r\n\r\n")
	res, body := r.answer(t)
	if res.StatusCode != 400 || !strings.Contains(body, "bare line feed") {
		t.Errorf("%s %q", res.Status, body)
	}
	if out := d.outcome(t); !out.Cut || !strings.Contains(out.Why, "bare line feed") {
		t.Errorf("%+v", out)
	}
	if <-whole {
		t.Error("the origin got a whole body")
	}
}
