package egress

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
)

// FuzzTake lets a process say anything, a message a line. Whatever it says,
// what is kept is bounded and can be, and what is out of turn is an error.
func FuzzTake(f *testing.F) {
	for _, seed := range []([]wire.Message){
		{ready("ca"), line("a.test", 443, envelope.VerdictAllowed), body("x"), fetched("u"), done()},
		{{Refused: &wire.Refused{Why: "no"}}},
		{ready(""), {Fetched: &wire.Fetched{Refused: &envelope.Refusal{Reason: envelope.ReasonPolicy, Message: "m"}}}, done()},
		{ready(""), body("x"), body("y"), line("b.test", 0, envelope.VerdictDenied)},
	} {
		var all []byte
		for _, m := range seed {
			b, err := wire.Encode(m)
			if err != nil {
				f.Fatal(err)
			}
			all = append(append(all, b...), '\n')
		}
		f.Add(all)
	}
	f.Fuzz(func(t *testing.T, all []byte) {
		const limit = 100
		s := &Session{begun: make(chan struct{})}
		get := &fetching{limit: limit, done: make(chan struct{})}
		s.asked, s.fetch = true, get
		ended := false
		for b := range bytes.SplitSeq(all, []byte("\n")) {
			m, err := wire.Decode(b)
			if err != nil {
				continue
			}
			last, err := s.take(m)
			if last || err != nil {
				ended = true
				break
			}
		}
		kept(t, s)
		if get.over && (len(get.answer.Body) > limit || !get.answer.Untrusted == (get.refusal == nil)) {
			t.Fatalf("%+v, %+v", get.answer, get.refusal)
		}
		if s.told && !ended {
			t.Fatal("it goes on after Done")
		}
	})
}

// kept checks what is kept of a process's words.
func kept(t *testing.T, s *Session) {
	t.Helper()
	e := s.seen
	if negative(e.More, e.Connections, e.Denied, e.Failed, e.Names, e.Sent, e.Received) || len(e.Attempts) > envelope.MaxAttempts || len(s.ca) > maxCA {
		t.Fatalf("%+v", e)
	}
	for _, a := range e.Attempts {
		for _, text := range []string{a.Host, a.Protocol, a.Why, a.Address, a.Unchecked} {
			if len(text) > maxText || !utf8.ValidString(text) {
				t.Fatalf("%+v", a)
			}
		}
		if !a.Verdict.Valid() || negative(a.Sent, a.Received, a.Requests, int64(a.Took)) {
			t.Fatalf("%+v", a)
		}
	}
}
