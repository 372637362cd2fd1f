package envelope

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Every field is in the digest: two envelopes that differ in one leaf differ
// in it, and so do all of them among each other.
func TestDigestSeesEveryField(t *testing.T) {
	e := full()
	seen := map[string]string{e.Digest(): "the envelope itself"}
	all := mutants(e)
	if len(all) < 60 {
		t.Fatalf("only %d leaves were changed", len(all))
	}
	for _, m := range all {
		d := m.env.Digest()
		if d == "" {
			t.Fatalf("%s: no digest", m.path)
		}
		if other, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", m.path, other)
		}
		seen[d] = m.path
	}
	for name, change := range map[string]func(*Envelope){
		"a mount less":      func(e *Envelope) { delete(e.Files.Mounts, "data") },
		"a credential less": func(e *Envelope) { delete(e.Credentials, "old") },
		"a host less":       func(e *Envelope) { e.Network.Allow = e.Network.Allow[:2] },
		"a name less":       func(e *Envelope) { e.Environment = e.Environment[:1] },
		"a range less":      func(e *Envelope) { e.Network.Private = nil },
		"a scope less":      func(e *Envelope) { changeCredential(e, func(c *Credential) { c.Scopes = c.Scopes[:1] }) },
	} {
		c := e.Clone()
		change(&c)
		if _, ok := seen[c.Digest()]; ok {
			t.Errorf("%s: the digest is another's", name)
		}
	}
}

func changeCredential(e *Envelope, change func(*Credential)) {
	c := e.Credentials["gh"]
	change(&c)
	e.Credentials["gh"] = c
}

func TestDigestOfOneMeaning(t *testing.T) {
	want := full()
	for name, change := range map[string]func(*Envelope){
		"environment": func(e *Envelope) { e.Environment = []string{"TZ", "LANG"} },
		"allow":       func(e *Envelope) { e.Network.Allow[0], e.Network.Allow[2] = e.Network.Allow[2], e.Network.Allow[0] },
		"ports":       func(e *Envelope) { e.Network.Allow[0].Ports = []int{8443, 443} },
		"protocol":    func(e *Envelope) { e.Network.Allow[1].Protocol = "" },
		"scopes":      func(e *Envelope) { changeCredential(e, func(c *Credential) { c.Scopes = []string{"write", "read"} }) },
		"methods": func(e *Envelope) {
			changeCredential(e, func(c *Credential) { c.Use.Methods = []string{"HEAD", "GET"} })
		},
		"header":       func(e *Envelope) { changeCredential(e, func(c *Credential) { c.Use.Header = "AUTHORIZATION" }) },
		"split entry":  func(e *Envelope) { splitFirst(e) },
		"nil lists":    func(e *Envelope) { *e = shallow(*e) },
		"empty scopes": func(e *Envelope) { e.Credentials["old"] = withScopes(e.Credentials["old"], []string{}) },
	} {
		e := full()
		change(&e)
		if e.Digest() != want.Digest() {
			t.Errorf("%s: another digest for the same meaning", name)
		}
		if !Within(e, want) || !Within(want, e) {
			t.Errorf("%s: not the same in the order", name)
		}
	}
	none, empty := Default(), Default()
	none.Files.Mounts, none.Network.Allow, none.Environment, none.Credentials, none.Network.Private = nil, nil, nil, nil, nil
	if none.Digest() != empty.Digest() {
		t.Error("nil and empty have different digests")
	}
}

func shallow(e Envelope) Envelope { return e }

func withScopes(c Credential, scopes []string) Credential { c.Scopes = scopes; return c }

func splitFirst(e *Envelope) {
	a, b := e.Network.Allow[0], e.Network.Allow[0]
	a.Ports, b.Ports = []int{443}, []int{8443}
	e.Network.Allow = append([]Allow{b, a}, e.Network.Allow[1:]...)
}

func TestCanonicalIsAnEnvelope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEnvelope(t)
		data, err := e.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeEnvelope(data, Default())
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if back.Digest() != e.Digest() || back.Validate() != nil {
			t.Fatalf("the canonical form means something else: %v\n%s", back.Validate(), data)
		}
		if again, _ := back.Canonical(); string(again) != string(data) {
			t.Fatalf("not a fixed point:\n%s\n%s", data, again)
		}
		if !Within(back, e) || !Within(e, back) {
			t.Fatal("the canonical form is not the same in the order")
		}
	})
}

func TestDigestLeavesTheEnvelope(t *testing.T) {
	e := full()
	e.Environment = []string{"TZ", "LANG"}
	before := e.Clone()
	e.Digest()
	if !reflect.DeepEqual(e, before) {
		t.Error("Digest changed the envelope")
	}
}

func TestDigestOfWhatCannotBeWritten(t *testing.T) {
	for name, change := range map[string]func(*Envelope){
		"level":    func(e *Envelope) { e.Level = 0 },
		"trust":    func(e *Envelope) { e.Trust = 77 },
		"negative": func(e *Envelope) { e.Files.Scratch = -1 },
	} {
		e := full()
		change(&e)
		if _, err := e.Canonical(); err == nil || e.Digest() != "" {
			t.Errorf("%s: a digest of what is not an envelope", name)
		}
	}
}

// The canonical texts are kept: a digest in an old row has to mean the same
// for ever.
func TestCanonicalGolden(t *testing.T) {
	for name, e := range map[string]Envelope{"default": Default(), "full": full()} {
		want, err := os.ReadFile(filepath.Join("testdata", "canonical", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != strings.TrimSuffix(string(want), "\n") {
			t.Errorf("%s: the canonical form has changed:\n%s\n%s", name, got, want)
		}
	}
	if got := Digest([]byte("abc")); got != "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Error(got)
	}
}
