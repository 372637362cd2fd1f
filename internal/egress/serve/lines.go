package serve

import (
	"context"
	"strings"
	"sync"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
)

// The bounds of what strangers and programs are quoted with in a line.
const (
	maxHostShown = 256 // bytes
	maxWhyShown  = 512
)

// word is a message about one attempt.
type word struct {
	m    wire.Message
	sent chan struct{} // of Dialled: closed when the front has it, or has hung up
}

// attempt is what a Dialled and its Line have in common.
type attempt struct {
	at   int64 // nanoseconds
	host string
	port int
}

func attemptOf(a envelope.Attempt) attempt { return attempt{a.At.UnixNano(), a.Host, a.Port} }

// lines are the attempts of a call: the first of them one by one, all of them
// as counts.
type lines struct {
	queue chan word // holds as many as there can be

	mu     sync.Mutex      // guards what follows
	listed int             // with those of open
	open   map[attempt]int // dialled, and without a line yet
	closed bool
	counts envelope.Egress
}

func newLines() *lines {
	return &lines{queue: make(chan word, 2*envelope.MaxAttempts), open: map[attempt]int{}}
}

// name counts a name that was asked for.
func (l *lines) name() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Names++
}

// dialled lists a connection that is to be added, where there is room, and
// waits until the front knows of it: whoever ends this process with what comes
// over it cannot undo that.
func (l *lines) dialled(ctx context.Context, a envelope.Attempt) {
	a.Host = cut(a.Host, maxHostShown)
	w := word{wire.Message{Dialled: &a}, make(chan struct{})}
	l.mu.Lock()
	room := !l.closed && l.listed < envelope.MaxAttempts
	if room {
		l.listed++
		l.open[attemptOf(a)]++
		l.queue <- w // as in add
	}
	l.mu.Unlock()
	if room {
		select {
		case <-w.sent:
		case <-ctx.Done():
		}
	}
}

// take takes the place that a Dialled has kept; false where there was none.
func (l *lines) take(k attempt) bool {
	n := l.open[k]
	if l.open[k] = n - 1; n <= 1 {
		delete(l.open, k)
	}
	return n > 0
}

// add counts an attempt, and lists it where there is room. It never waits.
func (l *lines) add(a envelope.Attempt) {
	a.Host, a.Why = cut(a.Host, maxHostShown), cut(a.Why, maxWhyShown)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch a.Verdict {
	case envelope.VerdictAllowed:
		l.counts.Connections++
	case envelope.VerdictCut:
		l.counts.Connections++
		l.counts.Denied++
	case envelope.VerdictFailed:
		l.counts.Failed++
	default:
		l.counts.Denied++
	}
	l.counts.Sent += a.Sent
	l.counts.Received += a.Received
	kept := l.take(attemptOf(a))
	switch {
	case l.closed && kept: // the front has its Dialled
		return
	case l.closed || !kept && l.listed >= envelope.MaxAttempts:
		l.counts.More++
		return
	case !kept:
		l.listed++
	}
	l.queue <- word{m: wire.Message{Line: &a}} // it has room: at most two for each of listed
}

// close ends the queue. What is added later is counted alone.
func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
}

// total returns the counts.
func (l *lines) total() envelope.Egress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// cut shortens a text to at most n bytes of whole characters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
