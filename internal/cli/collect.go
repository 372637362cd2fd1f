package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/callcell/callcell/internal/assembly"
)

// The times of a daemon's collector.
const (
	collectEvery = time.Hour        // at the latest
	collectAfter = 10 * time.Second // once something was let go of, so that more of it can come
	collectTime  = time.Minute      // that it waits for writers
)

// collector removes the bytes of blobs that nothing needs any more.
type collector struct{ wake chan struct{} }

func newCollector() *collector { return &collector{make(chan struct{}, 1)} }

// freed says that there is something to collect. It does not block.
func (c *collector) freed() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run collects until ctx ends.
func (c *collector) run(ctx context.Context, house *assembly.House, log *slog.Logger) {
	for {
		c.collect(ctx, house, log)
		due := time.NewTimer(collectEvery)
		select {
		case <-due.C:
		case <-c.wake:
			due.Reset(collectAfter)
			select {
			case <-due.C:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		due.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

func (*collector) collect(ctx context.Context, house *assembly.House, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	report, err := house.Workspaces.GC(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		log.Error("blobs could not be collected", "error", flat(err))
	case report.Blobs > 0:
		log.Info("blobs collected", "blobs", report.Blobs, "bytes", report.Bytes, "kept", report.Kept)
	}
}
