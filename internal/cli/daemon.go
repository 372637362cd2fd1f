package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/render"
)

// A place takes the one call of a command: this process, in a house of its own,
// or a daemon.
type place interface {
	// run runs the call. An error is one of ours, and nobody knows what became
	// of the call.
	run(ctx context.Context, call *envelope.Call) (*envelope.Result, error)
	// leave writes what is still to be written.
	leave() error
}

// house is this process.
type house struct{ *assembly.House }

func (h house) run(ctx context.Context, call *envelope.Call) (*envelope.Result, error) {
	return h.Broker.Run(ctx, localCaller(), call), nil
}

func (h house) leave() error {
	return leave(h.House)
}

// runAt runs a call, and reports its result while what is left is written.
func (a *app) runAt(at place, call *envelope.Call, report func(cancelled bool, r *envelope.Result) int) error {
	ctx, stop := a.interruptible()
	result, err := at.run(ctx, call)
	cancelled := ctx.Err() != nil
	stop()
	left := make(chan error, 1)
	go func() { left <- at.leave() }() // while we print
	if err == nil {
		a.status = report(cancelled, result)
	}
	if unwritten := <-left; unwritten != nil {
		a.say(flat(unwritten)) // the status is the call's: that has ended
	}
	return err
}

// remote is a daemon.
type remote struct {
	*client.Client
	address string
}

// daemon returns the daemon that the configuration names, and nil where it names
// none. What is read for a call is read with the user's own rights: nothing here
// needs more.
func (a *app) daemon(ctx context.Context, cfg *config.Config) (*remote, error) {
	if !cfg.Daemon.Named() {
		return nil, nil
	}
	if err := assembly.DropPrivileges(); err != nil {
		return nil, err
	}
	c, err := assembly.Daemon(ctx, cfg)
	return &remote{c, cfg.Daemon.Address}, err
}

// none says that there is nothing here, and where a daemon answers what it has.
func (a *app) none(text, path string) {
	a.say(text)
	if cfg, err := a.config(); err == nil && cfg.Daemon.Named() {
		a.say("this is what is in " + render.Name(cfg.State) + "; the daemon at " + cfg.Daemon.Address + " has its own: GET " + path)
	}
}

func (d *remote) run(ctx context.Context, call *envelope.Call) (*envelope.Result, error) {
	there, reached := connecting(ctx)
	r, err := d.Run(there, call)
	if err == nil {
		err = odd(call, r)
	}
	var p *client.Problem
	switch {
	case err == nil:
		return r, nil
	case errors.As(err, &p):
		return &envelope.Result{ID: p.Call, Task: call.Task, Refusal: d.refusal(p), Receipt: p.Receipt}, nil
	case ctx.Err() != nil:
		return nil, &failure{exitCancelled, "cancelled; the daemon ends the call", ""}
	case !reached():
		return &envelope.Result{Task: call.Task, Refusal: d.silent(err)}, nil
	}
	return nil, &failure{exitOwn, fmt.Sprintf("the answer of the daemon at %s was lost: %s", d.address, flat(err)), "its log says what became of the call: callcell audit list"}
}

// odd says why a result cannot be the answer to a call. Who answers may be another
// than the daemon, or broken: a status is made of the result, and its outputs are
// saved.
func odd(call *envelope.Call, r *envelope.Result) error {
	const most = 255 // of an exit status
	why := ""
	switch {
	case r.Refusal == nil && !r.Outcome.Valid(), r.Refusal != nil && (r.Outcome.Valid() || !r.Refusal.Reason.Valid()):
		why = "it says not what became of the call"
	case r.Outcome == envelope.OutcomeCompleted && (r.Exit.Code < 0 || r.Exit.Code > most):
		why = fmt.Sprintf("a program cannot exit with %d", r.Exit.Code)
	case slices.ContainsFunc(r.Outputs, func(f envelope.File) bool { return !broker.Wanted(call.Outputs, f.Name) }):
		why = "it has an output that was not asked for"
	case r.Workspace != nil && call.Workspace == nil:
		why = "it has a workspace that was not named"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", client.ErrAnswer, why)
}

func (d *remote) leave() error {
	d.HTTP.CloseIdleConnections()
	return nil
}

// unknown reports whether what answered is not known for the daemon: no TLS is
// spoken, or in another's name.
func unknown(err error) bool {
	var cert *tls.CertificateVerificationError
	return errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &cert)
}

// connecting returns a context for one request, and what reports whether it had a
// connection, with TLS where there is any: without one, nothing can have come to
// the daemon.
func connecting(ctx context.Context) (there context.Context, reached func() bool) {
	var got atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { got.Store(true) }}), got.Load
}

// silent refuses a call whose daemon does not answer. It is not made here
// instead: the daemon's limits would not hold for it.
func (d *remote) silent(err error) *envelope.Refusal {
	if unknown(err) {
		return &envelope.Refusal{
			Reason: envelope.ReasonSetup, Message: fmt.Sprintf("what answers at %s is not known for the daemon: %s", d.address, flat(err)),
			Hint: "daemon.address is http where serve.tls is not set; where it is, this host has to know the authority of the certificate, and its name",
		}
	}
	return &envelope.Refusal{
		Reason: envelope.ReasonSetup, Retry: true, Message: fmt.Sprintf("the daemon at %s does not answer: %s", d.address, flat(err)),
		Hint: "start it (callcell serve), or take daemon out of the configuration: nothing is run without it",
	}
}

// refusal is a problem as a refusal: no problem is about a call that ran.
func (d *remote) refusal(p *client.Problem) *envelope.Refusal {
	if r := p.Refusal(); r != nil {
		return r
	}
	r := &envelope.Refusal{Reason: envelope.ReasonSetup, Message: "the daemon at " + d.address + ": " + p.Error(), Hint: p.Hint, Retry: p.Retry, RetryAfter: envelope.Duration(p.After)}
	switch p.Status {
	case http.StatusUnauthorized:
		r.Reason, r.Hint = envelope.ReasonPermission, "see that daemon.key leads to a key that callcell key create printed there, and that it was not revoked"
	case http.StatusForbidden:
		r.Reason = envelope.ReasonPermission
	case http.StatusTooManyRequests:
		r.Reason = envelope.ReasonRate
	case http.StatusServiceUnavailable:
		r.Reason = envelope.ReasonCapacity
	case http.StatusRequestEntityTooLarge, http.StatusRequestTimeout:
		r.Reason = envelope.ReasonRequest
	}
	return r
}

// explain asks the daemon what it would do.
func (d *remote) explain(ctx context.Context, call *envelope.Call) (*broker.Explanation, error) {
	there, reached := connecting(ctx)
	e, err := d.Explain(there, call)
	var p *client.Problem
	switch {
	case errors.As(err, &p):
		return &broker.Explanation{Refusal: d.refusal(p)}, nil
	case err != nil && !reached():
		return &broker.Explanation{Refusal: d.silent(err)}, nil
	case err != nil:
		return nil, err
	case e.Refusal == nil && !e.Level.Valid(), e.Refusal != nil && !e.Refusal.Reason.Valid():
		return nil, fmt.Errorf("%w: it says neither a level nor why there is none", client.ErrAnswer)
	}
	out := &broker.Explanation{
		Refusal: e.Refusal, Level: e.Level, Why: e.Why, Warnings: e.Warnings, Needs: e.Needs, Floor: e.Floor, FloorWhy: e.FloorWhy,
		Cheaper: e.Cheaper, Envelope: e.Envelope, EnvelopeDigest: e.EnvelopeDigest, Argv: e.Argv, Env: e.Env, Files: e.Files,
	}
	for _, v := range e.Levels {
		out.Levels = append(out.Levels, broker.LevelVerdict(v))
	}
	return out, nil
}
