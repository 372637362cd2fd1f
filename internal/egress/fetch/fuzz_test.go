package fetch

import (
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// FuzzAddress: whatever a caller asks for and a server redirects to, what is
// dialled was judged, only one request is sent there, and it is the one for
// that host. See script.
func FuzzAddress(f *testing.F) {
	for _, url := range []string{
		"http://allowed.test/", "https://allowed.test:8080/a?b#c", "http://[::ffff:7f00:1]:9931/", "http://2130706433/", "http://127.0.0.1/", "http://0x7f.1/",
		"http://①②⑦.⓪.⓪.①/", "http://bücher.test/é?é", "http://a@b.test/", "http://b.test\\@a.test/", "FILE:///etc/passwd", "//x.test/", "http:x", "http://x.test:80:80/",
		"http://x.test/\r\nHost: y.test", "http://x.test/ HTTP/1.1\r\n", "http://x.test/%0d%0aHost:%20y.test", "http://x%00.test/", "http://[::1%25lo]/", "http://x.test./", "?q", "../x", "javascript:1",
	} {
		f.Add(url, "/elsewhere")
		f.Add("http://allowed.test/a/b", url)
	}
	f.Fuzz(func(t *testing.T, url, location string) {
		s := canned("HTTP/1.1 302 Found\r\nLocation: " + strings.NewReplacer("\r", "", "\n", "").Replace(location) + "\r\n\r\n")
		out := s.run(t, url)
		for _, shown := range append(out.Hops, out.URL) {
			if shown != "" && !strings.HasPrefix(shown, "http://") && !strings.HasPrefix(shown, "https://") {
				t.Errorf("a hop %q", shown)
			}
		}
		if len(s.conns) > limits().FetchHops+1 {
			t.Errorf("%d dials", len(s.conns))
		}
		a, bad := s.parse(url, nil)
		if bad != nil {
			if out.Refused == nil {
				t.Errorf("%q is no address, and is not refused: %+v", url, out)
			}
			return
		}
		if again, bad := s.parse(a.String(), nil); bad != nil || again != a {
			t.Errorf("%q is %s, which is %s, %+v", url, a, again, bad)
		}
	})
}

// FuzzAnswer: whatever a server sends, the answer is within its bounds, texts
// are UTF-8 and neutral, and nothing panics. See script.
func FuzzAnswer(f *testing.F) {
	head := "HTTP/1.1 200 OK\r\n"
	packed := string(gzipped(f, 300, "<p>x"))
	for _, answer := range []string{
		"", "HTTP/1.1", head + "\r\n", head + "Content-Type: text/html\r\n\r\n<title>a</title><p>b",
		head + "Content-Type: text/html; charset=utf-16\r\n\r\n<\x00p\x00>\x00", head + "Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n\x1b$B\x1b(Bx",
		head + "Content-Type: application/xml\r\n\r\n<?xml version='1.0' encoding='gbk'?>\x81\xff", head + "Content-Encoding: gzip\r\nContent-Type: text/html\r\n\r\n" + packed,
		head + "Content-Encoding: gzip\r\n\r\n" + packed[:30], head + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\nTrailer: x\r\n\r\n", head + "Content-Length: 5\r\n\r\nab",
		"HTTP/1.1 100 Continue\r\n\r\n" + head + "\r\nx", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx", "HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.0 301 x\r\nLocation: \xff\xfe\r\n\r\n", head + "Content-Type: image/\x01\r\n\r\n\x89PNG", head + "Cache-Control: max-age=1\r\nVary: a\r\n\r\nx", "HTTP/1.1 999 \x1b[31m\r\nContent-Type: text/plain;charset=\"\x7f\r\n\r\nx",
	} {
		f.Add(answer, true, 0)
		f.Add(answer, false, 3)
	}
	f.Fuzz(func(t *testing.T, answer string, text bool, most int) {
		s := canned(answer)
		s.public = true
		req := envelope.Fetch{URL: "http://allowed.test/", Text: text, Bytes: envelope.Size(max(most, 0))}
		first, body := s.fetch(t, req)
		if most > 0 && len(body) > most {
			t.Errorf("%d bytes, %d wanted", len(body), most)
		}
		again, same := s.fetch(t, req)
		if again.Cached && (string(same) != string(body) || again.Status != 200 || first.Failure != "" || again.Title != first.Title || again.Cut != first.Cut) {
			t.Errorf("first %+v %q, then from the cache %+v %q", first, body, again, same)
		}
	})
}
