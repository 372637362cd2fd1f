package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/kept"
)

// The bounds of what is kept over a restart, beside those of the configuration.
const (
	maxAnswer  = 8 << 20          // bytes of one answer; of a larger one its row is kept
	maxListed  = 1000             // calls of a key that are listed
	saveTime   = 10 * time.Second // for one try to write
	saveAgain  = time.Second      // between two
	sweepEvery = 10 * time.Second
	sweepSome  = 1000 // calls that one transaction forgets
)

// newJobs returns the jobs of an API. What a daemon before it has not finished
// is lost.
func newJobs(ctx context.Context, a *API) (*jobs, error) {
	t := &jobs{keep: a.Serve.Keep.Std(), most: int64(a.Serve.KeepAll), clock: a.Clock, store: a.Kept, rows: a.Rows, log: a.Log, end: ctx,
		by: map[string]*job{}, names: map[kept.Name]*once{}}
	n, err := t.store.Lose(ctx, t.clock.Now())
	if err != nil {
		return nil, fmt.Errorf("calls that are kept: %w", err)
	}
	if n > 0 {
		t.log.Warn("calls of a daemon that died were kept; they are lost", "calls", n)
	}
	t.after.Go(t.sweepStore)
	return t, nil
}

// claim has an idempotency key stand for a job, or returns the one that it
// stands for already, here or in the store. One that has not looked in the store
// yet is waited for.
func (t *jobs) claim(ctx context.Context, j *job) (was *job, err error) {
	for {
		o, ours := t.claimed(j)
		if ours {
			return t.look(ctx, o)
		}
		select {
		case <-o.looked:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		was, err := t.current(ctx, o.job)
		if err != nil {
			return nil, err
		}
		if t.claims(o) && was != nil {
			return was, same(was, j)
		}
	}
}

// claimed returns what a job's name stands for, which is ours to find out if it
// was nothing.
func (t *jobs) claimed(j *job) (o *once, ours bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweepLocked()
	if o := t.names[j.name]; o != nil {
		return o, false
	}
	o = &once{job: j, looked: make(chan struct{})}
	t.names[j.name] = o
	return o, true
}

// claims reports whether a name still stands for that.
func (t *jobs) claims(o *once) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names[o.job.name] == o
}

func same(was, j *job) error {
	if was.digest == j.digest {
		return nil
	}
	return problem("idempotency", "the idempotency key was used for another request", "use another key for another request")
}

// look asks the store what the name of a new claim stands for. Where it stands
// for a call, the claim becomes that one's; where that cannot be told, nobody's.
func (t *jobs) look(ctx context.Context, o *once) (was *job, err error) {
	j := o.job
	defer close(o.looked)
	c, ok, err := t.store.Named(ctx, j.name)
	if ok && err == nil {
		was, err = t.restore(ctx, c)
	}
	if was != nil && was.end.Refusal != nil { // nothing ran: the key is free
		was, err = nil, t.store.Drop(ctx, c.ID)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		delete(t.names, j.name)
		return nil, err
	case was == nil:
		return nil, nil
	}
	o.job, t.by[c.ID] = was, was
	return was, same(was, j)
}

// restore makes a job of what the store has of a call: nil, if nothing of it
// ran.
func (t *jobs) restore(ctx context.Context, c kept.Call) (*job, error) {
	if c.State == kept.Erased {
		return nil, problem("gone", "the call of this key was erased", "use another idempotency key")
	}
	end, text, err := t.answer(ctx, &c)
	if err != nil || end == nil {
		return nil, err
	}
	j := &job{key: c.Key, team: c.Team, task: c.Task, tool: c.Tool, name: c.Name, digest: c.Digest, restored: true, noted: true, saved: true,
		started: c.Began, cancel: func(error) {}, settled: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{})}
	j.finish(end, text, c.Ended)
	return j, nil
}

// answer returns the answer of a call that this process does not run: as it was
// kept, or what its row says; nil, if nothing of it ran.
func (t *jobs) answer(ctx context.Context, c *kept.Call) (*brief, []byte, error) {
	if c.State == kept.Done {
		whole, ok, err := t.store.Read(ctx, c.ID, true)
		if err != nil || !ok {
			return nil, nil, err
		}
		if whole.Result != nil {
			end := new(brief)
			if err := json.Unmarshal(whole.Result, end); err != nil {
				return nil, nil, fmt.Errorf("the answer of %s: %w", c.ID, err)
			}
			return end, whole.Result, nil
		}
	}
	r, err := t.rowAnswer(ctx, c)
	if err != nil || r == nil {
		return nil, nil, err
	}
	return briefOf(r), encode(r), nil
}

// rowAnswer returns what the row of a call says of its answer.
func (t *jobs) rowAnswer(ctx context.Context, c *kept.Call) (*envelope.Result, error) {
	row, err := t.rows.Row(ctx, c.ID)
	switch {
	case errors.Is(err, audit.ErrNotFound): // there is no intent: nothing ran
		return nil, t.store.Drop(ctx, c.ID)
	case err != nil:
		return nil, err
	case row.Refused != nil:
		return &envelope.Result{ID: c.ID, Task: c.Task, Refusal: &row.Refused.Refusal, Receipt: row.Receipt}, nil
	case c.State == kept.Runs && row.Open(): // its end is still to be written
		p := problem("unavailable", "how this call ended is not written yet", "try again, with the same idempotency key")
		p.Retry = true
		return nil, p
	case c.State == kept.Done:
		return fromRow(c, &row, fmt.Sprintf("the answer of %d bytes was too large to be kept: serve.keepAll", c.Size)), nil
	}
	return fromRow(c, &row, "the daemon ended before the answer was kept"), nil
}

// fromRow is what a row has of an answer: how the call ended and what it used,
// without what it wrote. A call whose row has no ending yet is lost.
func fromRow(c *kept.Call, row *audit.Row, why string) *envelope.Result {
	r := &envelope.Result{ID: c.ID, Task: c.Task, Outcome: row.Outcome, Level: row.Level, Receipt: row.Receipt, Warnings: []string{"kept: " + why}}
	if in := row.Intent; in != nil {
		r.Why, r.Image, r.EnvelopeDigest = in.Why, in.ImageDigest, in.EnvelopeDigest
		r.Warnings = append(slices.Clone(in.Warnings), r.Warnings...)
	}
	e := row.Ending
	if e == nil {
		r.Outcome, r.Exit.Code = envelope.OutcomeLost, -1
		r.Warnings = append(r.Warnings, "lost: the daemon died while the call ran; how far it came is not known")
		return r
	}
	r.Exit, r.Events, r.Usage, r.Missing, r.Workspace, r.Egress = e.Exit, e.Events, e.Usage, e.Missing, e.Workspace, e.Egress
	r.Masked, r.EnforcedDigest, r.Teardown = e.Masked, e.EnforcedDigest, e.Teardown
	r.Stdout = envelope.Stream{Total: e.Stdout.Total, Truncated: e.Stdout.Total > 0}
	r.Stderr = envelope.Stream{Total: e.Stderr.Total, Truncated: e.Stderr.Total > 0}
	for _, b := range e.Outputs {
		r.Missing = append(r.Missing, envelope.Miss{Name: b.Name, Why: why})
	}
	if e.Changes != nil {
		r.Changes = &envelope.Changes{Files: []envelope.Change{}, Missing: []envelope.Miss{{Name: "./", Why: why}}}
	}
	return r
}

// note makes it durable that there is a call, before anything of it runs.
func (t *jobs) note(ctx context.Context, j *job, id string) error {
	t.add(j)
	err := t.store.Begin(ctx, kept.Call{ID: id, Key: j.key, Team: j.team, Name: j.name, Digest: j.digest, Task: j.task, Tool: j.tool, Began: j.started})
	if errors.Is(err, kept.ErrFull) {
		return &envelope.Refusal{Reason: envelope.ReasonCapacity, Retry: true,
			Message: fmt.Sprintf("the team has %d calls already that are kept for who comes back for them", kept.MaxCalls),
			Hint:    "call without an idempotency key, or wait until some are no longer kept: serve.keep"}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.noted = true // or may be: the store's answer may have been lost
	return err
}

// save makes an answer durable, before it is sent. What the store does not take
// now it is given again later: it is answered all the same, for the call has
// ended. A key whose call was refused is free again.
func (t *jobs) save(j *job, end *brief, text []byte) {
	if j.isNoted() {
		c := kept.Call{ID: end.ID, Ended: t.clock.Now(), Outcome: end.Outcome, Size: int64(len(text))}
		if end.Refusal != nil {
			c.Reason = end.Refusal.Reason
		}
		if len(text) <= maxAnswer {
			c.Result = text
		}
		if !t.try(j, c) {
			t.after.Go(func() { t.saveLater(j, c) })
		}
	}
	if end.Refusal != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if o := t.names[j.name]; o != nil && o.job == j {
			delete(t.names, j.name)
		}
	}
}

// try writes the end of a job, once.
func (t *jobs) try(j *job, c kept.Call) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.end), saveTime)
	defer cancel()
	if err := t.store.Finish(ctx, c, t.most); err != nil {
		t.log.Error("the answer of a call could not be kept", "call", c.ID, "error", strings.ReplaceAll(err.Error(), "\n", " "))
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.saved = true
	return true
}

// saveLater tries again until it is written, or nobody may come for it any more.
func (t *jobs) saveLater(j *job, c kept.Call) {
	tick, stop := t.clock.Ticker(saveAgain)
	defer stop()
	for until := t.clock.Now().Add(t.keep); t.clock.Now().Before(until); {
		select {
		case <-t.end.Done():
			return
		case <-tick:
		}
		if t.try(j, c) {
			return
		}
	}
}

// sweepStore forgets in the store what was kept for long enough.
func (t *jobs) sweepStore() {
	tick, stop := t.clock.Ticker(sweepEvery)
	defer stop()
	for {
		more, err := t.store.Sweep(t.end, t.clock.Now().Add(-t.keep), sweepSome)
		if err != nil && t.end.Err() == nil {
			t.log.Error("calls that were kept for long enough are still there", "error", err.Error())
		}
		if more {
			continue
		}
		select {
		case <-t.end.Done():
			return
		case <-tick:
		}
	}
}

// current returns a job that is in memory, unless the store no longer has it:
// who erases a call is another process. Then it is nil.
func (t *jobs) current(ctx context.Context, j *job) (*job, error) {
	j.mu.Lock()
	id, asks := j.id, j.saved
	j.mu.Unlock()
	if !asks {
		return j, nil
	}
	c, ok, err := t.store.Read(ctx, id, false)
	if err != nil {
		return nil, err
	}
	if !ok || c.State == kept.Erased {
		t.drop(j)
		return nil, nil
	}
	return j, nil
}

// get returns a job that a key may see: its own, or any of an admin's; nil, if
// there is none.
func (t *jobs) get(ctx context.Context, id string, k gateway.Key) (j *job, err error) {
	if j = t.held(id); j != nil {
		j, err = t.current(ctx, j)
	} else {
		var c kept.Call
		var ok bool
		if c, ok, err = t.store.Read(ctx, id, false); ok && c.State != kept.Erased {
			j, err = t.restore(ctx, c)
		}
	}
	if err != nil || j == nil || j.key != k.ID && k.Role != gateway.RoleAdmin {
		return nil, err
	}
	return j, nil
}

// list returns the jobs of a key, newest first.
func (t *jobs) list(ctx context.Context, k gateway.Key) ([]CallState, error) {
	stored, err := t.store.List(ctx, k.ID, maxListed)
	if err != nil {
		return nil, err
	}
	list, here := []CallState{}, t.heldBy(k)
	for i := range stored {
		c := &stored[i]
		if j := here[c.ID]; j != nil {
			list = append(list, j.state())
			delete(here, c.ID)
			continue
		}
		s := CallState{ID: c.ID, State: "done", Task: c.Task, Tool: c.Tool, Started: c.Began, Ended: c.Ended, Outcome: c.Outcome, Reason: c.Reason}
		if c.State == kept.Runs {
			s.State = "running"
		}
		if c.State == kept.Lost {
			j, err := t.restore(ctx, *c)
			if err != nil {
				return nil, err
			}
			if j == nil { // nothing of it ran
				continue
			}
			s = j.state()
		}
		list = append(list, s)
	}
	for _, j := range here { // what the store does not have
		if _, _, over := j.bytes(); !over || !j.isSaved() {
			list = append(list, j.state())
		}
	}
	slices.SortFunc(list, func(a, b CallState) int { return strings.Compare(b.ID, a.ID) })
	return list, nil
}

func (j *job) isNoted() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.noted
}

func (j *job) isSaved() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.saved
}

// heldBy returns the jobs of a key that are in memory.
func (t *jobs) heldBy(k gateway.Key) map[string]*job {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweepLocked()
	here := map[string]*job{}
	for id, j := range t.by {
		if j.key == k.ID {
			here[id] = j
		}
	}
	return here
}
