package cli

import (
	"context"
	"slices"
	"time"

	"github.com/callcell/callcell/internal/audit"
)

// followEvery is how often the log is looked at.
const followEvery = 500 * time.Millisecond

// auditTailCmd is "callcell audit tail".
type auditTailCmd struct {
	rowFlags
	Number int  `short:"n" help:"So many of the last calls, up to 1000." default:"10"`
	Follow bool `short:"f" help:"Go on with calls as they end, until interrupted."`
	JSON   bool `name:"json" help:"Print one JSON object a line."`
}

// Help is the long text of "callcell audit tail --help".
func (*auditTailCmd) Help() string {
	return `The last calls, oldest first, as audit list shows them:

  callcell audit tail -f --team red
  callcell audit tail -n 0 -f --json | while read -r row; do ...; done`
}

// Run shows rows.
func (c *auditTailCmd) Run(a *app) error {
	f := c.filter()
	if !c.Follow {
		return c.once(a, f)
	}
	return withLog(a, func(log *audit.Log) error {
		head, err := log.Head(a.ctx)
		if err != nil {
			return err
		}
		shown, err := c.last(a, f, func(f audit.Filter) ([]audit.Row, error) { return log.List(a.ctx, f) })
		if err != nil {
			return err
		}
		ctx, stop := a.interruptible()
		defer stop()
		return c.follow(ctx, a, log, f, head.Seq, shown)
	})
}

// once shows the last rows, and no more.
func (c *auditTailCmd) once(a *app, f audit.Filter) error {
	_, err := c.last(a, f, a.rows)
	return err
}

// last shows the last rows, and returns which of them have ended.
func (c *auditTailCmd) last(a *app, f audit.Filter, list func(audit.Filter) ([]audit.Row, error)) (shown map[string]bool, err error) {
	if c.Number == 0 {
		return nil, nil
	}
	f.Limit = c.Number
	rows, err := list(f)
	if err != nil {
		return nil, err
	}
	shown = map[string]bool{}
	for _, row := range slices.Backward(rows) {
		if !row.Open() {
			shown[row.ID] = true
		}
		if err := a.row(&row, c.JSON); err != nil {
			return nil, err
		}
	}
	return shown, nil
}

// follow shows calls as they end, until ctx does.
func (c *auditTailCmd) follow(ctx context.Context, a *app, log *audit.Log, f audit.Filter, after int64, shown map[string]bool) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		ids, next, err := log.Endings(ctx, after)
		if err != nil {
			return ifRunning(ctx, err)
		}
		for _, id := range ids {
			row, err := log.Row(ctx, id)
			if err != nil {
				return ifRunning(ctx, err)
			}
			if shown[id] || !f.Match(&row) {
				continue
			}
			if err := a.row(&row, c.JSON); err != nil {
				return err
			}
		}
		if next != after { // there may be more
			after = next
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// ifRunning is err, unless ctx has ended: then that is why.
func ifRunning(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
