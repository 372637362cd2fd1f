package assembly

import (
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/webhook"
)

// watching is who hears of calls: o's own watch, and the receivers of webhooks
// where there are any.
func (h *House) watching(o Options) broker.Watch {
	if h.observed.hooks == nil {
		return o.Watch
	}
	return &hookWatch{own: o.Watch, hooks: h.observed.hooks}
}

// A hookWatch tells receivers of webhooks what a watch hears.
type hookWatch struct {
	own   broker.Watch // nil: nobody
	hooks *webhook.Set
}

// Leftover implements broker.Watch. The receivers hear of it when the call has
// ended.
func (w *hookWatch) Leftover(id string, level envelope.Level, report envelope.Report) {
	if w.own != nil {
		w.own.Leftover(id, level, report)
	}
}

// Unrecorded implements broker.Watch.
func (w *hookWatch) Unrecorded(id string, err error) {
	w.hooks.Put(webhook.Event{Kind: webhook.Unrecorded, At: time.Now(), Call: webhook.Call{ID: id}})
	if w.own != nil {
		w.own.Unrecorded(id, err)
	}
}

// Panicked implements broker.Watch.
func (w *hookWatch) Panicked(id, step string, value any, stack []byte) {
	w.hooks.Put(webhook.Event{Kind: webhook.Fault, At: time.Now(), Call: webhook.Call{ID: id}, Counts: map[string]int64{step: 1}})
	if w.own != nil {
		w.own.Panicked(id, step, value, stack)
	}
}

// Ended implements broker.EndWatch.
func (w *hookWatch) Ended(who broker.Caller, call *envelope.Call, r *envelope.Result) {
	for _, e := range webhook.Of(time.Now(), who.Name, who.Team, call, r) {
		w.hooks.Put(e)
	}
	if own, ok := w.own.(broker.EndWatch); ok {
		own.Ended(who, call, r)
	}
}

// Rows is the log as the HTTP API sees it: who has no good key is counted in it,
// and the receivers of webhooks hear of him.
func (h *House) Rows() *Rows { return &Rows{h.Log, h.observed.hooks} }

// Rows are those of the log.
type Rows struct {
	*audit.Log
	hooks *webhook.Set
}

// BadKey is what the HTTP API counts those as that have no good key.
const BadKey = "bad key"

// Count counts what a stranger can multiply.
func (r *Rows) Count(kind, key string) {
	r.Log.Count(kind, key)
	if kind == BadKey {
		r.hooks.Put(webhook.Event{Kind: webhook.Key, At: time.Now(), Caller: key, Counts: map[string]int64{"tries": 1}})
	}
}
