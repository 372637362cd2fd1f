package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/callcell/callcell/envelope"
)

// amounts are what is metered.
type amounts struct {
	calls, tokens int64
	cpu           time.Duration
}

func (a amounts) plus(b amounts) amounts {
	return amounts{a.calls + b.calls, a.tokens + b.tokens, a.cpu + b.cpu}
}

func (a amounts) minus(b amounts) amounts {
	return amounts{a.calls - b.calls, a.tokens - b.tokens, a.cpu - b.cpu}
}

// over returns what of a is more than most, as a word, or "".
func (a amounts) over(most amounts) string {
	switch {
	case a.calls > most.calls:
		return "calls"
	case a.tokens > most.tokens:
		return "tokens"
	case a.cpu > most.cpu:
		return "cpuTime"
	}
	return ""
}

// A purse is what of a budget is used, and what is reserved of the rest.
type purse struct{ used, reserved amounts }

// fits says whether need is within most: yes, not now (what is reserved may
// come back), or never, by which word.
func (p *purse) fits(need, most amounts) (never, notNow string) {
	if never = p.used.plus(need).over(most); never != "" {
		return never, ""
	}
	return "", p.used.plus(p.reserved).plus(need).over(most)
}

func (p *purse) reserve(need amounts) { p.reserved = p.reserved.plus(need) }

func (p *purse) settle(need, used amounts) {
	p.reserved = p.reserved.minus(need)
	p.used = p.used.plus(used)
}

// budget is what a team has in a month.
func (t *teamState) budget() amounts {
	tokens := int64(t.tier.Tokens)
	if t.Tokens > 0 {
		tokens = t.Tokens
	}
	return amounts{int64(t.tier.Calls), tokens, t.tier.CPUTime.Std()}
}

func ceilings(t envelope.Task) amounts {
	return amounts{int64(t.Calls), int64(t.Tokens), t.CPUTime.Std()}
}

// taskID names a task: tasks of two teams are two.
type taskID struct{ team, task string }

// taskState is what a task has used.
type taskState struct {
	purse
	began time.Time
	last  time.Time // when it was last settled or looked at
}

// The bounds of tasks.
const (
	maxTasks = 1 << 16       // in memory
	idleTask = 7 * day       // after which a task is forgotten: its name begins anew
	warmTask = 5 * time.Hour // after which a task is no longer held in memory
)

// loadPurse has the purse of a team and month loaded.
func (g *Gateway) loadPurse(ctx context.Context, team string, m Month) error {
	g.mu.Lock()
	t := g.teams[team]
	there := t == nil || t.purses[m] != nil
	g.mu.Unlock()
	if there {
		return nil
	}
	list, err := g.store.Usage(ctx, UsageQuery{Team: team, From: m, To: m})
	if err != nil {
		return fmt.Errorf("usage of %s: %w", team, err)
	}
	p := &purse{}
	for i := range list {
		u := &list[i]
		p.used = p.used.plus(amounts{u.Calls, u.Tokens(), u.CPU})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.purses[m] == nil {
		t.purses[m] = p
	}
	return nil
}

// loadTask has a task in memory.
func (g *Gateway) loadTask(ctx context.Context, id taskID) error {
	if id.task == "" {
		return nil
	}
	now := g.now()
	g.mu.Lock()
	s := g.tasks[id]
	if s != nil {
		s.last = now // so that it stays until it is used
	}
	full := len(g.tasks) >= maxTasks
	g.mu.Unlock()
	switch {
	case s != nil:
		return nil
	case full:
		return &envelope.Refusal{Reason: envelope.ReasonCapacity, Message: "too many tasks at once", Retry: true}
	}
	u, ok, err := g.store.Task(ctx, id.team, id.task)
	if err != nil {
		return fmt.Errorf("task: %w", err)
	}
	s = &taskState{began: now, last: now}
	if ok {
		s.began, s.used = u.Began, amounts{u.Calls, u.Tokens, u.CPU}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tasks[id] == nil {
		g.tasks[id] = s
	}
	return nil
}

// dropTasksLocked takes tasks out of memory that are folded: nothing of them was
// settled lately, nothing waits to be written, nothing is reserved.
func (g *Gateway) dropTasksLocked(folded time.Time) {
	if len(g.pending) > 0 {
		return
	}
	keep := warmTask
	if len(g.tasks) > maxTasks/2 {
		keep = time.Minute
	}
	for id, s := range g.tasks {
		if s.reserved == (amounts{}) && s.last.Before(folded.Add(-keep)) {
			delete(g.tasks, id)
		}
	}
}
