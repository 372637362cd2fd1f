package fetch

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// served fetches one body from a stand.
func served(t *testing.T, header map[string]string, body string, req envelope.Fetch) got {
	t.Helper()
	s := newStand(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		for name, value := range header {
			w.Header().Set(name, value)
		}
		send(t, w, []byte(body))
	})
	req.URL = "http://allowed.test/"
	return s.get(s.public, req)
}

func TestTextsBecomeUTF8(t *testing.T) {
	iso2022, err := base64.StdEncoding.DecodeString("GyRCRnxLXBsoQg==") // 日本
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ kind, body, charset, want string }{
		{"text/plain", "plain", "utf-8", "plain"},
		{"text/plain; charset=utf-8", "ü\xff", "utf-8", "ü\uFFFD"},
		{"text/plain; charset=UTF8", "\xEF\xBB\xBFü", "utf-8", "ü"},
		{"text/plain; charset=iso-8859-1", "\xfc\x80", "windows-1252", "ü€"},
		{"text/plain; charset=utf-8", "\xff\xfea\x00\xfc\x00", "utf-16le", "aü"},
		{"text/plain", "\xfe\xff\x00a\xd8\x00", "utf-16be", "a\uFFFD"},
		{"text/plain", strings.Repeat("a", 2000) + "ü", "utf-8", strings.Repeat("a", 2000) + "ü"},
		{"text/plain", strings.Repeat("a", 1019) + "ü", "utf-8", strings.Repeat("a", 1019) + "ü"},
		{"text/plain", "\xfc", "windows-1252", "ü"},
		{"text/plain; charset=iso-2022-jp", string(iso2022), "iso-2022-jp", "日本"},
		{"text/plain; charset=gb18030", "\xc4\xe3\x81", "gb18030", "你\uFFFD"},
		{"text/plain; charset=utf-7", "+ADw-", "utf-8", "+ADw-"},
		{"text/plain; charset=nonsense", "ü", "utf-8", "ü"},
		{"application/json", `{"a":"ü"}`, "utf-8", `{"a":"ü"}`},
		{"application/ld+json", "\"\xfc\"", "utf-8", "\"\uFFFD\""},
		{"application/json", `"<meta charset=koi8-r>"`, "utf-8", `"<meta charset=koi8-r>"`},
		{"text/html", "<meta charset=windows-1252>\xfc", "windows-1252", "<meta charset=windows-1252>ü"},
		{"text/html", "<meta charset=koi8-r>\xc1", "koi8-r", "<meta charset=koi8-r>а"},
		{"text/html", "<p>ascii", "utf-8", "<p>ascii"},
		{"application/rss+xml", `<?xml version="1.0" encoding="ISO-8859-1"?>` + "\xfc", "windows-1252", `<?xml version="1.0" encoding="ISO-8859-1"?>ü`},
		{"text/xml", `<?xml version="1.0" encoding="utf-16"?>` + "ü", "utf-8", `<?xml version="1.0" encoding="utf-16"?>ü`},
		{"", "looks like text", "utf-8", "looks like text"},
	} {
		g := served(t, map[string]string{"Content-Type": c.kind}, c.body, envelope.Fetch{})
		if string(g.body) != c.want || g.Charset != c.charset || g.Failure != "" || g.Cut {
			t.Errorf("%s %q: %q of %s; want %q of %s; %+v", c.kind, c.body, g.body, g.Charset, c.want, c.charset, g.Fetched)
		}
	}
	g := served(t, map[string]string{"Content-Type": "text/plain; charset=iso-2022-kr"}, "x", envelope.Fetch{})
	if !strings.Contains(g.Failure, `its charset is not decoded: "iso-2022-kr"`) || len(g.body) > 0 {
		t.Errorf("%+v", g.Fetched)
	}
}

func TestOtherBodiesStayBytes(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n\xff\xfe"
	for _, c := range []struct{ kind, body, want string }{
		{"image/png", png, "image/png"}, {"", png, "image/png"}, {"application/octet-stream", "text", "application/octet-stream"},
		{"IMAGE/Png; x=y", png, "image/png"}, {"nonsense", png, "image/png"}, {"", "", ""},
		{"image/" + strings.Repeat("x", 200), png, "image/png"}, {"application/pdf;;;", "%PDF-1.7 \xff", "application/pdf"},
	} {
		g := served(t, map[string]string{"Content-Type": c.kind}, c.body, envelope.Fetch{})
		if string(g.body) != c.body || g.Charset != "" || g.Type != c.want || g.Failure != "" {
			t.Errorf("%s: %q %+v", c.kind, g.body, g.Fetched)
		}
	}
	g := served(t, map[string]string{"Content-Type": "image/png"}, png, envelope.Fetch{Text: true})
	if len(g.body) > 0 || !strings.Contains(g.Failure, "image/png has no text") || g.Status != 200 {
		t.Errorf("%q %+v", g.body, g.Fetched)
	}
}

func TestEncodings(t *testing.T) {
	packed := string(gzipped(t, 100, "x"))
	plain := strings.Repeat("x", 100)
	for _, c := range []struct{ encoding, body, want, failure string }{
		{"", plain, plain, ""},
		{"identity", plain, plain, ""},
		{"gzip", packed, plain, ""},
		{"X-GZIP", packed, plain, ""},
		{"gzip", packed + packed, plain + plain, ""},
		{"gzip", "", "", ""},
		{"gzip", plain, "", "gzip: invalid header"},
		{"gzip", packed[:20], "", "unexpected EOF"},
		{"gzip", packed + "tail", plain, "unexpected EOF"},
		{"br", plain, "", `it has the encoding "br", and gzip alone was asked for`},
		{"gzip, gzip", packed, "", "gzip, gzip"},
		{"deflate", plain, "", "deflate"},
	} {
		g := served(t, map[string]string{"Content-Encoding": c.encoding, "Content-Type": "text/plain"}, c.body, envelope.Fetch{})
		if string(g.body) != c.want || !strings.Contains(g.Failure, c.failure) || (g.Failure == "") != (c.failure == "") || g.Cut != (c.failure != "") {
			t.Errorf("%s %q: %q %+v", c.encoding, c.body, g.body, g.Fetched)
		}
		if c.failure == "" && (g.Bytes != int64(len(c.want)) || g.WireBytes != int64(len(c.body))) {
			t.Errorf("%s: %+v", c.encoding, g.Fetched)
		}
	}
}

func TestEmptyPiecesOfGzipHaveAnEnd(t *testing.T) {
	var empty bytes.Buffer
	if err := gzip.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	many := bytes.Repeat(empty.Bytes(), 4<<20/empty.Len())
	g := served(t, map[string]string{"Content-Encoding": "gzip"}, string(many), envelope.Fetch{})
	if !strings.Contains(g.Failure, "larger packed than unpacked") || g.WireBytes > overhead(limits().FetchBytes) || !g.Cut {
		t.Errorf("%+v", g.Fetched)
	}
}

func TestBytesThatAreWantedCutBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		kind, body string
		want       envelope.Size
		text       string
		cut        bool
	}{
		{"text/plain", "aüüü", 4, "aü", true},
		{"text/plain", "aüüü", 7, "aüüü", false},
		{"text/plain", "aüüü", 8, "aüüü", false},
		{"text/plain", "aüüü", 6, "aüü", true},
		{"text/plain; charset=latin1", "\xfc\xfc\xfc", 3, "ü", true},
		{"text/plain; charset=utf-16le", "a\x00\xfc\x00b\x00", 3, "a", true},
		{"application/octet-stream", "aüüü", 4, "aü\xc3", true},
		{"application/octet-stream", "", 4, "", false},
	} {
		g := served(t, map[string]string{"Content-Type": c.kind}, c.body, envelope.Fetch{Bytes: c.want})
		if string(g.body) != c.text || g.Cut != c.cut || g.Failure != "" {
			t.Errorf("%s %q to %d: %q %+v", c.kind, c.body, c.want, g.body, g.Fetched)
		}
	}
	if g := served(t, nil, strings.Repeat("x", 3<<20), envelope.Fetch{Bytes: 1 << 40}); len(g.body) != 2<<20 || !g.Cut {
		t.Errorf("more than the operator's cap: %d bytes", len(g.body))
	}
}

func TestTextOfAPage(t *testing.T) {
	body := "<title>A page &amp; more</title><nav>menu</nav><article>" + strings.Repeat("<p>Words that make an article, one after the other, to the end of it.</p>", 20) + "</article>"
	html := map[string]string{"Content-Type": "text/html; charset=utf-8"}
	g := served(t, html, body, envelope.Fetch{Text: true})
	want := strings.TrimSuffix(strings.Repeat("Words that make an article, one after the other, to the end of it.\n\n", 20), "\n\n")
	if string(g.body) != want || g.Title != "A page & more" || g.Cut || g.Bytes != int64(len(body)) || g.Type != "text/html" {
		t.Errorf("%q\n%+v", g.body, g.Fetched)
	}
	g = served(t, html, body, envelope.Fetch{Text: true, Bytes: 20})
	if string(g.body) != "Words that make an a" || !g.Cut {
		t.Errorf("cut: %q %+v", g.body, g.Fetched)
	}
	g = served(t, map[string]string{"Content-Type": "application/json"}, `{"a": "<p>"}`, envelope.Fetch{Text: true})
	if string(g.body) != `{"a": "<p>"}` || g.Title != "" {
		t.Errorf("%q %+v", g.body, g.Fetched)
	}
	g = served(t, html, "<script>x</script>", envelope.Fetch{Text: true})
	if len(g.body) > 0 || g.Failure != "the page has no text" {
		t.Errorf("%q %+v", g.body, g.Fetched)
	}
}

func TestNestedPageIsReadInTime(t *testing.T) {
	g := served(t, map[string]string{"Content-Type": "text/html"}, strings.Repeat("<div>", 200_000)+"deep"+strings.Repeat("<b><i><table>", 50_000), envelope.Fetch{Text: true})
	if string(g.body) != "deep" || g.Failure != "" {
		t.Errorf("%d bytes %+v", len(g.body), g.Fetched)
	}
}

func TestBodyThatEndsEarlyIsAFailure(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\nfive.",
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfive.\r\n5\r\n",
	} {
		out, body := canned(answer).fetch(t, envelope.Fetch{URL: "http://allowed.test/"})
		if string(body) != "five." || !out.Cut || !strings.Contains(out.Failure, "unexpected EOF") {
			t.Errorf("%q: %q %+v", answer, body, out)
		}
	}
	for _, answer := range []string{"", "x", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nA\x00: b\r\n\r\n", "\x16\x03\x01"} {
		out, body := canned(answer).fetch(t, envelope.Fetch{URL: "http://allowed.test/"})
		if out.Failure == "" || out.Status != 0 || len(body) > 0 {
			t.Errorf("%q: %q %+v", answer, body, out)
		}
	}
}

func TestInterimAnswersHaveAnEnd(t *testing.T) {
	early, last := "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nlast"
	for answer, want := range map[string]string{
		strings.Repeat(early, maxInterim) + last:                                        "",
		strings.Repeat(early, maxInterim+1) + last:                                      "interim",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n": "another protocol",
	} {
		out, body := canned(answer).fetch(t, envelope.Fetch{URL: "http://allowed.test/"})
		if !strings.Contains(out.Failure, want) || (want == "") != (string(body) == "last") || out.Status != 0 && want != "" {
			t.Errorf("%.60q: %q %+v", answer, body, out)
		}
	}
}

func TestPiecesAreBoundedAndWhole(t *testing.T) {
	for _, n := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 200_000} {
		body := strings.Repeat("ü", n/2) + strings.Repeat("x", n%2)
		if g := served(t, map[string]string{"Content-Type": "text/plain"}, body, envelope.Fetch{}); string(g.body) != body {
			t.Errorf("%d bytes came as %d", n, len(g.body))
		}
	}
}

func TestLongAddressesMakeAnAnswerThatFits(t *testing.T) {
	long := strings.Repeat("&", 8000)
	n := 0
	l := limits()
	l.FetchHops = 40
	s := newStandWith(t, l, func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Location", fmt.Sprintf("/%s%d", long, n))
		w.WriteHeader(http.StatusFound)
	})
	g := s.url("http://allowed.test/" + long)
	if len(g.Hops) != maxHopsShown || len(s.dials) != 41 {
		t.Errorf("%d hops shown, %d dials", len(g.Hops), len(s.dials))
	}
}
