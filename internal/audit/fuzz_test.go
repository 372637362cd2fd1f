package audit_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
)

// FuzzDecodeEvent gives the decoder what a hostile store could hold. What it
// takes must go back to the same bytes; what it refuses must leave nothing.
func FuzzDecodeEvent(f *testing.F) {
	m, _, _ := chain(f, 6)
	seeds := events(m)
	if len(seeds) == 0 {
		f.Fatal("no seeds")
	}
	for _, s := range seeds {
		f.Add(s.Chain, s.Seq, s.Kind, s.CallID, s.Instance, s.At, s.Body, s.Prev, s.Hash, s.Salt, s.Commitment, s.Pruned)
		f.Add(s.Chain, s.Seq, s.Kind, s.CallID, s.Instance, s.At, []byte(nil), s.Prev, s.Hash, []byte(nil), s.Commitment, s.Seq+9)
	}
	f.Add("", int64(-1), int64(256), "\x00", "\xff", int64(-1<<63), []byte("{}\n"), []byte{}, make([]byte, 33), []byte{1}, []byte{2}, int64(3))
	f.Fuzz(func(t *testing.T, chain string, seq, kind int64, call, instance string, at int64, body, prev, hash, salt, commitment []byte, pruned int64) {
		s := audit.Stored{Chain: chain, Seq: seq, Kind: kind, CallID: call, Instance: instance, At: at, Body: orNil(body), Prev: prev, Hash: hash,
			Salt: orNil(salt), Commitment: orNil(commitment), Pruned: pruned}
		e, err := audit.DecodeEvent(s)
		if err != nil {
			if !reflect.DeepEqual(e, audit.Event{}) {
				t.Fatalf("an error and %+v", e)
			}
			return
		}
		if back := e.Stored(); !reflect.DeepEqual(back, s) {
			t.Fatalf("%+v went back to %+v", s, back)
		}
		e.Intact()
		if line, err := json.Marshal(e); err != nil || bytes.ContainsRune(line, '\n') {
			t.Fatalf("as a line: %q, %v", line, err)
		}
	})
}

// orNil is what a store has where a column is empty.
func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// FuzzEventBody puts a body into a rightly hashed event of each kind and reads
// the row. Nothing may panic, and what is shown must be what a row can be
// again.
func FuzzEventBody(f *testing.F) {
	m, _, _ := chain(f, 10)
	seeds := events(m)
	if len(seeds) == 0 {
		f.Fatal("no seeds")
	}
	for _, s := range seeds {
		f.Add(byte(s.Kind), []byte(s.Body))
	}
	f.Add(byte(audit.KindLost), []byte(`{"instance":"x","lease":"2027-01-15T08:00:00Z","intent":1}`))
	f.Add(byte(audit.KindRefusal), []byte(`{"task":null,"Task":"x","arguments":{"argv":[null]},"refusal":{"reason":"rate"},"refusal":{}}`))
	f.Add(byte(audit.KindOutcome), []byte(`{"outcome":"","exit":{"code":1e400},"usage":{"wallNs":-1}}`))
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		m := new(storetest.Memory)
		l := newLog(t, m, audit.Options{Clock: newClock()})
		m.Tamper(func(s *storetest.State) {
			forge(s, audit.Kind(kind), callA, string(body))
			s.Entries = map[string]audit.Entry{callA: {ID: callA, Chain: "local", First: 1}}
		})
		if _, err := l.Verify(t.Context(), audit.VerifyOptions{}); err != nil {
			t.Fatal(err)
		}
		rows, err := l.List(t.Context(), audit.Filter{})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		if r := rows[0]; r.Damaged != "" {
			r.Damaged = ""
			if !reflect.DeepEqual(r, audit.Row{ID: callA}) {
				t.Fatalf("a damaged row shows %+v", r)
			}
			return
		}
		checkRow(t, &rows[0])
	})
}

// checkRow wants the row to survive its own JSON, unless its words are outside
// their sets.
func checkRow(t *testing.T, r *audit.Row) {
	t.Helper()
	once, err := json.Marshal(r)
	if err != nil {
		return
	}
	var again audit.Row
	if err := json.Unmarshal(once, &again); err != nil {
		t.Fatalf("%s: %v", once, err)
	}
	twice, err := json.Marshal(again)
	if err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%s\nbecame %s (%v)", once, twice, err)
	}
	if again.Outcome.Valid() && again.Outcome != envelope.OutcomeLost && again.Ending == nil {
		t.Fatalf("an outcome without its ending: %s", once)
	}
}
