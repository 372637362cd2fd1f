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
	leave, err := a.late(req, from, n)
	if err != nil {
		return err
	}
	defer leave()
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
			if a.tell(w, req, n, e) != nil {
				return nil // the client is gone, or is to come again
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

// late takes room for the last event where it is there already: who has others'
// hears before anything is sent that there is none.
func (a *API) late(req *request, from feed, n int) (leave func(), err error) {
	list, _, last := from.after(n)
	if !last || len(list) == 0 || req.own {
		return func() {}, nil
	}
	return a.room(req, list[len(list)-1].data)
}

// tell sends the n-th event. Its data is JSON on one line: no byte of a program's
// can end it. All who hear of a large one are sent the same text.
func (a *API) tell(w *eventWriter, req *request, n int, e event) error {
	if bytes.IndexByte(e.data, '\n') >= 0 {
		return fmt.Errorf("httpapi: an event of several lines")
	}
	head := fmt.Appendf(nil, "id: %d\nevent: %s\ndata: ", n, e.kind)
	if len(e.data) < large {
		return send(w, append(append(head, e.data...), "\n\n"...))
	}
	leave, err := a.room(req, e.data)
	if err != nil {
		return err
	}
	defer leave()
	return send(w, head, e.data, []byte("\n\n"))
}

// send writes and flushes.
func send(w *eventWriter, pieces ...[]byte) error {
	for _, p := range pieces {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return w.FlushError()
}
