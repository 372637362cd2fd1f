package audit_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/callcell/callcell/internal/audit"
)

func hash(t testing.TB, text string) audit.Hash {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 32 {
		t.Fatal(text, err)
	}
	return audit.Hash(raw)
}

// second returns an event of version 2.
func second(t testing.TB) audit.Event {
	commitment := hash(t, "cdc862db82c110ed6171794d3aefb3245deb439b3f4c5785366bee4878808b9c")
	return audit.Event{
		Chain: "local", Seq: 1, Kind: audit.KindIntent, CallID: callA, Instance: instanceA,
		At: time.Unix(0, 1800000000123456789).UTC(), Body: []byte(`{"task":"t"}`),
		Salt: []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, Commitment: &commitment,
		Hash: hash(t, "e5c2cc0f82621d328968681d6cc83c47b1176ad723100b8a6ea90e2662898f4b"),
	}
}

// TestGoldenHashesOfVersion2 pins the encoding that the package documentation
// lays out. The values were computed by another program, from that text.
func TestGoldenHashesOfVersion2(t *testing.T) {
	e := second(t)
	if !e.Intact() {
		t.Errorf("hash %s", e.Sum())
	}
	e.Body, e.Salt, e.Pruned = nil, nil, 9
	if !e.Intact() || !e.Erased() {
		t.Error("without its body it is another event")
	}
	next := audit.Event{Chain: "local", Seq: 2, Kind: audit.KindCheckpoint, Instance: instanceA, At: time.Unix(1800000001, 0).UTC(),
		Body: []byte(`{}`), Salt: []byte{15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, Prev: e.Hash}
	for _, commitment := range []audit.Hash{{}, *e.Commitment} {
		next.Commitment = &commitment
		if next.Hash = next.Sum(); next.Intact() {
			t.Error("a commitment to another body is taken")
		}
	}
	commitment := hash(t, "6fd3981106a6ae61d7197de2d8f63cf468521d1ee4fe92a3c1df10b1b557620d")
	next.Commitment, next.Hash = &commitment, hash(t, "250f31be9ce2846f86f8c22fcc3ec5bb07ad529901c1e4b5343892fd4201978d")
	if !next.Intact() {
		t.Errorf("hash of the second event: %s", next.Sum())
	}
	good := audit.Event{Chain: "local", Kind: audit.KindCheckpoint, Instance: instanceA, At: next.At, Body: []byte(`{}`)}
	good.Link(audit.Head{Seq: 1, Hash: e.Hash})
	if good.Seq != 2 || good.Prev != e.Hash || !good.Intact() || len(good.Salt) != 16 {
		t.Errorf("%+v", good)
	}
}

// TestSaltsDiffer: equal bodies cannot be told by their commitments.
func TestSaltsDiffer(t *testing.T) {
	seen := map[audit.Hash]bool{}
	for range 100 {
		e := second(t)
		e.Link(audit.Head{})
		if seen[*e.Commitment] || seen[e.Hash] {
			t.Fatal("two events of one body have the same commitment")
		}
		seen[*e.Commitment], seen[e.Hash] = true, true
	}
}

// TestEveryBitOfVersion2Counts flips any bit of an event, with its body and
// without.
func TestEveryBitOfVersion2Counts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := second(t)
		fields := []string{"seq", "kind", "at", "call", "instance", "chain", "prev", "commitment", "body", "salt"}
		if rapid.Bool().Draw(rt, "erased") {
			e.Body, e.Salt, e.Pruned = nil, nil, 7
			fields = fields[:8]
		}
		bit := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "bit") }
		flip := func(b []byte) { i := bit(8 * len(b)); b[i/8] ^= 1 << (i % 8) }
		text := func(s *string) { b := []byte(*s); flip(b); *s = string(b) }
		switch rapid.SampledFrom(fields).Draw(rt, "field") {
		case "seq":
			e.Seq ^= 1 << bit(63)
		case "kind":
			e.Kind ^= 1 << bit(8)
		case "at":
			e.At = e.At.Add(1 << bit(62))
		case "call":
			text(&e.CallID)
		case "instance":
			text(&e.Instance)
		case "chain":
			text(&e.Chain)
		case "prev":
			flip(e.Prev[:])
		case "commitment":
			flip(e.Commitment[:])
		case "body":
			e.Body = bytes.Clone(e.Body)
			flip(e.Body)
		case "salt":
			e.Salt = slices.Clone(e.Salt)
			flip(e.Salt)
		}
		if e.Intact() {
			rt.Fatalf("taken: %+v", e)
		}
	})
}

func TestDecodeVersion2(t *testing.T) {
	good := second(t)
	erased := good
	erased.Body, erased.Salt, erased.Pruned = nil, nil, 9
	for _, e := range []audit.Event{good, erased} {
		if got, err := audit.DecodeEvent(e.Stored()); err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%+v (%v), want %+v", got, err, e)
		}
	}
	for name, change := range map[string]func(*audit.Stored){
		"no salt":                     func(s *audit.Stored) { s.Salt = nil },
		"short salt":                  func(s *audit.Stored) { s.Salt = s.Salt[1:] },
		"short commitment":            func(s *audit.Stored) { s.Commitment = s.Commitment[1:] },
		"a salt and no commitment":    func(s *audit.Stored) { s.Commitment = nil },
		"pruned, with a body":         func(s *audit.Stored) { s.Pruned = 9 },
		"no body, and pruned by none": func(s *audit.Stored) { s.Body, s.Salt = nil, nil },
		"pruned by itself":            func(s *audit.Stored) { s.Body, s.Salt, s.Pruned = nil, nil, 1 },
		"no body, a salt":             func(s *audit.Stored) { s.Body, s.Pruned = nil, 9 },
	} {
		s := good.Stored()
		change(&s)
		if got, err := audit.DecodeEvent(s); !errors.Is(err, audit.ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
