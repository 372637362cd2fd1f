package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// ErrRefused means that a launcher lives and can build nothing on this host.
var ErrRefused = errors.New("the launcher builds no cells here")

// Ping asks the launchers for an answer, and returns nil when one of them has
// given it. Where none lives it starts one, as a call does. A launcher that does
// not answer is left alone: who waits for it longer than he may is who ends it.
// An error wraps ErrLauncher or ErrRefused, or is the start's.
func (r *Launchers) Ping(ctx context.Context) error {
	for {
		l, hello, err := r.choose(wantHello)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLauncher, err)
		}
		if hello != nil {
			return r.pingAny(ctx)
		}
		select {
		case <-l.greeted:
			if refused := l.refused(); refused != "" {
				return fmt.Errorf("%w: %s", ErrRefused, refused)
			}
		case <-l.gone:
			return fmt.Errorf("%w: %s", ErrLauncher, l.process.stderr)
		case <-ctx.Done():
			return fmt.Errorf("%w: it does not say hello", ErrLauncher)
		}
	}
}

// pingAny asks all that serve, side by side.
func (r *Launchers) pingAny(ctx context.Context) error {
	r.mu.Lock()
	var links []*link
	for _, l := range r.links {
		if l.alive() && closed(l.greeted) {
			links = append(links, l)
		}
	}
	r.mu.Unlock()
	answers := make(chan error, len(links))
	for _, l := range links {
		go func() { answers <- l.ping(ctx) }()
	}
	err := fmt.Errorf("%w: it is gone", ErrLauncher)
	for range links {
		if err = <-answers; err == nil {
			return nil
		}
	}
	return err
}

func (l *link) refused() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hello == nil {
		return ""
	}
	return l.hello.Refused
}

// ping waits for the answer to a request that asks for nothing. There is one
// under way at a time: a launcher that does not answer is not asked again.
func (l *link) ping(ctx context.Context) error {
	l.mu.Lock()
	if l.probe == nil {
		l.probe = make(chan struct{})
		go l.answerProbe(l.probe)
	}
	probe := l.probe
	l.mu.Unlock()
	select {
	case <-probe:
	case <-ctx.Done():
		return fmt.Errorf("%w: it does not answer", ErrLauncher)
	}
	if !l.alive() {
		return fmt.Errorf("%w: it is gone", ErrLauncher)
	}
	return nil
}

// answerProbe asks about a slot that is never anybody's.
func (l *link) answerProbe(done chan struct{}) {
	if ch, err := l.ask(&wire.Stop{Slot: 0}); err == nil {
		a := <-ch
		a.Close()
	}
	l.mu.Lock()
	l.probe = nil
	l.mu.Unlock()
	close(done)
}
