package inject

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func free(int64) error { return nil }

func edge(t testing.TB) *Edge { return set(t, credential(t, nil)).At("api.test", 443) }

func TestBodiesAreDecodedAndMasked(t *testing.T) {
	text := strings.Repeat("some text ", 5000) + "the value is " + value + " and more"
	want := strings.ReplaceAll(text, value, "[redacted:gh]")
	for coding, says := range map[string]string{"": "", "identity": "identity", "gzip": "gzip", "x-gzip": "X-GZIP", "deflate": "Deflate", "raw deflate": "deflate"} {
		e := edge(t)
		r := answer(200, bytes.NewReader(packed(t, coding, text)), "Content-Length", "7", "ETag", `"x"`, "Content-MD5", "m", "Accept-Ranges", "bytes", "X-Echo", value)
		if says != "" {
			r.Header.Set("Content-Encoding", says)
		}
		var unpacked int64
		if err := e.Answer(r, func(n int64) error { unpacked += n; return nil }); err != nil {
			t.Fatalf("%s: %v", coding, err)
		}
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != want || r.Body.Close() != nil {
			t.Errorf("%s: %v, %d bytes", coding, err, len(got))
		}
		h := http.Header{"X-Echo": {"[redacted:gh]"}, "Accept-Ranges": {"none"}, "Etag": {`"x"`}, "Content-Md5": {"m"}}
		plain := says == "" || says == "identity"
		if !plain {
			h.Set("Etag", `W/"x"`)
			h.Del("Content-Md5")
		} else if says != "" {
			h.Set("Content-Encoding", says)
		}
		if !reflect.DeepEqual(r.Header, h) || r.ContentLength != -1 || (unpacked == int64(len(text))) == plain {
			t.Errorf("%s: %v, length %d, unpacked %d", coding, r.Header, r.ContentLength, unpacked)
		}
		if _, masked := e.set.Counts(); masked["gh"] != 2 {
			t.Errorf("%s: %v", coding, masked)
		}
	}
}

func TestAnswersThatCannotBeLookedInto(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		fields []string
		why    string
	}{
		"brotli":            {200, []string{"Content-Encoding", "br"}, `the encoding "br"`},
		"zstd":              {500, []string{"Content-Encoding", "zstd"}, `the encoding "zstd"`},
		"two":               {200, []string{"Content-Encoding", "gzip, gzip"}, "more than once"},
		"two lines":         {200, []string{"Content-Encoding", "gzip", "Content-Encoding", "br"}, "more than once"},
		"a long one":        {200, []string{"Content-Encoding", strings.Repeat("x", 1000)}, `the encoding "` + strings.Repeat("x", 32) + `"`},
		"the value":         {200, []string{"Content-Encoding", value}, `the encoding "[redacted:gh]"`},
		"a part":            {206, nil, "a part"},
		"a difference":      {226, nil, "a part"},
		"another protocol":  {101, nil, "another protocol"},
		"of HEAD, too":      {200, []string{"Content-Encoding", "br"}, "the encoding"},
		"several identical": {200, []string{"Content-Encoding", "identity, br, identity"}, `the encoding "br"`},
	} {
		r := answer(row.status, strings.NewReader("x"), row.fields...)
		if err := edge(t).Answer(r, free); err == nil || !strings.Contains(err.Error(), row.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnswersWithoutABody(t *testing.T) {
	for name, row := range map[string]struct {
		method string
		status int
		length int64
		want   string // Content-Length
	}{
		"no content":   {"GET", 204, 0, ""},
		"not modified": {"GET", 304, 0, "9"},
		"empty":        {"POST", 201, 0, "0"},
		"HEAD":         {"HEAD", 200, 9, "9"},
		"zipped HEAD":  {"HEAD", 200, 9, ""},
	} {
		r := answer(row.status, http.NoBody, "X-Echo", value)
		r.Body, r.Request.Method, r.ContentLength = http.NoBody, row.method, row.length
		if row.want != "" || row.method == "HEAD" {
			r.Header.Set("Content-Length", fmt.Sprint(max(row.length, 0)))
			if row.status == 304 {
				r.Header.Set("Content-Length", "9")
			}
		}
		if strings.HasPrefix(name, "zipped") {
			r.Header.Set("Content-Encoding", "gzip")
		}
		if err := edge(t).Answer(r, free); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) > 0 || r.Header.Get("Content-Length") != row.want || r.Header.Get("X-Echo") != "[redacted:gh]" {
			t.Errorf("%s: %v, %q, %v", name, err, body, r.Header)
		}
	}
}

func TestAnEmptyBodyOfACodingIsEmpty(t *testing.T) {
	for _, coding := range []string{"gzip", "deflate"} {
		r := answer(200, strings.NewReader(""), "Content-Encoding", coding)
		if err := edge(t).Answer(r, free); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r.Body); err != nil || len(b) > 0 {
			t.Errorf("%s: %v %q", coding, err, b)
		}
	}
}

// TestTrailersAreMaskedWhenTheyHaveCome: they are there when the body has ended.
func TestTrailersAreMaskedWhenTheyHaveCome(t *testing.T) {
	e := edge(t)
	r := answer(200, nil)
	r.Trailer = http.Header{"X-T": nil, "X-" + value: nil}
	r.Body = io.NopCloser(iotest.DataErrReader(readFunc(func(p []byte) (int, error) {
		r.Trailer["X-T"], r.Trailer["X-Late-"+value], r.Trailer["X-U"] = []string{"t " + value}, []string{"x"}, []string{"u"}
		return 0, io.EOF
	})))
	if err := e.Answer(r, free); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r.Trailer, http.Header{"X-T": nil}) {
		t.Errorf("announced: %v", r.Trailer)
	}
	if _, err := io.ReadAll(r.Body); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r.Trailer, http.Header{"X-T": {"t [redacted:gh]"}, "X-U": {"u"}}) {
		t.Errorf("%v", r.Trailer)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// TestABodyIsMaskedWhereverItIsCut: in chunks that end at every offset.
func TestABodyIsMaskedWhereverItIsCut(t *testing.T) {
	e := edge(t)
	for name, form := range forms() {
		for _, coding := range []string{"", "gzip"} {
			whole := packed(t, coding, "a "+form+" b")
			for cut := range len(whole) {
				r := answer(200, &pieces{whole[:cut], whole[cut:]}, "Content-Encoding", coding)
				if err := e.Answer(r, free); err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(iotest.OneByteReader(r.Body))
				if err != nil || bytes.Contains(got, []byte(form)) || !bytes.Contains(got, []byte("[redacted:gh]")) || !bytes.HasSuffix(got, []byte(" b")) {
					t.Errorf("%s %s at %d: %q %v", name, coding, cut, got, err)
				}
			}
		}
	}
}

func TestABodyThatBreaksOffKeepsPartsOfValues(t *testing.T) {
	broken := errors.New("broken")
	for _, end := range []error{broken, io.ErrUnexpectedEOF} {
		r := answer(200, io.MultiReader(strings.NewReader("text s3cr3t-val"), iotest.ErrReader(end)))
		if err := edge(t).Answer(r, free); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r.Body); !errors.Is(err, end) || string(got) != "text " {
			t.Errorf("%q %v", got, err)
		}
	}
	garbage := answer(200, strings.NewReader("this is no gzip"), "Content-Encoding", "gzip")
	if err := edge(t).Answer(garbage, free); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(garbage.Body); err == nil || len(got) > 0 {
		t.Errorf("%q %v", got, err)
	}
}

func TestWhatIsUnpackedIsCounted(t *testing.T) {
	bomb := packed(t, "gzip", strings.Repeat("x", 10<<20))
	r := answer(200, bytes.NewReader(bomb), "Content-Encoding", "gzip")
	left, over := int64(1<<20), errors.New("used up")
	if err := edge(t).Answer(r, func(n int64) error {
		if left -= n; left < 0 {
			return over
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r.Body); !errors.Is(err, over) || len(got) > 1<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestAStreamIsPassedOnAsItComes: what cannot be a value does not wait.
func TestAStreamIsPassedOnAsItComes(t *testing.T) {
	in, out := io.Pipe()
	r := answer(200, in, "Content-Type", "text/event-stream")
	if err := edge(t).Answer(r, free); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	for _, event := range []string{"data: one\n\n", "data: two\n\n"} {
		go func() {
			_, err := io.WriteString(out, event)
			done <- err
		}()
		got := make([]byte, len(event))
		if _, err := io.ReadFull(r.Body, got); err != nil || string(got) != event {
			t.Errorf("%q %v", got, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	out.Close()
	if rest, err := io.ReadAll(r.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
}

// FuzzAnswer: whatever an origin sends, in whatever coding, no value comes out,
// and nothing else is lost.
func FuzzAnswer(f *testing.F) {
	codings := []string{"", "gzip", "deflate", "raw deflate"}
	for i := range codings {
		for _, form := range forms() {
			f.Add(uint8(i), "a "+form+" b", 7, true)
		}
		f.Add(uint8(i), "", 0, true)
		f.Add(uint8(i), "no value", 3, false)
	}
	e := edge(f)
	f.Fuzz(func(t *testing.T, kind uint8, text string, cut int, well bool) {
		coding := codings[int(kind)%len(codings)]
		b := packed(t, coding, text)
		if !well {
			b = []byte(text)
		}
		cut = min(max(cut, 0), len(b))
		says := strings.TrimPrefix(coding, "raw ")
		r := answer(200, &pieces{b[:cut], b[cut:]}, "Content-Encoding", says)
		if e.Answer(r, free) != nil {
			return
		}
		got, err := io.ReadAll(r.Body)
		if strings.Contains(string(got), value) {
			t.Fatalf("%q", got)
		}
		if well && err != nil {
			t.Fatalf("%s %q: %v", coding, text, err)
		}
		want, _ := e.set.mask.parts[0].String(text)
		if well && string(got) != want {
			t.Fatalf("%s: %q became %q, want %q", coding, text, got, want)
		}
	})
}
