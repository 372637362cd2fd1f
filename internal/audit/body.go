package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The bounds of what a body holds, in bytes. They are chosen so that every
// body stays below MaxBody.
const (
	maxText     = 4096      // of a free text; longer ones are cut
	maxList     = 64 << 10  // of one list as JSON; longer ones are cut
	maxEnvelope = 256 << 10 // of the envelope as JSON; of a larger one the digest is kept
)

// Cut says what a list has lost.
type Cut struct {
	List string `json:"list"` // the field
	More int    `json:"more"` // entries that are left out
	// SHA256 is the digest of the whole list: each entry as JSON, and a line
	// feed behind it.
	SHA256 string `json:"sha256"`
}

// fit makes the entries of a list fit for a body, as many as there is room
// for, and notes what is left out.
func fit[T any](list []T, entry func(T) T, name string, cuts *[]Cut) ([]T, error) {
	var kept []T
	size, all := 0, sha256.New()
	for i, v := range list {
		v = entry(v)
		text, err := encode(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all.Write(append(text, '\n'))
		if size += len(text) + 1; size <= maxList && len(kept) == i {
			kept = append(kept, v)
		}
	}
	if more := len(list) - len(kept); more > 0 {
		*cuts = append(*cuts, Cut{List: name, More: more, SHA256: digestText(all.Sum(nil))})
	}
	return kept, nil
}

// encodeBody encodes a record.
func encodeBody(v any) (json.RawMessage, error) {
	body, err := encode(v)
	if err == nil && len(body) > MaxBody {
		return nil, fmt.Errorf("%w: a body of %d bytes", ErrTooLarge, len(body))
	}
	return body, err
}

// encode writes the one JSON that this package writes: see the package
// documentation.
func encode(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// decodeBody decodes a body into a record. Members that are unknown are
// skipped: a newer version wrote them.
func decodeBody[T any](e *Event) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(e.Body, v); err != nil {
		return nil, fmt.Errorf("%w: body: %w", ErrMalformed, err)
	}
	return v, nil
}

// A scribe makes records of one call: what is kept of it, and what is taken out
// of every text.
type scribe struct {
	mode   ArgumentMode
	keep   int
	redact func(string) string
}

// scribe returns the scribe of one call. redact is the call's own, and may be
// nil.
func (l *Log) scribe(redact func(string) string) *scribe {
	s := &scribe{mode: l.mode, keep: l.keep, redact: l.redact}
	if redact != nil {
		s.redact = func(text string) string { return redact(l.redact(text)) }
	}
	return s
}

// text makes a free text fit for a body: redacted, valid, bounded.
func (l *scribe) text(s string) string { return clean(l.redact(s), maxText) }

// clean returns s as valid UTF-8 without NUL, of at most most bytes.
func clean(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	return cutText(s, most)
}

// cutText cuts valid text to at most most bytes, between characters.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:max(most, 0)]
}
