package inject

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/egress/wire"
)

// forms are the value as programs write it.
func forms() map[string]string {
	return map[string]string{
		"as it is":      value,
		"header":        "Bearer " + value,
		"base64":        base64.StdEncoding.EncodeToString([]byte(value)),
		"base64 of all": base64.StdEncoding.EncodeToString([]byte("Bearer " + value)),
		"base64 URL":    base64.RawURLEncoding.EncodeToString([]byte(value)),
		"base64 within": base64.StdEncoding.EncodeToString([]byte(`{"token":"` + value + `"}`)),
		"hex":           hex.EncodeToString([]byte(value)),
		"HEX":           strings.ToUpper(hex.EncodeToString([]byte(value))),
		"query":         url.QueryEscape(value),
		"JSON":          `s3cr3t-value\/\u002bx`,
	}
}

func TestTextIsMaskedInTheUsualEncodings(t *testing.T) {
	for name, form := range forms() {
		s := set(t, credential(t, nil))
		got := s.Text("a " + form + " b")
		if strings.Contains(got, form) || !strings.Contains(got, "[redacted:gh]") || !strings.HasPrefix(got, "a ") || !strings.HasSuffix(got, " b") {
			t.Errorf("%s: %q", name, got)
		}
		if _, masked := s.Counts(); !reflect.DeepEqual(masked, map[string]int64{"gh": 1}) {
			t.Errorf("%s: %v", name, masked)
		}
	}
}

func TestWhatBasicSaysIsMasked(t *testing.T) {
	pair := base64.StdEncoding.EncodeToString([]byte("robot:p4ssw0rd-xyz"))
	s := set(t, credentialOf(t, pair, func(c *wire.Credential) { c.Name, c.Format = "basic", "Basic {}" }))
	for _, text := range []string{pair, "Basic " + pair, "robot:p4ssw0rd-xyz", `"password":"p4ssw0rd-xyz"`, hex.EncodeToString([]byte("p4ssw0rd-xyz"))} {
		if got := s.Text(text); strings.Contains(got, "p4ssw0rd") || strings.Contains(got, "cDRz") || !strings.Contains(got, "[redacted:basic]") {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got := s.Text("robot"); got != "robot" {
		t.Errorf("%q", got)
	}
}

func TestAPasswordThatIsAWordIsLeft(t *testing.T) {
	pair := base64.StdEncoding.EncodeToString([]byte("robot:password"))
	s := set(t, credentialOf(t, pair, func(c *wire.Credential) { c.Format = "basic {}" }))
	if got := s.Text("the password is robot:password"); got != "the password is [redacted:gh]" {
		t.Errorf("%q", got)
	}
	set(t, credentialOf(t, "not base64!", func(c *wire.Credential) { c.Format = "Basic {}" }))
}

func TestHeadersAreMasked(t *testing.T) {
	s := set(t, credential(t, nil))
	h := http.Header{"X-A": {"a", value, "b " + value}, "Location": {"https://other.test/?t=" + url.QueryEscape(value)}, "X-B": {"s3cr3t"}, "x-" + value: {"c"}, "Date": nil}
	s.Header(h)
	want := http.Header{"X-A": {"a", "[redacted:gh]", "b [redacted:gh]"}, "Location": {"https://other.test/?t=[redacted:gh]"}, "X-B": {"s3cr3t"}, "Date": nil}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("%q", h)
	}
	if _, masked := s.Counts(); masked["gh"] != 4 {
		t.Errorf("%v", masked)
	}
}

func TestStartLeavesOutWhatMayBeAPart(t *testing.T) {
	s := set(t, credential(t, nil))
	for text, want := range map[string]string{
		"title": "title", "a " + value + " b": "a [redacted:gh] b", "a s3cr3t-val": "a ", "a s3cr3t-x": "a s3cr3t-x", "a Bearer s3": "a ",
	} {
		if got := s.Start(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestAStreamIsMaskedWhereverItIsCut: at every offset, for every form.
func TestAStreamIsMaskedWhereverItIsCut(t *testing.T) {
	s := set(t, credential(t, nil), credentialOf(t, "another-s3cr3t", func(c *wire.Credential) { c.Name, c.Header = "key", "X-Key" }))
	for name, form := range forms() {
		text := "a " + form + " b another-s3cr3t c"
		for cut := range len(text) + 1 {
			var out strings.Builder
			w := s.Writer(&out)
			_, err1 := w.Write([]byte(text[:cut]))
			_, err2 := w.Write([]byte(text[cut:]))
			if err := errors.Join(err1, err2, w.Close(), w.Close()); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); strings.Contains(got, form) || !strings.HasSuffix(got, " b [redacted:key] c") || w.Masked() != 2 {
				t.Errorf("%s at %d: %q, %d", name, cut, got, w.Masked())
			}
		}
	}
}

func TestWhatIsAbandonedIsNotWritten(t *testing.T) {
	s := set(t, credential(t, nil))
	var out strings.Builder
	w := s.Writer(&out)
	if _, err := w.Write([]byte(value + " a s3cr3t-val")); err != nil {
		t.Fatal(err)
	}
	w.Abandon()
	w.Abandon()
	if got := out.String(); got != "[redacted:gh] a " {
		t.Errorf("%q", got)
	}
	if _, masked := s.Counts(); masked["gh"] != 1 {
		t.Errorf("%v", masked)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = fmt.Errorf("full")

func TestAWriterSaysWhatWentWrong(t *testing.T) {
	s := set(t, credential(t, nil))
	w := s.Writer(full{})
	if _, err := w.Write([]byte("text ")); !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
	if err := w.Close(); !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
}
