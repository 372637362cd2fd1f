package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/render"
)

// hereFlag is of commands about what is kept of calls.
type hereFlag struct {
	Here bool `help:"What this host and user have themselves, also where the configuration names a daemon."`
}

// keeper is the daemon that has what a command is about, or nil where this host
// and user have it: the configuration names none, or here is said. What is there
// is never looked for here instead.
func (a *app) keeper(f hereFlag) (*remote, error) {
	cfg, err := a.config()
	if err != nil || f.Here {
		return nil, err
	}
	d, err := a.daemon(a.ctx, cfg)
	if r := envelope.RefusalOf(err); r != nil {
		return nil, refusing(r)
	}
	return d, err
}

// ours refuses what a daemon cannot be asked for, where the configuration names
// one: what is here would be taken for what is there.
func (f hereFlag) ours(cfg *config.Config, what string) error {
	if f.Here || !cfg.Daemon.Named() {
		return nil
	}
	return refusing(&envelope.Refusal{
		Reason: envelope.ReasonUnsupported, Message: what + " at " + cfg.Daemon.Address + ", which cannot be asked for this",
		Hint: "it is done where the daemon is, over its state; with --here it is about what this host and user have themselves",
	})
}

// refusing is a refusal of what is no call.
func refusing(r *envelope.Refusal) error {
	return &failure{exitOfRefusal(r.Reason), refusalText(r), r.Hint}
}

// mostAnswer is how long a daemon may take to say what it has, and how long it may
// be silent amid bytes, which take as long as they do.
const mostAnswer = time.Minute

var errMute = errors.New("it says nothing")

// ask asks the daemon for something that is said at once. known returns an error
// for a problem that the command knows, or nil.
func (d *remote) ask(ctx context.Context, request func(context.Context) error, known func(*client.Problem) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, mostAnswer, errMute)
	defer cancel()
	return d.load(ctx, func(ctx context.Context, _ hearing) error { return request(ctx) }, known)
}

// hearing is a reader of what comes.
type hearing func(io.Reader) io.Reader

// patient returns a context that ends when nothing was heard for mostAnswer.
func patient(ctx context.Context) (listening context.Context, hear hearing, over func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	silence := time.AfterFunc(mostAnswer, func() { cancel(errMute) })
	hear = func(r io.Reader) io.Reader {
		return readFunc(func(p []byte) (int, error) {
			n, err := r.Read(p)
			silence.Reset(mostAnswer)
			return n, err
		})
	}
	return ctx, hear, func() { silence.Stop(); cancel(nil) }
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// load is ask for what takes its time.
func (d *remote) load(ctx context.Context, request func(context.Context, hearing) error, known func(*client.Problem) error) error {
	ctx, hear, over := patient(ctx)
	defer over()
	there, reached := connecting(ctx)
	err := request(there, hear)
	var p *client.Problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		if err := known(p); err != nil {
			return err
		}
		return refusing(d.refusal(p))
	case errors.Is(err, client.ErrAnswer):
		return d.unusable(err)
	case !reached() || errors.Is(context.Cause(ctx), errMute):
		r := d.silent(err)
		if r.Retry {
			r.Hint = "start it (callcell serve); --here is about what this host and user have themselves"
		}
		return refusing(r)
	}
	return &failure{exitOwn, fmt.Sprintf("the answer of the daemon at %s was lost: %s", d.address, flat(err)), "ask again"}
}

// unusable is an answer that cannot be one to what was asked. Who answers may be
// another than the daemon, or broken: nothing of it is shown.
func (d *remote) unusable(why error) error {
	return &failure{exitOwn, fmt.Sprintf("what the daemon at %s answers cannot be used: %s", d.address, render.Line(flat(why), 0)), "see that daemon.address leads to a daemon, of this version"}
}

// odds is why an answer cannot be used.
func odds(format string, args ...any) error {
	return fmt.Errorf("%w: %s", client.ErrAnswer, fmt.Sprintf(format, args...))
}
