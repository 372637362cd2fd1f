package inspect

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/testing/leak"
)

// ways are the ways a program can speak.
func ways() map[string]struct{ secure, h2 bool } {
	return map[string]struct{ secure, h2 bool }{
		"http":       {false, false},
		"TLS HTTP/1": {true, false},
		"TLS HTTP/2": {true, true},
	}
}

func address(secure bool) string {
	if secure {
		return "https://ok.test"
	}
	return "http://ok.test"
}

// everyWay runs a test for each way.
func everyWay(t *testing.T, h http.HandlerFunc, f func(t *testing.T, d *door, c *http.Client, url string)) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			to := newSite(t, "ok.test", way.secure, h)
			d := open(t, to, Options{TLS: way.secure})
			c := d.client(t, way.h2)
			f(t, d, c, address(way.secure))
			if out := d.leave(t, c); out.Cut || out.Failed != "" || out.Refused != 0 {
				t.Errorf("%+v", out)
			}
		})
	}
}

func TestRequestsArriveAsTheyAre(t *testing.T) {
	type arrived struct {
		uri    string
		header http.Header
		length int64
		body   string
	}
	got := make(chan arrived, 1)
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- arrived{r.RequestURI, r.Header, r.ContentLength, string(body)}
	}, func(t *testing.T, d *door, c *http.Client, url string) {
		for _, target := range []string{"/", "//evil.test/x", "/a%2fb/%2e%2e/../c", "/?a=b;c&%zz&&=", "/a|b?\"<>", "/?", "/\xc3\xa9"} {
			r := request(t, "POST", url+target, "body")
			r.Header = http.Header{
				"User-Agent": {"mine/1"}, "Accept-Encoding": {"br"}, "X-Two": {"a", "b"}, "Cookie": {"a=b; c=d"}, "Authorization": {"Bearer x"},
				"X-Forwarded-For": {"192.0.2.9"}, "X-Forwarded-Host": {"evil.test"}, "Forwarded": {"host=evil.test"},
			}
			get(t, c, r)
			a := <-got
			want := map[string]string{"/a|b?\"<>": "/a%7Cb?\"<>", "/\xc3\xa9": "/%C3%A9"}[target]
			if want == "" {
				want = target
			}
			if a.uri != want || a.body != "body" || a.length != 4 {
				t.Errorf("%q arrived as %q, %d bytes %q", target, a.uri, a.length, a.body)
			}
			for name, value := range map[string]string{"User-Agent": "mine/1", "Accept-Encoding": "br", "X-Two": "a|b", "Cookie": "a=b; c=d", "Authorization": "Bearer x", "Content-Length": "4"} {
				if strings.Join(a.header[name], "|") != value {
					t.Errorf("%s arrived as %q", name, a.header[name])
				}
				delete(a.header, name)
			}
			if len(a.header) != 0 {
				t.Errorf("arrived beside: %v", a.header)
			}
		}
		r := request(t, "GET", url, "")
		r.Header = http.Header{"User-Agent": nil}
		get(t, c, r)
		if a := <-got; len(a.header) != 0 || a.length != 0 {
			t.Errorf("a bare request arrived with %v, %d bytes", a.header, a.length)
		}
	})
}

func TestAnswersArriveAsTheyAre(t *testing.T) {
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Date"], h["Content-Type"] = nil, nil
		h.Set("Content-Encoding", "gzip") // not ours to open
		h["Set-Cookie"] = []string{"a=b", "c=d"}
		h.Set("Location", "https://evil.test/")
		h.Set(markHeader, "denied") // is ours alone
		w.WriteHeader(302)
		_, _ = io.WriteString(w, "<html>")
	}, func(t *testing.T, d *door, c *http.Client, url string) {
		res, body := get(t, c, request(t, "GET", url, ""))
		if res.StatusCode != 302 || body != "<html>" || res.ContentLength != 6 {
			t.Errorf("%s %d %q", res.Status, res.ContentLength, body)
		}
		if strings.Join(res.Header["Set-Cookie"], "|") != "a=b|c=d" || res.Header.Get("Location") != "https://evil.test/" || res.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("headers %v", res.Header)
		}
		if len(res.Header) != 4 {
			t.Errorf("there are more headers: %v", res.Header)
		}
		res, body = get(t, c, request(t, "HEAD", url, ""))
		if res.StatusCode != 302 || body != "" {
			t.Errorf("HEAD: %s %q", res.Status, body)
		}
	})
}

// The first half of an answer arrives while the origin still has the second,
// and the first half of a body before the program has the second.
func TestBodiesStreamBothWays(t *testing.T) {
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(w, "got "+line)
			_ = http.NewResponseController(w).Flush()
		}
	}, func(t *testing.T, d *door, c *http.Client, url string) {
		body, w := io.Pipe()
		r, err := http.NewRequest("POST", url, body)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(w, "one\n") }()
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		in := bufio.NewReader(res.Body)
		for i, word := range []string{"one", "two", "three"} {
			if i > 0 {
				_, _ = io.WriteString(w, word+"\n")
			}
			if line, err := in.ReadString('\n'); err != nil || line != "got "+word+"\n" {
				t.Fatalf("%q, %v", line, err)
			}
		}
		w.Close()
		if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

func TestTrailersPassBothWays(t *testing.T) {
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", body, r.Trailer.Get("X-Asked"))
		w.Header().Set("X-Sum", "7")
		w.Header().Set(http.TrailerPrefix+"X-Late", "8")
	}, func(t *testing.T, d *door, c *http.Client, url string) {
		r := request(t, "POST", url, "")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
		r.Trailer = http.Header{"X-Asked": {"6"}}
		r.Header.Set("Te", "trailers")
		res, body := get(t, c, r)
		if body != "body 6" || res.Trailer.Get("X-Sum") != "7" || res.Trailer.Get("X-Late") != "8" {
			t.Errorf("%q %v", body, res.Trailer)
		}
	})
}

func TestInterimAnswersPass(t *testing.T) {
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(103)
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "done")
	}, func(t *testing.T, d *door, c *http.Client, url string) {
		var codes []int
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			codes = append(codes, code)
			return nil
		}}
		r := request(t, "POST", url, "body").WithContext(httptrace.WithClientTrace(context.Background(), trace))
		if _, body := get(t, c, r); body != "done" || fmt.Sprint(codes) != "[103]" {
			t.Errorf("%q, %v", body, codes)
		}
	})
}

// The mark of our own answers cannot be had from the origin.
func TestTheOriginCannotMarkItsAnswers(t *testing.T) {
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(markHeader, "denied")
		w.Header().Set("Link", "</a>")
		w.WriteHeader(103)
		w.Header().Set("Trailer", "X-Sum, "+markHeader)
		_, _ = io.WriteString(w, "done")
		w.Header().Set("X-Sum", "7")
		w.Header().Set(http.TrailerPrefix+markHeader, "denied")
	}, func(t *testing.T, d *door, c *http.Client, url string) {
		interim := 0
		trace := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			if interim++; h.Get(markHeader) != "" || h.Get("Link") == "" {
				t.Errorf("interim headers %v", h)
			}
			return nil
		}}
		res, body := get(t, c, request(t, "GET", url, "").WithContext(httptrace.WithClientTrace(context.Background(), trace)))
		_, trailer := res.Trailer[markHeader]
		if body != "done" || interim != 1 || res.Header[markHeader] != nil || trailer || res.Trailer.Get("X-Sum") != "7" {
			t.Errorf("%q, %d interim, %v, %v", body, interim, res.Header, res.Trailer)
		}
	})
}

// A program that waits for 100 Continue sends its body when the origin wants
// it, and not where the origin refuses it. No time passes: after a second without
// a word of the origin's the program would be told to.
func TestExpectedContinueIsTheOrigins(t *testing.T) {
	origin := func(conn net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		if r.URL.Path == "/no" {
			_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		} else if _, err := io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n"); err == nil {
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
		silent(conn)
	}
	for path, want := range map[string]int{"/yes": 100, "/no": 413} {
		bubble(t, Options{}, origin, func(t *testing.T, r *raw) {
			r.send(t, "POST "+path+" HTTP/1.1\r\n"+okHost+"Content-Length: 4\r\nExpect: 100-continue\r\n\r\n")
			line, err := r.in.Peek(12)
			if err != nil || !strings.HasSuffix(string(line), fmt.Sprint(want)) {
				t.Fatalf("%s: %q, %v", path, line, err)
			}
			if want == 100 {
				_, _ = http.ReadResponse(r.in, nil)
				r.send(t, "body")
			}
			res, body := r.answer(t)
			if want == 100 && body != "body" || want != 100 && res.StatusCode != want {
				t.Errorf("%s: %s %q", path, res.Status, body)
			}
			r.Close()
			if out := r.outcome(); out.Cut || out.Failed != "" || out.Requests != 1 {
				t.Errorf("%+v", out)
			}
		})
	}
}

// An answer that comes before the body has been sent does not wait for it.
func TestAnEarlyAnswerDoesNotWaitForTheBody(t *testing.T) {
	leak.Check(t)
	to := newSite(t, "ok.test", false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	d := open(t, to, Options{})
	r := d.raw(t)
	r.send(t, "POST / HTTP/1.1\r\n"+okHost+"Content-Length: 1000000\r\n\r\nbegin")
	if res, body := r.answer(t); res.StatusCode != 413 {
		t.Errorf("%s %q", res.Status, body)
	}
	r.Close()
	d.outcome(t)
}
