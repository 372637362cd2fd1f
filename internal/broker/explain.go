package broker

import (
	"context"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/placement"
)

// Explanation is what Run would do with a call, as far as that can be told
// without doing it.
type Explanation struct {
	Refusal        *envelope.Refusal  `json:"refusal,omitempty"`        // why it would be refused
	Level          envelope.Level     `json:"level,omitzero"`           // that would run it; zero where refused
	Why            []string           `json:"why,omitempty"`            // a reason for each level, as in the row
	Needs          []envelope.Need    `json:"needs,omitempty"`          // that were derived, and that the call declared
	Floor          envelope.Level     `json:"floor,omitzero"`           // the strength that is required
	FloorWhy       string             `json:"floorWhy,omitempty"`       // why so strong
	Levels         []LevelVerdict     `json:"levels,omitempty"`         // what speaks for and against each
	Cheaper        []string           `json:"cheaper,omitempty"`        // what would have to change for a cheaper level, a line each
	Warnings       []string           `json:"warnings,omitempty"`       // what of the envelope widens the surface
	Envelope       *envelope.Envelope `json:"envelope,omitempty"`       // that would be in force
	EnvelopeDigest string             `json:"envelopeDigest,omitempty"` // of it, its sources included, sha256:HEX
	Argv           []string           `json:"argv,omitempty"`           // what would be started
	Env            []string           `json:"env,omitempty"`            // NAME=value
	Files          []string           `json:"files,omitempty"`          // names that would be put into the working directory
}

// LevelVerdict is what is to be said of one level for one call.
type LevelVerdict = placement.Verdict

// Explain does the steps admit and decide and no other: nothing runs, nothing
// is built, and there is no row. It may be called concurrently.
func (b *Broker) Explain(ctx context.Context, who Caller, call *envelope.Call) *Explanation {
	f := b.begin(who, call)
	for _, s := range []step{{"admit", b.admit}, {"decide", b.decide}} {
		if err := b.guard(f, s.name, func() error { return s.do(ctx, f) }); err != nil {
			f.fail(ctx, s.name, err)
			break
		}
	}
	r := f.result
	e := &Explanation{
		Refusal: r.Refusal, Level: r.Level, Why: r.Why, Warnings: r.Warnings,
		Needs: f.needs, Floor: f.placed.Floor, FloorWhy: f.placed.FloorWhy, Levels: f.placed.Levels, Cheaper: f.placed.Cheaper,
		Envelope: r.Envelope, EnvelopeDigest: r.EnvelopeDigest, Argv: f.cmd.Argv, Env: f.cmd.Env,
	}
	if e.Refusal != nil {
		e.Level = 0
	}
	for _, file := range f.files {
		e.Files = append(e.Files, file.Name)
	}
	return e
}
