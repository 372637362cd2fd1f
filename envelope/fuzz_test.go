package envelope

import (
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// seeds returns the files of a corpus. A corpus that has vanished is a
// failure, not an empty one.
func seeds(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", dir, "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no seeds in testdata/%s: %v", dir, err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(name)] = data
	}
	return out
}

// The seeds say what they are for: these decode, the others do not.
func TestSeeds(t *testing.T) {
	bad := map[string]bool{
		"call/duplicate.json": true, "request/own.json": true,
		"envelope/misspelt.json": true, "envelope/bare.json": true, "envelope/unlimited.json": true, "envelope/null.json": true,
	}
	for dir, decode := range map[string]func([]byte) error{
		"call":     func(b []byte) error { _, err := DecodeCall(b); return err },
		"request":  func(b []byte) error { _, err := DecodeRequest(b); return err },
		"envelope": func(b []byte) error { _, err := DecodeEnvelope(b, Default()); return err },
	} {
		for name, data := range seeds(t, dir) {
			if err := decode(data); (err != nil) != bad[dir+"/"+name] {
				t.Errorf("%s/%s: %v", dir, name, err)
			} else if err != nil {
				mended(t, err)
			}
		}
	}
	profile, err := DecodeEnvelope(seeds(t, "envelope")["profile.json"], Default())
	if err != nil || profile.Validate() != nil {
		t.Errorf("%v, %v", err, profile.Validate())
	}
}

// roundTrip holds what was decoded to be what it is when it has been written
// and read again, and what encoding/json, which is lenient, makes of it.
func roundTrip[T any](t *testing.T, data []byte, value T, fresh T, decode func([]byte) (T, error)) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("decoded, and cannot be written: %v", err)
	}
	again, err := decode(text)
	if err != nil {
		t.Fatalf("not its own decoding: %v\n%s", err, text)
	}
	if !reflect.DeepEqual(again, value) {
		t.Fatalf("another value after a round trip:\n%#v\n%#v", value, again)
	}
	if err := json.Unmarshal(data, &fresh); err != nil {
		t.Fatalf("encoding/json does not take it: %v", err)
	}
	lenient, err := json.Marshal(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if again, err = decode(lenient); err != nil && !strings.Contains(err.Error(), "null") || err == nil && !reflect.DeepEqual(again, value) {
		t.Fatalf("encoding/json reads another value, %v:\n%s\n%s", err, text, lenient)
	}
}

// refused holds an error of decoding to its promises.
func refused(t *testing.T, err error, isZero bool) {
	t.Helper()
	var d *DecodeError
	if !errors.As(err, &d) || d.Msg == "" {
		t.Fatalf("the error is no DecodeError: %#v", err)
	}
	if !isZero {
		t.Fatal("an error, and a result that is not zero")
	}
	if strings.ContainsFunc(d.Error()+d.Hint, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Fatalf("the error cannot be shown: %q (%q)", d.Error(), d.Hint)
	}
}

func FuzzDecodeCall(f *testing.F) {
	for _, data := range seeds(f, "call") {
		f.Add(data)
	}
	for _, c := range badCalls() {
		f.Add([]byte(c.doc))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeCall(data)
		if err != nil {
			refused(t, err, reflect.DeepEqual(c, Call{}))
			return
		}
		roundTrip(t, data, c, Call{}, DecodeCall)
		if c.Validate() != nil {
			return
		}
		e := Default()
		if err := e.Admits(&c); err != nil {
			mended(t, err)
		}
		for _, in := range c.Inputs {
			if !filepath.IsLocal(in.Name) {
				t.Fatalf("an input that is not local: %q", in.Name)
			}
		}
		if (len(c.Argv) > 0) == (c.Script != nil) {
			t.Fatal("valid, and not exactly one of argv and script")
		}
	})
}

func FuzzDecodeEnvelope(f *testing.F) {
	for _, data := range seeds(f, "envelope") {
		f.Add(data)
	}
	for _, c := range badEnvelopes() {
		f.Add([]byte(c.doc))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := DecodeEnvelope(data, Default())
		if err != nil {
			refused(t, err, reflect.DeepEqual(e, Envelope{}))
			return
		}
		decode := func(b []byte) (Envelope, error) { return DecodeEnvelope(b, Default()) }
		roundTrip(t, data, e, Default(), decode)
		if err := e.Validate(); err != nil {
			mended(t, err)
			return
		}
		e.Warnings()
		if got, err := Narrow(e, nil); err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("valid, and not its own narrowing: %v", err)
		}
		canonical, err := e.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		back, err := decode(canonical)
		if err != nil || back.Digest() != e.Digest() || !Within(back, e) || !Within(e, back) {
			t.Fatalf("the canonical form means something else: %v\n%s", err, canonical)
		}
	})
}

func FuzzCheckName(f *testing.F) {
	for _, data := range seeds(f, "name") {
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, name string) {
		if err := CheckName(name); err != nil {
			mended(t, err)
			return
		}
		if path.Clean(name) != name || path.IsAbs(name) || !filepath.IsLocal(name) {
			t.Fatalf("%q is not clean and local", name)
		}
		const root = "/root/of/it"
		if joined := path.Join(root, name); !strings.HasPrefix(joined, root+"/") || joined[len(root)+1:] != name {
			t.Fatalf("%q leaves its directory: %q", name, joined)
		}
		if strings.ContainsAny(name, "\x00\n\r\\\u202e\u2028") {
			t.Fatalf("%q has what a name may not have", name)
		}
	})
}

func FuzzParseUnits(f *testing.F) {
	for _, text := range []string{"64Mi", "0B", "64", "30s", "1h30m", "-1s", "1e3s", "16k", "2M", "0.5", "1.", "18446744073709552", "unlimited", "64MB", "1d", "", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		unit(t, text, ParseSize)
		unit(t, text, ParseDuration)
		unit(t, text, ParseCount)
		unit(t, text, ParseCPU)
	})
}

func unit[T quantity](t *testing.T, text string, parse func(string) (T, error)) {
	t.Helper()
	n, err := parse(text)
	if err != nil {
		var v *ValueError
		if !errors.As(err, &v) || n != 0 {
			t.Fatalf("%q: %v, %v", text, n, err)
		}
		return
	}
	if n < 0 {
		t.Fatalf("%q is negative: %d", text, n)
	}
	if again, err := parse(n.String()); err != nil || again != n {
		t.Fatalf("%q: %v, read back as %v, %v", text, n, again, err)
	}
}

func FuzzNarrow(f *testing.F) {
	for _, profile := range seeds(f, "envelope") {
		for _, request := range seeds(f, "request") {
			f.Add(profile, request)
		}
	}
	f.Fuzz(func(t *testing.T, profile, request []byte) {
		p, err := DecodeEnvelope(profile, full())
		if err != nil {
			return
		}
		r, err := DecodeRequest(request)
		if err != nil {
			refused(t, err, reflect.DeepEqual(r, Request{}))
			return
		}
		got, ok := checkNarrow(t, p, &r)
		if !ok {
			return
		}
		if again, err := Narrow(got, &r); err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("not idempotent: %v", err)
		}
	})
}
