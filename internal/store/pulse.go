package store

import "context"

// pulseText writes the file's first page, with what it has already: "call", as
// SQLite's application id. An update that changes nothing would write nothing.
const pulseText = "PRAGMA application_id = 1667329132"

// Pulse makes one commit that changes nothing anybody reads, and is durable when
// it returns nil: the store takes writes. Its errors are those of an Update.
func (d *DB) Pulse(ctx context.Context) error {
	return d.submit(ctx, false, func(t *tx) error { return t.w.exec(t.ctx, pulseText) })
}
