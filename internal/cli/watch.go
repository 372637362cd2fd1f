package cli

import (
	"fmt"
	"strings"
	"sync"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/render"
)

// watch tells the user, who is the operator of his own calls, what is not in
// the result.
type watch struct {
	mu sync.Mutex // guards p: a step may panic beside another
	p  *printer
}

// Leftover says nothing: the result has the report, and summary prints it.
func (*watch) Leftover(string, envelope.Level, envelope.Report) {}

// Log says what the log could not do meanwhile.
func (w *watch) Log(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.p.say(text)
}

// Unrecorded says why the row of a call has no ending.
func (w *watch) Unrecorded(id string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.p.say(fmt.Sprintf("the row of call %s could not be completed: %s", id, flat(err)))
	w.p.hint(hintOfLog(err))
}

// Panicked shows a mistake of ours, for who reports it.
func (w *watch) Panicked(id, step string, value any, stack []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.p.say(fmt.Sprintf("call %s: a failure of our own in %s: %v", id, step, value))
	for line := range strings.Lines(string(stack)) {
		fmt.Fprintln(w.p.err, "  "+render.Line(strings.TrimSuffix(line, "\n"), 0))
	}
}
