package serve

import (
	"strings"
	"sync"

	"github.com/callcell/callcell/envelope"
)

// The bounds of what strangers and programs are quoted with in a line.
const (
	maxHostShown = 256 // bytes
	maxWhyShown  = 512
)

// lines are the attempts of a call: the first of them one by one, all of them
// as counts.
type lines struct {
	queue chan envelope.Attempt // holds as many as there can be

	mu     sync.Mutex // guards what follows
	listed int
	closed bool
	counts envelope.Egress
}

func newLines() *lines {
	return &lines{queue: make(chan envelope.Attempt, envelope.MaxAttempts)}
}

// name counts a name that was asked for.
func (l *lines) name() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Names++
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
	if l.closed || l.listed >= envelope.MaxAttempts {
		l.counts.More++
		return
	}
	l.listed++
	l.queue <- a // it has room: see listed
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
