package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// followsAtOnce is how many requests of a key may wait for calls that they do not
// make themselves: each holds a connection for as long as a call lasts, and all
// keys share those.
const followsAtOnce = 32

// follows counts such requests by key.
type follows struct {
	most int // of one key

	mu sync.Mutex // guards by
	by map[string]int
}

// begin counts one, and returns what ends it; nil where there are too many.
func (f *follows) begin(key string) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by[key] >= f.most {
		return nil
	}
	f.by[key]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.by[key]--; f.by[key] == 0 {
			delete(f.by, key)
		}
	}
}

// A feed has events.
type feed interface {
	// after returns the events after the n-th, a channel that is closed when
	// there is another, and whether the last of all is among them.
	after(n int) (list []event, more <-chan struct{}, last bool)
}

// stream sends the events of a feed after the n-th, until the last, or until the
// client goes or its key is no longer good. What they are of does not end with it.
func (a *API) stream(req *request, from feed, n int) error {
	w, ctx, stop := a.events(req)
	defer stop()
	h := w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("X-Accel-Buffering", "no") // a proxy's
	w.WriteHeader(http.StatusOK)
	if w.cutOff() {
		return noKey()
	}
	beat := time.NewTicker(a.beat)
	defer beat.Stop()
	for {
		list, more, last := from.after(n)
		for _, e := range list {
			n++
			if send(w, fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", n, e.kind, e.data)) != nil {
				return nil // the client is gone
			}
		}
		if last {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		case <-beat.C:
			if send(w, []byte(": \n\n")) != nil {
				return nil
			}
		}
	}
}

// send writes and flushes. Data of an event is JSON on one line: no byte of a
// program's can end it.
func send(w *eventWriter, text []byte) error {
	if bytes.Count(text, []byte("\n")) > 4 {
		return fmt.Errorf("httpapi: an event of several lines")
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	return w.FlushError()
}
