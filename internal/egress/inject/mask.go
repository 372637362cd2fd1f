package inject

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/callcell/callcell/internal/credential/redact"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/egress/wire"
)

// mask is the Redactors of a Set, one behind the other: one alone does not
// take as many values as there can be.
type mask struct {
	parts   []*redact.Redactor
	tallies map[string]*tally
}

// build makes the Redactors of all values. Those that follow from a secret are
// copies, and end here; where one cannot be looked for, it is left out.
func (m *mask) build(list []wire.Credential, tallies map[string]*tally) error {
	m.tallies = tallies
	var values, more []redact.Value
	for _, c := range list {
		values = append(values, redact.Value{Name: c.Name, Secret: c.Secret})
		for _, one := range derived(c) {
			more = append(more, redact.Value{Name: c.Name, Secret: one})
		}
	}
	defer func() {
		for _, v := range more {
			v.Secret.Destroy()
		}
	}()
	values = append(values, slices.DeleteFunc(slices.Clone(more), func(v redact.Value) bool {
		alone, err := redact.New([]redact.Value{v})
		if err == nil {
			alone.Destroy()
		}
		return err != nil
	})...)
	for len(values) > 0 {
		n := fitting(values)
		part, err := redact.New(values[:n])
		if err != nil {
			return err
		}
		m.parts, values = append(m.parts, part), values[n:]
	}
	return nil
}

// fitting returns how many of values one Redactor takes.
func fitting(values []redact.Value) (n int) {
	total := 0
	for n < min(len(values), redact.MaxValues) {
		if total += values[n].Secret.Len(); n > 0 && total > redact.MaxTotal {
			break
		}
		n++
	}
	return n
}

// derived returns what else is a value of a credential: what its header says,
// and of Basic what is encoded there and the password in that.
func derived(c wire.Credential) (out []secret.Secret) {
	c.Secret.Reveal(func(value []byte) {
		before, after, _ := strings.Cut(c.Format, "{}")
		whole := make([]byte, 0, len(c.Format)+len(value))
		defer func() { clear(whole) }()
		whole = append(append(append(whole, before...), value...), after...)
		if len(whole) > len(value) {
			out = appendCopy(out, whole)
		}
		const basic = "basic "
		if len(whole) <= len(basic) || !strings.EqualFold(string(whole[:len(basic)]), basic) {
			return
		}
		text := bytes.TrimRight(bytes.TrimSpace(whole[len(basic):]), "=")
		pair := make([]byte, base64.RawStdEncoding.DecodedLen(len(text)))
		defer clear(pair)
		n, err := base64.RawStdEncoding.Decode(pair, text)
		if err != nil {
			return
		}
		out = appendCopy(out, pair[:n])
		if _, password, found := bytes.Cut(pair[:n], []byte(":")); found && !redact.Ordinary(password) {
			out = appendCopy(out, password)
		}
	})
	return out
}

func appendCopy(list []secret.Secret, value []byte) []secret.Secret {
	one, err := secret.New(bytes.Clone(value))
	if err != nil {
		return list // of no bytes, or there is no memory: then New fails too
	}
	return append(list, one)
}

func (m *mask) destroy() {
	for _, part := range m.parts {
		part.Destroy()
	}
}

func (m *mask) count(counts redact.Counts) {
	for name, n := range counts {
		m.tallies[name].masked.Add(int64(n))
	}
}

// Text returns text with values masked.
func (s *Set) Text(text string) string {
	if s == nil {
		return text
	}
	for _, part := range s.mask.parts {
		masked, counts := part.String(text)
		s.mask.count(counts)
		text = masked
	}
	return text
}

// Start returns a text that was cut at its end with values masked: what may be
// the beginning of one there is left out.
func (s *Set) Start(text string) string {
	if s == nil {
		return text
	}
	var out strings.Builder
	w := s.Writer(&out)
	_, _ = io.WriteString(w, text) // out does not fail; where the Set is gone nothing is written
	w.Abandon()
	return out.String()
}

// Header masks the values of h, in place, and drops what has one in its name.
func (s *Set) Header(h http.Header) {
	if s == nil {
		return
	}
	for name, values := range h {
		if s.Text(name) != name {
			delete(h, name)
			continue
		}
		for i, value := range values {
			values[i] = s.Text(value)
		}
	}
}

// Writer masks a stream on its way to another writer. It is for one goroutine.
type Writer struct {
	mask  *mask
	chain []*redact.Writer // in the order in which they are written to
	out   *outlet
	done  bool
	n     int // masks
}

// outlet can be closed to what comes.
type outlet struct {
	to     io.Writer
	closed bool
}

func (o *outlet) Write(p []byte) (int, error) {
	if o.closed {
		return len(p), nil
	}
	return o.to.Write(p)
}

// Writer returns a Writer to w. The caller ends it, by Close or Abandon.
func (s *Set) Writer(w io.Writer) *Writer {
	m := &Writer{mask: &s.mask, out: &outlet{to: w}}
	var next io.Writer = m.out
	for _, part := range slices.Backward(s.mask.parts) {
		one := part.Writer(next)
		m.chain, next = append(m.chain, one), one
	}
	slices.Reverse(m.chain)
	return m
}

// Write masks p and writes what can be written. What may be the beginning of a
// value is held back. An error is that of the other writer, or says that the
// Set was destroyed.
func (w *Writer) Write(p []byte) (int, error) {
	if len(w.chain) == 0 {
		return w.out.Write(p)
	}
	return w.chain[0].Write(p)
}

// Close writes what was held back, at the end of a whole text.
func (w *Writer) Close() error {
	if w.done {
		return nil
	}
	w.done = true
	var first error
	for _, one := range w.chain {
		if err := one.Close(); err != nil && first == nil {
			first = err
		}
		counts := one.Counts()
		w.mask.count(counts)
		w.n += counts.Total()
	}
	return first
}

// Masked returns how many masks were written, after the end.
func (w *Writer) Masked() int { return w.n }

// Abandon drops what was held back: more would have come, and it may be a part
// of a value.
func (w *Writer) Abandon() {
	w.out.closed = true
	_ = w.Close() // nothing is written any more
}
