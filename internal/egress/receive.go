package egress

import (
	"fmt"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
)

// The bounds of texts, in bytes.
const (
	maxCA   = 16 << 10 // of one certificate
	maxText = 1 << 10  // what is longer is cut
	maxURL  = 4 * envelope.MaxURL
	maxHops = 32
)

// fetching is a fetch whose answer is awaited.
type fetching struct {
	limit int64         // of the body's bytes
	done  chan struct{} // closed when over

	// The following is guarded by the session's mu.
	body     []byte
	bytes    int64 // that came; body has fewer where nobody wants it
	unwanted bool
	over     bool
	answer   envelope.Fetched
	refusal  *envelope.Refusal
}

// receive takes what the process says of the call, until its last word. What is
// out of turn ends the process.
func (s *Session) receive() {
	defer close(s.ended)
	defer s.conn.Close()
	for {
		m, err := receive(s.conn)
		last := false
		if err == nil {
			last, err = s.take(m)
		}
		if err != nil {
			s.p.die(err)
			return
		}
		if last {
			s.finish()
			return
		}
	}
}

// finish makes this a good end, unless the process has died before: what it
// said last may then be anything.
func (s *Session) finish() {
	if s.p.drop(s) {
		s.mu.Lock()
		s.finished = true
		s.mu.Unlock()
	}
}

// take takes one message. last says that nothing comes after it.
func (s *Session) take(m wire.Message) (last bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case (m.Ready != nil || m.Refused != nil) && s.opened:
		return false, fmt.Errorf("%w: it answered Begin twice", errBreach)
	case m.Ready != nil:
		return false, s.ready(m.Ready)
	case m.Refused != nil:
		s.refused = cut(m.Refused.Why)
		return true, nil
	case !s.opened:
		return false, fmt.Errorf("%w: it did not answer Begin", errBreach)
	case m.Dialled != nil:
		return false, s.dialled(*m.Dialled)
	case m.Line != nil:
		return false, s.line(*m.Line)
	case m.Body != nil:
		return false, s.body(m.Body.Data)
	case m.Fetched != nil:
		return false, s.fetched(m.Fetched)
	case m.Done != nil:
		return true, s.done(m.Done)
	}
	return false, fmt.Errorf("%w: it said what the front says", errBreach)
}

// ready takes the good answer to Begin.
func (s *Session) ready(r *wire.Ready) error {
	if len(r.CA) > maxCA {
		return fmt.Errorf("%w: a certificate of %d bytes", errBreach, len(r.CA))
	}
	s.opened, s.ca = true, r.CA
	close(s.begun)
	return nil
}

// The reasons of attempts that were dialled and never got a line.
const (
	whyOpenDied  = "open when the process that carried it died; what went through it is not known"
	whyOpenEnded = "open when the call ended; what went through it is not known"
)

// dialled takes one connection whose line is to come.
func (s *said) dialled(a envelope.Attempt) error {
	if a.Verdict != envelope.VerdictAllowed || a.Requests != 0 || a.Sent != 0 || a.Received != 0 || a.Took != 0 {
		return fmt.Errorf("%w: a connection that cannot be", errBreach)
	}
	if err := s.room(&a); err != nil {
		return err
	}
	a.Why = whyOpenDied // unless a line or Done comes
	s.open = append(s.open, a)
	return nil
}

// line takes one attempt, and the place of the one that was dialled for it.
func (s *said) line(a envelope.Attempt) error {
	host := cut(a.Host)
	i := slices.IndexFunc(s.open, func(o envelope.Attempt) bool { return o.At.Equal(a.At) && o.Host == host && o.Port == a.Port })
	if i >= 0 {
		s.open = slices.Delete(s.open, i, i+1)
	}
	if err := s.room(&a); err != nil {
		return err
	}
	s.seen.Attempts = append(s.seen.Attempts, a)
	return nil
}

// room checks one attempt more and cuts its texts.
func (s *said) room(a *envelope.Attempt) error {
	if len(s.seen.Attempts)+len(s.open) >= envelope.MaxAttempts {
		return fmt.Errorf("%w: more than %d lines", errBreach, envelope.MaxAttempts)
	}
	if !a.Verdict.Valid() || a.Port < 0 || a.Port > 65535 || negative(a.Requests, a.Sent, a.Received, int64(a.Took)) {
		return fmt.Errorf("%w: a line that cannot be", errBreach)
	}
	for _, text := range []*string{&a.Host, &a.Protocol, &a.Why, &a.Address, &a.Blocked, &a.Unchecked} {
		*text = cut(*text)
	}
	return nil
}

// body takes the next piece of a fetched body.
func (s *said) body(data []byte) error {
	get := s.fetch
	if get == nil || get.over {
		return fmt.Errorf("%w: a body that nobody asked for", errBreach)
	}
	get.bytes += int64(len(data))
	if len(data) > wire.MaxBody || get.bytes > get.limit {
		return fmt.Errorf("%w: a body of more than %d bytes, or a piece of more than %d", errBreach, get.limit, wire.MaxBody)
	}
	if !get.unwanted {
		get.body = append(get.body, data...)
	}
	return nil
}

// fetched takes the end of a fetch.
func (s *said) fetched(f *wire.Fetched) error {
	get := s.fetch
	if get == nil || get.over {
		return fmt.Errorf("%w: an answer that nobody asked for", errBreach)
	}
	a := f.Fetched
	long := func(url string) bool { return len(url) > maxURL }
	if len(a.Body) > 0 || long(a.URL) || len(a.Hops) > maxHops || slices.ContainsFunc(a.Hops, long) || a.Status < 0 || a.Status > 999 || negative(a.Bytes, a.WireBytes) {
		return fmt.Errorf("%w: an answer that cannot be", errBreach)
	}
	if r := f.Refused; r != nil {
		if !r.Reason.Valid() || get.bytes > 0 {
			return fmt.Errorf("%w: a refusal that cannot be", errBreach)
		}
		get.refusal = &envelope.Refusal{Reason: r.Reason, Message: cut(r.Message), Field: cut(r.Field), Hint: cut(r.Hint), Retry: r.Retry}
	}
	for _, text := range []*string{&a.Type, &a.Charset, &a.Title, &a.Failure} {
		*text = cut(*text)
	}
	a.Body, a.Untrusted = get.body, true
	get.answer, get.over, get.body = a, true, nil
	if get.refusal != nil {
		get.answer = envelope.Fetched{}
	}
	close(get.done)
	return nil
}

// done takes the end of the call.
func (s *said) done(d *wire.Done) error {
	e := d.Egress
	if !s.asked {
		return fmt.Errorf("%w: it ended a call", errBreach)
	}
	if len(e.Attempts) > 0 || negative(e.More, e.Connections, e.Denied, e.Failed, e.Names, e.Sent, e.Received, e.Masked) {
		return fmt.Errorf("%w: an end that cannot be", errBreach)
	}
	if err := s.takeCounts(d); err != nil {
		return err
	}
	for i := range s.open {
		s.open[i].Why = whyOpenEnded
	}
	e.Attempts, e.Masked, e.Incomplete, s.open = append(s.seen.Attempts, s.open...), 0, false, nil
	for _, n := range s.masked {
		e.Masked += n
	}
	s.seen, s.told = e, true
	return nil
}

func negative(counters ...int64) bool {
	return slices.ContainsFunc(counters, func(n int64) bool { return n < 0 })
}

// cut bounds a text, at a character. A program in the cell may have chosen it,
// so that its length is nobody's breach.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "")
}
