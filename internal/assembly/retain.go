package assembly

import (
	"context"
	"fmt"
	"time"

	"github.com/callcell/callcell/internal/audit"
)

// retainEvery is how often a daemon looks for rows that are old enough to go.
const retainEvery = time.Hour

// Retain erases the rows of calls that are older than they are to be kept: at
// once, and then every hour, until ctx ends. age says for how long a team's are
// kept, "" being the calls of no team; 0: for ever. say is told, from the
// goroutine that called Retain, how many went, and what failed; that is tried
// again an hour later.
func (h *House) Retain(ctx context.Context, age func(team string) time.Duration, say func(string)) {
	tick := time.NewTicker(retainEvery)
	defer tick.Stop()
	h.retain(ctx, tick.C, age, say)
}

func (h *House) retain(ctx context.Context, tick <-chan time.Time, age func(team string) time.Duration, say func(string)) {
	for {
		report, err := h.Log.Prune(ctx, audit.Retention{Age: age, By: "retention"})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			say("rows that are too old could not all be erased: " + err.Error())
		}
		if report.Calls > 0 {
			say(fmt.Sprintf("%d rows were older than they are kept, and are erased", report.Calls))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}
