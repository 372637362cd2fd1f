package cli

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/callcell/callcell/internal/render"
)

// How often it is shown how far something is: on a terminal, and elsewhere,
// where every line stays.
const (
	redrawEvery = 200 * time.Millisecond
	sayEvery    = 15 * time.Second
)

// meanwhile shows, until what it returns is called, that something goes on, and
// how far it is: on a terminal by a line that changes, elsewhere by a line of its
// own every sayEvery. There silent has nothing shown: the answer is for a machine,
// which may read both streams as one. now may be nil: nobody knows how far it is.
func (p *printer) meanwhile(name string, silent bool, now func() string) (done func()) {
	every, show := sayEvery, p.sayHow
	switch {
	case p.errTTY:
		every, show = redrawEvery, p.drawHow
	case silent:
		return func() {}
	}
	began, over, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		shown := false
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-over:
				if shown && p.errTTY {
					fmt.Fprint(p.err, "\r\x1b[K")
				}
				return
			case <-tick.C:
				how := ""
				shown = true
				if now != nil {
					how = now()
				}
				show(render.Line(name, 60), time.Since(began).Truncate(time.Second), how)
			}
		}
	}()
	return func() { close(over); <-ended }
}

func (p *printer) drawHow(name string, passed time.Duration, how string) {
	fmt.Fprintf(p.err, "\r\x1b[K  %s  %s  %s", name, passed, how)
}

func (p *printer) sayHow(name string, passed time.Duration, how string) {
	text := fmt.Sprintf("%s: %s", name, passed)
	if how != "" {
		text += ": " + how
	}
	p.say(text)
}

// walked is how many there are done of how many; none before it is told.
type walked struct{ done, of atomic.Int64 }

func (w *walked) set(done, of int64) {
	w.of.Store(of)
	w.done.Store(done)
}

// now says it, in what is counted.
func (w *walked) now(what string) func() string {
	return func() string {
		if w.of.Load() == 0 {
			return ""
		}
		return fmt.Sprintf("%d of %d %s", w.done.Load(), w.of.Load(), what)
	}
}
