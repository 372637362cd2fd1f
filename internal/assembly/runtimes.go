package assembly

import (
	"context"
	"fmt"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/placement"
)

// LevelReport is what one level is on this host.
type LevelReport struct {
	Level     envelope.Level    `json:"level"`              // that is spoken of
	Available bool              `json:"available"`          // whether calls can run at it
	Why       string            `json:"why,omitempty"`      // where not available
	Versions  map[string]string `json:"versions,omitempty"` // of its parts, by name
	// Worth is the strength that an available level really has here, where it
	// is not that of its name; zero where it is.
	Worth    envelope.Level `json:"worth,omitempty"`
	Weakness string         `json:"weakness,omitempty"` // why it is not worth its name
	Features []Feature      `json:"features,omitempty"` // what it enforces
}

// Feature is one ceiling or wall.
type Feature struct {
	Name string `json:"name"`           // of the ceiling or wall
	On   bool   `json:"on"`             // whether it holds here
	Note string `json:"note,omitempty"` // how, or why not
}

// Levels reports every level, weakest first.
func (r *Runtimes) Levels() []LevelReport {
	built := map[envelope.Level]cell.Runtime{}
	for _, rt := range r.list() {
		built[rt.Level()] = rt
	}
	var all []LevelReport
	for _, level := range envelope.Levels() {
		report := LevelReport{Level: level, Why: "not built yet"}
		if rt := built[level]; rt != nil {
			f := rt.Features()
			report.Available, report.Why, report.Versions = f.Available, f.Why, f.Versions
			if worth, why := placement.Worth(level, broker.TraitsOf(f)); f.Available && worth != level {
				report.Worth, report.Weakness = worth, why
			}
			for _, e := range f.Enforced {
				report.Features = append(report.Features, Feature(e))
			}
		}
		all = append(all, report)
	}
	return all
}

// Explain returns what makes up a cell of a level on this host, for people. A
// runtime that has nothing to tell is an error.
func (r *Runtimes) Explain(ctx context.Context, level envelope.Level) (string, error) {
	for _, rt := range r.list() {
		if e, ok := rt.(interface {
			Explain(context.Context) (string, error)
		}); ok && rt.Level() == level {
			return e.Explain(ctx)
		}
	}
	return "", &envelope.Refusal{Reason: envelope.ReasonUnsupported, Message: fmt.Sprintf("level %s is not built yet", level), Hint: "callcell levels says which there are"}
}
