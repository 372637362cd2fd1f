package audit_test

import (
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/audit"
)

const (
	callA     = "01990000-0000-7000-8000-000000000001"
	instanceA = "01990000-0000-7000-8000-0000000000aa"
)

// TestGoldenHashes pins the encoding that the package documentation lays out.
// The values were computed by another program, from that text.
func TestGoldenHashes(t *testing.T) {
	first := audit.Event{
		Chain: "local", Seq: 1, Kind: audit.KindIntent, CallID: callA, Instance: instanceA,
		At: time.Unix(0, 1800000000123456789).UTC(), Body: []byte(`{"task":"t"}`),
	}
	first.Hash = first.Sum()
	if got, want := first.Hash.String(), "5d2c61eeee86ea654b5fe82965fcc68ecc6b971f5c9dd71ba079edc7bd5a78f5"; got != want {
		t.Errorf("hash of the first event: %s, want %s", got, want)
	}
	second := audit.Event{
		Chain: "local", Seq: 2, Kind: audit.KindOutcome, CallID: callA, Instance: instanceA,
		At: time.Unix(1800000001, 0).UTC(), Body: []byte(`{"outcome":"completed","note":"é\n"}`), Prev: first.Hash,
	}
	if got, want := second.Sum().String(), "1445efefca9b8351ff7b8a2bc0bc74b386fb58e6b073cdec9bcfc05d1b4624f8"; got != want {
		t.Errorf("hash of the second event: %s, want %s", got, want)
	}
}

// TestEveryFieldIsHashed changes one field at a time.
func TestEveryFieldIsHashed(t *testing.T) {
	base := audit.Event{
		Chain: "local", Seq: 3, Kind: audit.KindOutcome, CallID: callA, Instance: instanceA,
		At: time.Unix(1800000001, 5).UTC(), Body: []byte(`{}`), Prev: audit.Hash{1},
	}
	seen := map[audit.Hash]string{base.Sum(): "as it was"}
	for name, change := range map[string]func(*audit.Event){
		"chain":    func(e *audit.Event) { e.Chain = "loca" },
		"seq":      func(e *audit.Event) { e.Seq++ },
		"kind":     func(e *audit.Event) { e.Kind = audit.KindLost },
		"call":     func(e *audit.Event) { e.CallID = instanceA },
		"instance": func(e *audit.Event) { e.Instance = callA },
		"at":       func(e *audit.Event) { e.At = e.At.Add(1) },
		"body":     func(e *audit.Event) { e.Body = []byte(`{"a":1}`) },
		"prev":     func(e *audit.Event) { e.Prev[31] = 1 },
		"border":   func(e *audit.Event) { e.CallID, e.Instance = callA+"0", instanceA[1:] },
	} {
		e := base
		change(&e)
		if other, ok := seen[e.Sum()]; ok {
			t.Errorf("%s: the same hash as %s", name, other)
		}
		seen[e.Sum()] = name
	}
}

func TestDecodeEventRefuses(t *testing.T) {
	good := audit.Event{
		Chain: "local", Seq: 3, Kind: audit.KindOutcome, CallID: callA, Instance: instanceA,
		At: time.Unix(1800000001, 5).UTC(), Body: []byte(`{"a":[1,"\n"]}`), Prev: audit.Hash{1},
	}
	if got, err := audit.DecodeEvent(good.Stored()); err != nil || !reflect.DeepEqual(got, good) {
		t.Fatalf("%+v (%v), want %+v", got, err, good)
	}
	for name, change := range map[string]func(*audit.Stored){
		"no chain":                func(s *audit.Stored) { s.Chain = "" },
		"long chain":              func(s *audit.Stored) { s.Chain = strings.Repeat("x", 129) },
		"seq 0":                   func(s *audit.Stored) { s.Seq = 0 },
		"negative seq":            func(s *audit.Stored) { s.Seq = -1 },
		"kind 0":                  func(s *audit.Stored) { s.Kind = 0 },
		"kind to come":            func(s *audit.Stored) { s.Kind = 8 },
		"a call's id and no call": func(s *audit.Stored) { s.Kind = 6 },
		"kind beyond byte":        func(s *audit.Stored) { s.Kind = 257 },
		"no call":                 func(s *audit.Stored) { s.CallID = "" },
		"capitals":                func(s *audit.Stored) { s.CallID = strings.ToUpper("01990000-0000-7000-8000-00000000000a") },
		"version 4":               func(s *audit.Stored) { s.CallID = "01990000-0000-4000-8000-000000000001" },
		"other variant":           func(s *audit.Stored) { s.CallID = "01990000-0000-7000-c000-000000000001" },
		"no instance":             func(s *audit.Stored) { s.Instance = "" },
		"not UTF-8":               func(s *audit.Stored) { s.Instance = "\xff" },
		"short hash":              func(s *audit.Stored) { s.Hash = s.Hash[1:] },
		"long link":               func(s *audit.Stored) { s.Prev = append(s.Prev, 0) },
		"no body":                 func(s *audit.Stored) { s.Body = nil },
		"a list":                  func(s *audit.Stored) { s.Body = []byte(`[]`) },
		"half a body":             func(s *audit.Stored) { s.Body = []byte(`{"a":}`) },
		"two bodies":              func(s *audit.Stored) { s.Body = []byte(`{}{}`) },
		"two lines":               func(s *audit.Stored) { s.Body = []byte("{\n}") },
		"bad text":                func(s *audit.Stored) { s.Body = []byte("{\"a\":\"\xff\"}") },
		"too large":               func(s *audit.Stored) { s.Body = []byte(`{"a":"` + strings.Repeat("x", audit.MaxBody) + `"}`) },
	} {
		s := good.Stored()
		change(&s)
		if got, err := audit.DecodeEvent(s); !errors.Is(err, audit.ErrMalformed) || !reflect.DeepEqual(got, audit.Event{}) {
			t.Errorf("%s: %+v, %v; want nothing and ErrMalformed", name, got, err)
		}
	}
}

func TestKinds(t *testing.T) {
	for k, word := range map[audit.Kind]string{1: "intent", 2: "outcome", 3: "refusal", 4: "lost", 5: "prune", 6: "checkpoint", 7: "counter"} {
		text, err := k.MarshalText()
		if err != nil || string(text) != word || !k.Valid() || k.Ends() != (k != audit.KindIntent && k.OfCall()) {
			t.Errorf("kind %d: %s, %v", k, text, err)
		}
	}
	for _, k := range []audit.Kind{0, 8, 255} {
		if _, err := k.MarshalText(); !errors.Is(err, audit.ErrInvalid) || k.Valid() || k.Ends() {
			t.Errorf("kind %d is taken for one", k)
		}
	}
}

func TestNewID(t *testing.T) {
	at := time.UnixMilli(0x0199_0000_0000).Add(999 * time.Microsecond)
	id := audit.NewID(at)
	if !strings.HasPrefix(id, "01990000-0000-7ff") || len(id) != 36 || !strings.ContainsRune("89ab", rune(id[19])) {
		t.Errorf("id %s", id)
	}
	last := ""
	for i := range 1000 {
		id := audit.NewID(at.Add(time.Duration(i) * time.Microsecond))
		if id <= last {
			t.Fatalf("%s does not sort after %s", id, last)
		}
		last = id
	}
	if a, b := audit.NewID(at), audit.NewID(at); a == b {
		t.Errorf("the same id twice: %s", a)
	}
	if _, err := hex.DecodeString(strings.ReplaceAll(id, "-", "")); err != nil {
		t.Error(err)
	}
}
