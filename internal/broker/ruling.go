package broker

import (
	"encoding/json"
	"reflect"
	"sync"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
)

// A ruling is what follows from a profile and a request alone, whatever the
// call: the envelope in force, and what is shown and recorded of it. Nobody
// changes it.
type ruling struct {
	env      envelope.Envelope
	shown    envelope.Envelope // as result and row show it: without the places of the operator's
	text     json.RawMessage   // shown, as the row has it
	digest   string            // of env
	warnings []string
}

// rule works out a ruling.
func rule(profile envelope.Envelope, request *envelope.Request) (*ruling, error) {
	env, err := envelope.Narrow(profile, request)
	if err != nil {
		return nil, err
	}
	r := &ruling{env: env, shown: env.Redacted(), digest: env.Digest(), warnings: env.Warnings()}
	r.text, _ = audit.EncodeEnvelope(&r.shown) // or the log says why it cannot
	return r, nil
}

// rulings remembers, for each profile, the ruling for calls that narrow nothing,
// which are most: it costs more than all else that comes before a cell. The zero
// value is empty and ready.
type rulings struct {
	mu sync.Mutex // guards what follows
	by map[string]remembered
}

type remembered struct {
	profile envelope.Envelope // a copy
	*ruling
}

// maxRulings bounds what is remembered; more profiles than that are worked out
// for each call.
const maxRulings = 256

// of returns the ruling for a profile of that name.
func (m *rulings) of(name string, profile envelope.Envelope, request *envelope.Request) (*ruling, error) {
	if request != nil {
		return rule(profile, request)
	}
	m.mu.Lock()
	was, ok := m.by[name]
	m.mu.Unlock()
	if ok && reflect.DeepEqual(was.profile, profile) {
		return was.ruling, nil
	}
	r, err := rule(profile, nil)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = map[string]remembered{}
	}
	if ok || len(m.by) < maxRulings {
		m.by[name] = remembered{profile.Clone(), r}
	}
	return r, nil
}
