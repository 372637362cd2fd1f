package fetch

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/egress/inject"
	"github.com/callcell/callcell/internal/egress/wire"
)

const kept = `s3cr3t<value>&"+x`

// grantedJudge is the policy of a call with credentials.
type grantedJudge struct {
	Judge
	set *inject.Set
}

func (g grantedJudge) Grant() *inject.Set { return g.set }

// granted is a stand's public policy with a credential of example.com.
func (s *stand) granted(text string) grantedJudge {
	s.t.Helper()
	one, err := secret.New([]byte(text))
	if err != nil {
		s.t.Fatal(err)
	}
	set, err := inject.New([]wire.Credential{{Name: "gh", Header: "X-Api-Key", Format: "{}", Host: "example.com", Port: 443, Methods: []string{"GET"}, Path: "/repos/", Secret: one}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(set.Destroy)
	return grantedJudge{s.public, set}
}

// echoing sends back the header that the credential is for, as says says it.
func echoing(t *testing.T, says func(w http.ResponseWriter, said string)) *stand {
	return newStand(t, func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", strings.ReplaceAll(to, "SAID", url.QueryEscape(r.Header.Get("X-Api-Key"))))
			w.WriteHeader(http.StatusFound)
			return
		}
		says(w, r.Header.Get("X-Api-Key"))
	})
}

func plainly(w http.ResponseWriter, said string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "it is "+said+"!")
}

func TestACredentialIsForTheVeryAddress(t *testing.T) {
	for target, with := range map[string]string{
		"https://example.com/repos/a?b=/../": "y", "https://EXAMPLE.com./repos/a": "y", "https://example.com:443/repos/%C3%A9": "y", "https://example.com/repos/ü": "y",
		"https://example.com/repos": "n", "https://example.com/repository": "n", "https://example.com/REPOS/a": "n", "https://example.com/": "n",
		"http://example.com/repos/a": "n", "http://allowed.test/repos/a": "n", "http://allowed.test:8080/repos/a": "n",
		"https://example.com/repos/?to=/admin": "yn", "https://example.com/x?to=/repos/": "ny", "https://example.com/repos/?to=http://other.test/repos/": "y",
		"http://other.test/?to=https://example.com/repos/": "ny", "https://example.com/repos/?to=/repos/b?to=../repos/c": "yyy", "https://example.com/repos/?to=/repos/../admin": "yn",
	} {
		s := echoing(t, plainly)
		g := s.get(s.granted(kept), envelope.Fetch{URL: target})
		got := ""
		for _, hit := range s.hits {
			values := hit.Header["X-Api-Key"]
			switch {
			case len(values) == 1 && values[0] == kept && hit.TLS != nil && hit.Host == "example.com":
				got += "y"
			case len(values) == 0:
				got += "n"
			default:
				got += "?"
			}
		}
		if got != with || strings.Contains(string(g.body), "s3cr3t") {
			t.Errorf("%s: %q, want %q; %q %+v", target, got, with, g.body, g.Fetched)
		}
	}
}

// TestAnAddressThatIsReadInTwoWaysIsNotAsked where a credential is for its
// host; elsewhere it is.
func TestAnAddressThatIsReadInTwoWaysIsNotAsked(t *testing.T) {
	for _, path := range []string{"/repos/../admin", "/repos/%2e%2e/admin", "/repos//admin", `/repos/..\admin`, "/repos/%2fadmin", "/repos/%252e%252e/admin", "/repos/%00"} {
		s := echoing(t, plainly)
		g := s.get(s.granted(kept), envelope.Fetch{URL: "https://example.com" + path})
		if g.Refused == nil || g.Refused.Reason != envelope.ReasonPolicy || !strings.Contains(g.Refused.Message, "a credential of the call is for example.com") || g.Refused.Hint == "" {
			t.Errorf("%s: %+v %+v", path, g.Fetched, g.Refused)
		}
		s.untouched()
		if g := s.get(s.granted(kept), envelope.Fetch{URL: "http://allowed.test" + path}); g.Refused != nil || g.Failure != "" {
			t.Errorf("%s: %+v", path, g)
		}
		s.hits, s.dials = nil, nil
		redirect := s.get(s.granted(kept), envelope.Fetch{URL: "http://allowed.test/?to=" + url.QueryEscape("https://example.com"+path)})
		if strings.Contains(path, "%") && (redirect.Failure == "" || len(s.hits) != 1) {
			t.Errorf("%s, redirected to: %+v", path, redirect.Fetched)
		}
		for _, hit := range s.hits {
			if hit.Header.Get("X-Api-Key") != "" {
				t.Errorf("%s, redirected to: %s", path, hit.URL)
			}
		}
	}
}

func TestARedirectThatTellsTheValueIsNotFollowed(t *testing.T) {
	for _, to := range []string{"http://other.test/?t=SAID", "/repos/?t=SAID"} {
		s := echoing(t, plainly)
		g := s.get(s.granted(kept), envelope.Fetch{URL: "https://example.com/repos/?to=" + url.QueryEscape(to)})
		if len(s.hits) != 1 || !strings.Contains(g.Failure, "[redacted:gh] refused: it has the value of a credential in it") {
			t.Errorf("%s: %d requests, %+v", to, len(s.hits), g.Fetched)
		}
	}
}

func TestWhatIsFetchedIsMasked(t *testing.T) {
	const mask = "[redacted:gh]"
	utf16le := func(text string) []byte {
		b := []byte{0xff, 0xfe}
		for _, c := range utf16.Encode([]rune(text)) {
			b = append(b, byte(c), byte(c>>8))
		}
		return b
	}
	page := func(said string) string {
		return "<title>about " + html.EscapeString(said) + "</title><body><p>it is " + html.EscapeString(said) + ".</p></body>"
	}
	for name, row := range map[string]struct {
		kind string
		says func(said string) []byte
		text bool
		want string
	}{
		"plain":   {"text/plain", func(said string) []byte { return []byte("it is " + said + ".") }, false, "it is " + mask + "."},
		"bytes":   {"application/octet-stream", func(said string) []byte { return []byte("\x00\xff" + said + "\x00") }, false, "\x00\xff" + mask + "\x00"},
		"JSON":    {"application/json", func(said string) []byte { return fmt.Appendf(nil, `{"it":%q}`, said) }, false, `{"it":"` + mask + `"}`},
		"UTF-16":  {"text/plain; charset=utf-16le", func(said string) []byte { return utf16le("é is " + said + ".") }, false, "é is " + mask + "."},
		"a page":  {"text/html", func(said string) []byte { return []byte(page(said)) }, true, "it is " + mask + "."},
		"as text": {"text/plain", func(said string) []byte { return []byte("it is " + said + ".") }, true, "it is " + mask + "."},
	} {
		for _, zip := range []bool{false, true} {
			s := echoing(t, func(w http.ResponseWriter, said string) {
				w.Header().Set("Content-Type", row.kind)
				b := row.says(said)
				if zip {
					w.Header().Set("Content-Encoding", "gzip")
					b = gzipped(t, int64(len(b)), string(b))
				}
				send(t, w, b)
			})
			pol := s.granted(kept)
			g := s.get(pol, envelope.Fetch{URL: "https://example.com/repos/", Text: row.text})
			if strings.TrimSpace(string(g.body)) != row.want || g.Failure != "" || g.Cut {
				t.Errorf("%s, gzip %v: %q %+v", name, zip, g.body, g.Fetched)
			}
			if name == "a page" && g.Title != "about "+mask {
				t.Errorf("title %q", g.Title)
			}
			if got := s.hits[0].Header.Get("Accept-Encoding"); got != "identity" {
				t.Errorf("%q", got)
			}
			used, masked := pol.set.Counts()
			if used["gh"] != 1 || masked["gh"] == 0 {
				t.Errorf("%s: %v %v", name, used, masked)
			}
		}
	}
}

// TestNoPartOfAValueIsFetched, whatever size the caller names: it could put
// the parts together.
func TestNoPartOfAValueIsFetched(t *testing.T) {
	s := echoing(t, plainly)
	shorter := ""
	for n := range 40 {
		if n == 0 {
			continue
		}
		g := s.get(s.granted(kept), envelope.Fetch{URL: "https://example.com/repos/", Bytes: envelope.Size(n)})
		got := string(g.body)
		if !strings.HasPrefix("it is [redacted:gh]!", got) || len(got) > n || !strings.HasPrefix(got, shorter) || g.Cut != (n < len("it is "+kept+"!")) {
			t.Errorf("%d: %q, cut %v", n, got, g.Cut)
		}
		shorter = got
	}
	// The caller chooses where the operator's limit cuts, if it can choose what
	// stands before the value.
	l := limits()
	l.FetchBytes = 100
	for pad := 60; pad < 101; pad++ {
		for _, kind := range []string{"text/plain", "application/octet-stream", "text/html"} {
			s := newStandWith(t, l, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", kind)
				_, _ = io.WriteString(w, strings.Repeat("x", pad)+r.Header.Get("X-Api-Key"))
			})
			g := s.get(s.granted(kept), envelope.Fetch{URL: "https://example.com/repos/", Text: kind == "text/html"})
			if strings.Contains(string(g.body), "s3") {
				t.Errorf("%s, %d: %q", kind, pad, g.body)
			}
		}
	}
}

// TestALongTitleHasNoPartOfAValue where it is cut.
func TestALongTitleHasNoPartOfAValue(t *testing.T) {
	for pad := 270; pad < 302; pad++ {
		s := echoing(t, func(w http.ResponseWriter, said string) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<title>"+strings.Repeat("x", pad)+html.EscapeString(said)+"</title><p>text")
		})
		if g := s.get(s.granted(kept), envelope.Fetch{URL: "https://example.com/repos/", Text: true}); strings.Contains(g.Title, "s3") {
			t.Errorf("%d: %q", pad, g.Title)
		}
	}
}

func TestTheMaskCutsNoCharacter(t *testing.T) {
	const unit = "é𝄞ü"
	s := echoing(t, func(w http.ResponseWriter, said string) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "x"+strings.Repeat(unit, 20_000)+said)
	})
	whole := "x" + strings.Repeat(unit, 20_000) + "[redacted:gh]"
	for _, n := range []envelope.Size{0, 32<<10 - 1, 32 << 10, 32<<10 + 1, 32<<10 + 2, 32<<10 + 3, 100_001, 100_002, 100_003} {
		g := s.get(s.granted(kept), envelope.Fetch{URL: "https://example.com/repos/", Bytes: n})
		got := string(g.body)
		if !strings.HasPrefix(whole, got) || n == 0 && got != whole || n > 0 && len(got) < int(n)-4 {
			t.Errorf("%d: %d bytes", n, len(got))
		}
		if strings.ToValidUTF8(got, "?") != got {
			t.Errorf("%d: a character is cut", n)
		}
	}
}

// TestWhatIsSaidOfABadAnswerIsMasked: net/http quotes what it cannot read.
func TestWhatIsSaidOfABadAnswerIsMasked(t *testing.T) {
	for name, says := range map[string]string{
		"status line": "SAID is not allowed\r\n\r\n",
		"header":      "HTTP/1.1 200 OK\r\nSAID\r\n\r\n",
		"length":      "HTTP/1.1 200 OK\r\nContent-Length: SAID\r\n\r\n",
		"coding":      "HTTP/1.1 200 OK\r\nContent-Encoding: SAID\r\n\r\nx",
		"type":        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8; x=\"SAID\"\r\n\r\nx",
	} {
		s := newStand(t, func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, strings.ReplaceAll(says, "SAID", r.Header.Get("X-Api-Key")))
			_ = conn.Close()
		})
		g := s.get(s.granted(kept), envelope.Fetch{URL: "https://example.com/repos/"})
		if text := fmt.Sprintf("%s %+v", g.body, g.Fetched); strings.Contains(text, "s3cr3t") || name != "type" && g.Failure == "" {
			t.Errorf("%s: %q", name, text)
		}
	}
}

// TestTheCacheKnowsNothingOfCredentials: what was got at a host that one is for
// is not held, and what others got there is not had.
func TestTheCacheKnowsNothingOfCredentials(t *testing.T) {
	n := 0
	s := echoing(t, func(w http.ResponseWriter, said string) {
		n++
		w.Header().Set("Content-Type", "text/plain")
		_, _ = fmt.Fprintf(w, "%d %s", n, said)
	})
	a, b := s.granted("s3cr3t-a-value"), s.granted("s3cr3t-b-value")
	for i, row := range []struct {
		pol    Judge
		url    string
		want   string
		cached bool
		hits   string // the last one's header
	}{
		{a, "https://example.com/repos/", "1 [redacted:gh]", false, "s3cr3t-a-value"},
		{a, "https://example.com/repos/", "2 [redacted:gh]", false, "s3cr3t-a-value"},
		{b, "https://example.com/repos/", "3 [redacted:gh]", false, "s3cr3t-b-value"},
		{s.public, "https://example.com/repos/", "4 ", false, ""},
		{s.public, "https://example.com/repos/", "4 ", true, ""},
		{a, "https://example.com/repos/", "5 [redacted:gh]", false, "s3cr3t-a-value"},
		{s.public, "https://example.com/repos/", "4 ", true, ""}, // a's is not in its place
		{a, "https://example.com/", "6 ", false, ""},             // no credential is for the path, and still
		{a, "https://example.com/", "7 ", false, ""},
		{s.public, "http://other.test/?to=https://example.com/repos/", "8 ", false, ""},
		{a, "http://other.test/?to=https://example.com/repos/", "9 [redacted:gh]", false, "s3cr3t-a-value"},
		{s.public, "http://other.test/?to=https://example.com/repos/", "8 ", true, ""},
		{a, "http://allowed.test/", "10 ", false, ""}, // elsewhere as ever
		{b, "http://allowed.test/", "10 ", true, ""},
	} {
		s.hits = nil
		g := s.get(row.pol, envelope.Fetch{URL: row.url})
		if string(g.body) != row.want || g.Cached != row.cached || g.Failure != "" {
			t.Errorf("%d: %q, want %q; %+v", i, g.body, row.want, g.Fetched)
		}
		if !row.cached && (len(s.hits) == 0 || s.hits[len(s.hits)-1].Header.Get("X-Api-Key") != row.hits) {
			t.Errorf("%d: %+v", i, s.hits)
		}
	}
}

// TestWhatIsMaskedElsewhereIsNotHeld: others get it as it is.
func TestWhatIsMaskedElsewhereIsNotHeld(t *testing.T) {
	s := newStand(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "it is s3cr3t-a-value")
	})
	var got []string
	for _, pol := range []Judge{s.granted("s3cr3t-a-value"), s.public, s.public} {
		got = append(got, string(s.get(pol, envelope.Fetch{URL: "http://allowed.test/"}).body))
	}
	if want := []string{"it is [redacted:gh]", "it is s3cr3t-a-value", "it is s3cr3t-a-value"}; !slices.Equal(got, want) || len(s.hits) != 2 {
		t.Errorf("%q, %d requests", got, len(s.hits))
	}
}
