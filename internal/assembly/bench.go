package assembly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/bench"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/placement"
)

// price sets what an empty call costs at each level, as far as it was measured.
// A table that cannot be read prices nothing: costs decide between equally
// strong levels alone.
func price(offers []placement.Offer, state string) {
	table, err := bench.LoadTable(state)
	if err != nil {
		return
	}
	for i := range offers {
		offers[i].Cost = table.Costs[offers[i].Level.String()].Round(time.Microsecond)
	}
}

// Subjects are our own two layers as subjects of a benchmark: each cell on
// its own, and the whole call. env must be one that this host can enforce at
// each level; a level that is not available, or for which there is no image of
// this host yet, is left out.
func (h *House) Subjects(env envelope.Envelope, argv []string) []bench.Subject {
	var subjects []bench.Subject
	for _, rt := range h.runtimes.list() {
		found, err := h.images.index.Find(env.Image, rt.Level())
		if !rt.Features().Available || err != nil {
			continue
		}
		subjects = append(subjects, bench.Subject{
			Name: rt.Level().String() + " cell", What: "create, run, destroy; no row",
			Run: func(ctx context.Context) error { return cellOnce(ctx, rt, env, found.Root, argv) },
		})
	}
	return append(subjects, bench.Subject{
		Name: "callcell.Run", What: "the whole call, with its durable row",
		Run: func(ctx context.Context) error {
			r := h.Broker.Run(ctx, broker.Caller{Name: "local:bench"}, &envelope.Call{Tool: "bench", Argv: argv})
			if r.Refusal != nil {
				return r.Refusal
			}
			if !r.OK() {
				return fmt.Errorf("%s, exit %d", r.Outcome, r.Exit.Code)
			}
			return nil
		},
	})
}

func cellOnce(ctx context.Context, rt cell.Runtime, env envelope.Envelope, root cell.Root, argv []string) (err error) {
	c, err := rt.Open(ctx, cell.Shape{ID: audit.NewID(time.Now()), Envelope: env, Root: root})
	if err != nil {
		return err
	}
	defer func() {
		if report := c.Close(ctx); !report.Complete {
			err = errors.Join(err, fmt.Errorf("teardown: %+v", report.Checks))
		}
	}()
	x, err := c.Exec(ctx, cell.Command{
		Argv: argv, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + cell.WorkDir},
		Stdout: io.Discard, Stderr: io.Discard,
	})
	if err == nil && x.Code != 0 {
		err = fmt.Errorf("exit %d, signal %d, %s", x.Code, x.Signal, x.Cause)
	}
	return err
}
