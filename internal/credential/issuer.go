package credential

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/credential/source"
)

// The times that hold where Options has none, and the bound of all calls.
const (
	DefaultIssueTime  = 10 * time.Second
	DefaultRevokeTime = 5 * time.Second
	graceTime         = time.Second // for sources to notice that their time is over
	maxAsked          = 64          // sources that are asked at once
)

// Sources opens what an envelope names as source. *source.Set is one. Open may
// be called concurrently, and asks nobody.
type Sources interface {
	Open(c envelope.Credential) (source.Source, error)
}

// Options are what an Issuer needs beside its sources.
type Options struct {
	IssueTime  time.Duration    // for all credentials of a call; 0 is DefaultIssueTime
	RevokeTime time.Duration    // to revoke them; 0 is DefaultRevokeTime
	Now        func() time.Time // the clock; nil is time.Now
}

// Issuer issues leases. It may be used by many goroutines.
type Issuer struct {
	sources Sources
	options Options
	slots   chan struct{}  // one for each source that is asked
	late    sync.WaitGroup // sources that did not answer in time, and may yet
}

// NewIssuer returns an Issuer that asks sources.
func NewIssuer(sources Sources, o Options) *Issuer {
	if o.IssueTime == 0 {
		o.IssueTime = DefaultIssueTime
	}
	if o.RevokeTime == 0 {
		o.RevokeTime = DefaultRevokeTime
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Issuer{sources: sources, options: o, slots: make(chan struct{}, maxAsked)}
}

// Check reports whether every source of creds is one that this host has,
// without asking it. An error is an *Error.
func (i *Issuer) Check(creds map[string]envelope.Credential) error {
	_, err := i.open(creds)
	return err
}

// Close waits until what sources handed out too late is taken back, or until
// ctx ends.
func (i *Issuer) Close(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.late.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// asked is one question to a source, and whom the answer is for.
type asked struct {
	source source.Source
	fields map[string]string // by name of the credential
	creds  map[string]envelope.Credential
}

// first is the name under which a fault is reported.
func (a *asked) first() string { return sortedKeys(a.creds)[0] }

// open returns the questions of a call: one for each credential, but one for
// all that are fields of the same secret.
func (i *Issuer) open(creds map[string]envelope.Credential) ([]*asked, error) {
	var all []*asked
	groups := map[string]*asked{}
	for _, name := range sortedKeys(creds) {
		src, err := i.sources.Open(creds[name])
		if err != nil {
			return nil, failure(name, kindOf(creds[name]), err)
		}
		group := src.Group()
		one := groups[group]
		if one == nil || group == "" {
			one = &asked{source: src, fields: map[string]string{}, creds: map[string]envelope.Credential{}}
			groups[group] = one
			all = append(all, one)
		}
		one.fields[name], one.creds[name] = src.Field(), creds[name]
	}
	return all, nil
}

// answered is what came of a question.
type answered struct {
	*asked
	grant *source.Grant
	err   error
	at    time.Time // before the source was asked: from here its time runs
}

// Issue fetches all credentials of a call. It returns within IssueTime and
// what taking back costs where one fails: RevokeTime and a second. An error is
// an *Error, and then nothing is left to be revoked but what it names. Without
// credentials the lease is empty. ctx ending ends the wait.
func (i *Issuer) Issue(ctx context.Context, call string, creds map[string]envelope.Credential) (*Lease, error) {
	questions, err := i.open(creds)
	if err != nil {
		return nil, err
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, i.options.IssueTime)
	defer cancel()
	answers := make(chan answered, len(questions))
	for _, q := range questions {
		go func() { answers <- i.ask(ctx, call, q) }()
	}
	lease := newLease(call, i.options)
	fault := lease.gather(ctx, cancel, questions, answers, i)
	if fault == nil {
		fault = lease.finish()
	}
	if fault == nil {
		return lease, nil
	}
	if fault.Reason == source.Timeout && errors.Is(outer.Err(), context.Canceled) {
		fault.cancelled, fault.Msg, fault.Hint = true, "the call was cancelled meanwhile", ""
	}
	for _, end := range lease.Revoke(outer).Ends {
		if end.State == Failed {
			fault.Unrevoked = append(fault.Unrevoked, end.Name)
		}
	}
	return nil, fault
}

// ask asks one source when it is its turn.
func (i *Issuer) ask(ctx context.Context, call string, q *asked) answered {
	a := answered{asked: q, at: i.options.Now()}
	select {
	case i.slots <- struct{}{}:
		defer func() { <-i.slots }()
	case <-ctx.Done():
		a.err = ctx.Err()
		return a
	}
	r := source.Request{Call: call}
	for _, name := range sortedKeys(q.creds) {
		r.Fields = append(r.Fields, q.fields[name])
		r.Scopes = append(r.Scopes, q.creds[name].Scopes...)
	}
	r.Fields, r.Scopes = compact(r.Fields), compact(r.Scopes)
	a.at = i.options.Now()
	a.grant, a.err = q.source.Fetch(ctx, r)
	return a
}

// gather takes the answers into the lease until all are in. After the first
// fault, and when the time is over, it waits for a moment only, and leaves the
// rest to reap.
func (l *Lease) gather(ctx context.Context, cancel func(), questions []*asked, answers chan answered, i *Issuer) (fault *Error) {
	open := map[*asked]bool{}
	for _, q := range questions {
		open[q] = true
	}
	var over <-chan time.Time
	done := ctx.Done()
	for len(open) > 0 {
		select {
		case a := <-answers:
			delete(open, a.asked)
			if err := l.take(a); err != nil && fault == nil {
				fault = err
				cancel()
			}
		case <-done:
			done = nil
			over = time.After(graceTime)
		case <-over:
			i.reap(len(open), answers)
			for _, q := range questions {
				if fault == nil && open[q] {
					fault = failure(q.first(), q.source.Kind(), context.DeadlineExceeded)
				}
			}
			return fault
		}
	}
	return fault
}

// reap takes back what comes too late.
func (i *Issuer) reap(n int, answers chan answered) {
	i.late.Go(func() {
		for range n {
			if a := <-answers; a.grant != nil {
				ctx, cancel := context.WithTimeout(context.Background(), i.options.RevokeTime)
				if a.grant.Revoke != nil {
					_ = a.grant.Revoke(ctx) // nobody is left to be told
				}
				cancel()
				a.grant.Destroy()
			}
		}
	})
}

// fit reports what keeps a secret from going where its use wants it.
func fit(use envelope.CredentialUse, s secret.Secret) (msg string) {
	s.Reveal(func(value []byte) {
		switch {
		case use.Header != "" && bytes.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) >= 0:
			msg = "it has bytes that cannot go into a header: line breaks, control characters, or what is not ASCII"
		case use.Header != "" && (value[0] == ' ' || value[len(value)-1] == ' '):
			msg = "it begins or ends with a space, which a header loses"
		case use.Env != "" && bytes.IndexByte(value, 0) >= 0:
			msg = "it has a zero byte, which cannot go into a variable"
		}
	})
	return msg
}
