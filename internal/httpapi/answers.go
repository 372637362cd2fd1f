package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
)

// large is from how many bytes on a text counts that is being sent: of less, what
// connections hold together is bounded by how many there may be.
const large = 64 << 10

// answer answers with what an endpoint has returned. Of that there is the JSON
// alone while it is sent, which takes as long as the client does.
func (a *API) answer(e *endpoint, req *request, out any) error {
	status := e.status
	switch s := out.(type) {
	case answered:
		return nil
	case withStatus:
		status, out = s.status, s.body
	}
	pieces, ok := out.(encoded)
	if !ok {
		text := encode(out)
		if text == nil {
			return errors.New("httpapi: an answer that is no JSON")
		}
		pieces = encoded{text}
	}
	leave, err := a.room(req, pieces...)
	if err != nil {
		return err
	}
	defer leave()
	if status == 0 {
		status = http.StatusOK
	}
	req.body, req.form = nil, nil
	a.write(req.w, status, pieces)
	return nil
}

// write sends an answer.
func (a *API) write(w http.ResponseWriter, status int, pieces encoded) {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(size))
	a.writeBy(w)
	w.WriteHeader(status)
	for _, p := range pieces {
		if _, err := w.Write(p); err != nil {
			return // who does not read is gone
		}
	}
}

// room takes room for what is sent next, until leave. What a call answers to who
// made it is there once, so that it is not refused: the call has its turn until the
// request is over. Anything else can be asked for again.
func (a *API) room(req *request, pieces ...[]byte) (leave func(), err error) {
	var text []byte
	for _, p := range pieces {
		if len(p) > len(text) {
			text = p
		}
	}
	switch {
	case len(text) < large:
		req.leave()
		return func() {}, nil
	case req.own:
		return func() {}, nil
	}
	if leave = a.sent.enter(req.key.ID, text); leave != nil {
		return leave, nil
	}
	p := problem("capacity", "answers with more bytes than there is room for are being sent", "read those that are under way first")
	p.Retry = true
	return nil, p
}

// texts are what is being sent of large answers. One that several are sent is
// there once.
type texts struct {
	most int64 // bytes, of all; a key has a quarter. One alone may be larger

	mu    sync.Mutex // guards what follows
	times map[lent]int
	size  map[string]int64 // of what is lent to a key; to "": to anybody
}

// lent is a text, by where it is, that a key is sent.
type lent struct {
	key string
	at  *byte
}

func newTexts(most int64) *texts {
	return &texts{most: most, times: map[lent]int{}, size: map[string]int64{}}
}

// enter takes room for a text that a key is sent. leave gives it back; it is nil
// where there is none.
func (t *texts) enter(key string, text []byte) (leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	size, ours, all := int64(len(text)), lent{key, &text[0]}, lent{"", &text[0]}
	if !t.fitsLocked(ours, size, t.most/4) || !t.fitsLocked(all, size, t.most) {
		return nil
	}
	t.lendLocked(ours, size)
	t.lendLocked(all, size)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.endLocked(ours, size)
		t.endLocked(all, size)
	}
}

func (t *texts) fitsLocked(l lent, size, most int64) bool {
	return t.times[l] > 0 || t.size[l.key] == 0 || size <= most-t.size[l.key]
}

func (t *texts) lendLocked(l lent, size int64) {
	if t.times[l]++; t.times[l] == 1 {
		t.size[l.key] += size
	}
}

func (t *texts) endLocked(l lent, size int64) {
	if t.times[l]--; t.times[l] > 0 {
		return
	}
	delete(t.times, l)
	if t.size[l.key] -= size; t.size[l.key] == 0 {
		delete(t.size, l.key)
	}
}
