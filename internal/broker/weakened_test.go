package broker_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
)

// A weakRuntime is one of a level whose network is the host's.
type weakRuntime struct{ cell.Runtime }

func (weakRuntime) Level() envelope.Level { return envelope.LevelUserKernel }

func (r weakRuntime) Features() cell.Features {
	f := r.Runtime.Features()
	f.HostNetwork = true
	return f
}

// TestAWeakerLevelIsLoud: a level that an operator has weakened is had by name
// alone, by code that a container would do for, and result and row say so.
func TestAWeakerLevelIsLoud(t *testing.T) {
	s := newStand(t, func(c *broker.Config) { c.Runtimes = []cell.Runtime{weakRuntime{c.Runtimes[0]}} })
	call := &envelope.Call{Argv: []string{"/bin/print", "hi"}}
	for _, trust := range []envelope.Trust{envelope.TrustReviewed, envelope.TrustModel, envelope.TrustThirdParty} {
		s.profile.Level, s.profile.Trust = envelope.LevelAuto, trust
		if r := s.run(context.Background(), call); r.Refusal == nil || r.Refusal.Reason != envelope.ReasonIsolation {
			t.Errorf("auto of %s: %+v", trust, r.Refusal)
		}
		s.profile.Level = envelope.LevelUserKernel
		r := s.run(context.Background(), call)
		if trust != envelope.TrustReviewed {
			if r.Refusal == nil || r.Refusal.Reason != envelope.ReasonIsolation || !strings.Contains(r.Refusal.Message, "no more than container") {
				t.Errorf("by name of %s: %+v", trust, r.Refusal)
			}
			continue
		}
		loud := func(w string) bool {
			return strings.HasPrefix(w, "level: userkernel is worth no more than container here: its network")
		}
		if r.Refusal != nil || !slices.ContainsFunc(r.Warnings, loud) || !slices.ContainsFunc(s.intents[r.ID].Warnings, loud) ||
			!strings.Contains(strings.Join(r.Why, "\n"), "It is worth no more than container here") {
			t.Errorf("%+v, warnings %q, why %q", r.Refusal, r.Warnings, r.Why)
		}
	}
}
