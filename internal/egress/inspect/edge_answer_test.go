package inspect

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/internal/testing/leak"
	"github.com/callcell/callcell/internal/testing/listener"
)

func TestARedirectIsNotFollowed(t *testing.T) {
	everyEdge(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://other.test/?t="+r.Header.Get("Authorization"), http.StatusFound)
	}, 2, func(t *testing.T, _ *door, c *http.Client) { // in the header and in the page
		res, body := get(t, c, request(t, "GET", "https://ok.test/repos/", ""))
		if at := res.Header.Get("Location"); res.StatusCode != 302 || !strings.HasPrefix(at, "https://other.test/?t=") || strings.Contains(at+body, "s3cr3t") {
			t.Errorf("%d %q %q", res.StatusCode, at, body)
		}
	})
}

func TestEchoesAreMasked(t *testing.T) {
	everyEdge(t, func(w http.ResponseWriter, r *http.Request) {
		said := r.Header.Get("Authorization")
		w.Header().Set("X-Early", said)
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("X-Early")
		w.Header().Set("X-Echo", said)
		w.Header().Set("Trailer", "X-Trailer")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprintf(z, "it is %s, or %s", said, base64.StdEncoding.EncodeToString([]byte(said)))
		_ = z.Close()
		w.Header().Set("X-Trailer", "it was "+said)
	}, 5, func(t *testing.T, _ *door, c *http.Client) {
		early := make(chan string, 1)
		r := request(t, "GET", "https://ok.test/repos/", "")
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			early <- h.Get("X-Early")
			return nil
		}}))
		res, body := get(t, c, r)
		if got := <-early; got != "[redacted:gh]" {
			t.Errorf("early: %q", got)
		}
		if !strings.HasPrefix(body, "it is [redacted:gh], or [redacted:gh]") || len(body) > 45 || res.Header.Get("Content-Encoding") != "" {
			t.Errorf("%q %v", body, res.Header)
		}
		if res.Header.Get("X-Echo") != "[redacted:gh]" || res.Trailer.Get("X-Trailer") != "it was [redacted:gh]" {
			t.Errorf("%v %v", res.Header, res.Trailer)
		}
	})
}

// TestAnEchoInChunksIsMasked: with a chunk that ends at every offset.
func TestAnEchoInChunksIsMasked(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		leak.Check(t)
		d := open(t, newSiteOf(t, "ok.test", true, h2, func(w http.ResponseWriter, r *http.Request) {
			var cut int
			_, _ = fmt.Sscanf(r.URL.Path, "/repos/%d", &cut)
			said := "it is " + r.Header.Get("Authorization") + "!"
			_, _ = io.WriteString(w, said[:cut])
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, said[cut:])
		}), Options{TLS: true, Edge: edgeOf(granted(t, hidden))})
		c := d.client(t, h2)
		for cut := range len("it is Bearer !" + hidden) {
			if _, body := get(t, c, request(t, "GET", fmt.Sprintf("https://ok.test/repos/%d", cut), "")); body != "it is [redacted:gh]!" {
				t.Errorf("at %d: %q", cut, body)
			}
		}
	}
}

func TestAnswersThatCannotBeLookedIntoAreFailures(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		coding string
		why    string
	}{
		"brotli": {200, "br", `ok.test: the answer has the encoding "br"`},
		"twice":  {200, "gzip, gzip", "ok.test: the answer is encoded more than once"},
		"a part": {206, "", "ok.test: the answer is a part of a document"},
	} {
		leak.Check(t)
		d := open(t, newSite(t, "ok.test", true, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Echo", r.Header.Get("Authorization"))
			if row.coding != "" {
				w.Header().Set("Content-Encoding", row.coding)
			}
			w.WriteHeader(row.status)
			_, _ = io.WriteString(w, r.Header.Get("Authorization"))
		}), Options{TLS: true, Edge: edgeOf(granted(t, hidden))})
		c := d.client(t, true)
		res, body := get(t, c, request(t, "GET", "https://ok.test/repos/", ""))
		if res.StatusCode != 502 || !strings.Contains(body, row.why) || res.Header.Get(markHeader) != failed || res.Header.Get("X-Echo") != "" {
			t.Errorf("%s: %d %q %v", name, res.StatusCode, body, res.Header)
		}
		if out := d.leave(t, c); !strings.Contains(out.Failed, row.why) || out.Cut {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// speaker is an origin that answers one request with bytes. NAME in them is
// what the request's Authorization was.
func speaker(t *testing.T, says string) *site {
	t.Helper()
	o := &site{ca: authority(t, "ok.test")}
	leaf, err := o.ca.certificate("ok.test")
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*leaf}})
	if err != nil {
		t.Fatal(err)
	}
	listener.Serve(t, l, func(conn net.Conn) {
		said, _ := readHead(conn)
		_, _ = io.WriteString(conn, strings.ReplaceAll(says, "NAME", said))
	})
	o.at = l.Addr().String()
	return o
}

func readHead(conn net.Conn) (authorization string, err error) {
	var all bytes.Buffer
	buf := make([]byte, 1)
	for !bytes.HasSuffix(all.Bytes(), []byte("\r\n\r\n")) {
		if _, err := conn.Read(buf); err != nil {
			return "", err
		}
		all.Write(buf)
	}
	for line := range strings.SplitSeq(all.String(), "\r\n") {
		if value, ok := strings.CutPrefix(line, "Authorization: "); ok {
			return value, nil
		}
	}
	return "", errors.New("none")
}

// TestWhatIsSaidOfABadAnswerHasNoValueInIt: net/http quotes what it cannot
// read.
func TestWhatIsSaidOfABadAnswerHasNoValueInIt(t *testing.T) {
	for name, says := range map[string]string{
		"status line":     "NAME is not allowed\r\n\r\n",
		"status":          "HTTP/1.1 NAME x\r\n\r\n",
		"version":         "NAME 200 OK\r\n\r\n",
		"header":          "HTTP/1.1 200 OK\r\nNAME\r\n\r\n",
		"length":          "HTTP/1.1 200 OK\r\nContent-Length: NAME\r\n\r\n",
		"coding":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: NAME\r\n\r\n",
		"lengths":         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: NAME\r\n\r\nx",
		"chunk":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\nNAME\r\n",
		"broken off":      "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nNAME it is, and Bearer s3cr3t-va",
		"broken encoding": "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nNAME it is",
		"a protocol":      "HTTP/1.1 101 NAME\r\nUpgrade: NAME\r\nConnection: Upgrade\r\n\r\nNAME",
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			s := granted(t, hidden)
			d := open(t, speaker(t, says), Options{TLS: true, Edge: edgeOf(s)})
			r := d.raw(t)
			r.send(t, "GET /repos/ HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n")
			got, _ := io.ReadAll(r) // it may be broken off
			r.Close()
			out := d.outcome(t)
			if text := fmt.Sprintf("%s %+v", got, out); strings.Contains(text, "s3cr3t") || out.Failed == "" {
				t.Errorf("%q", text)
			}
			if used, _ := s.Counts(); used["gh"] == 0 {
				t.Error("the origin was not told")
			}
		})
	}
}

func TestWhatIsUnpackedCountsAgainstTheCap(t *testing.T) {
	leak.Check(t)
	var left int64 = 4 << 20
	var mu sync.Mutex
	d := open(t, newSite(t, "ok.test", true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // there is that level
		_, _ = io.CopyN(z, zeros{}, 16<<20)
		_ = z.Close()
	}), Options{TLS: true, Edge: edgeOf(granted(t, hidden)), Count: func(sent, received int64) error {
		mu.Lock()
		defer mu.Unlock()
		if left -= sent + received; left < 0 {
			return errors.New("the call's bytes are used up")
		}
		return nil
	}})
	res, err := d.client(t, false).Get("https://ok.test/repos/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); err == nil || n > 4<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if out := d.outcome(t); !out.Cut || !strings.Contains(out.Why, "used up") {
		t.Errorf("%+v", out)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestAnAnswerToHEADKeepsItsLength: programs ask for it.
func TestAnAnswerToHEADKeepsItsLength(t *testing.T) {
	everyEdge(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1234")
		w.Header().Set("Accept-Ranges", "bytes")
		w.Header().Set("ETag", `"x"`)
	}, 0, func(t *testing.T, _ *door, c *http.Client) {
		res, _ := get(t, c, request(t, "HEAD", "https://ok.test/repos/", ""))
		if h := res.Header; h.Get("Content-Length") != "1234" || h.Get("Accept-Ranges") != "none" || h.Get("ETag") != `"x"` {
			t.Errorf("%v", h)
		}
	})
}
