package broker_test

import (
	"context"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest/fake"
)

// BenchmarkRun is what the main path itself costs: the cell is in memory and
// the rows go nowhere.
func BenchmarkRun(b *testing.B) {
	profile := envelope.Default()
	profile.Trust = envelope.TrustReviewed
	br, err := broker.New(broker.Config{
		Recorder: nowhere{}, Profiles: one{profile},
		Runtimes: []cell.Runtime{fake.New(envelope.LevelContainer, nil)},
	})
	if err != nil {
		b.Fatal(err)
	}
	call := argv("/bin/print", "x")
	b.ReportAllocs()
	for b.Loop() {
		if r := br.Run(b.Context(), caller(), call); r.Outcome != envelope.OutcomeCompleted {
			b.Fatal(r.Refusal)
		}
	}
}

type one struct{ envelope.Envelope }

func (o one) Lookup(string) (envelope.Envelope, error) { return o.Envelope, nil }

type nowhere struct{ broker.Recorder }

func (nowhere) Intend(_ context.Context, _ audit.Intent) error { return nil }
func (nowhere) Complete(_ context.Context, _ audit.Ending) (envelope.Receipt, error) {
	return envelope.Receipt{}, nil
}
