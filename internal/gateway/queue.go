package gateway

import (
	"fmt"
	"slices"

	"github.com/callcell/callcell/envelope"
)

// enqueueLocked puts a ticket behind those of its team.
func (g *Gateway) enqueueLocked(t *Ticket) error {
	t.purse = t.team.purses[t.month]
	if id := (taskID{t.team.Name, t.ask.Call.Task}); id.task != "" {
		t.task = g.tasks[id]
		if t.task == nil { // it was dropped since it was loaded: that takes minutes
			return &envelope.Refusal{Reason: envelope.ReasonCapacity, Message: "this host is too slow for a call now", Retry: true}
		}
	}
	if len(t.team.waiting) >= int(t.team.tier.Waiting) {
		return &envelope.Refusal{Reason: envelope.ReasonCapacity, Retry: true, RetryAfter: seconds(1),
			Message: fmt.Sprintf("%d calls of the team wait already", len(t.team.waiting)), Hint: "make fewer calls at once"}
	}
	if len(t.team.waiting) == 0 {
		g.ring = append(g.ring, t.team)
	}
	t.team.waiting = append(t.team.waiting, t)
	t.key.tickets[t] = struct{}{}
	return nil
}

// forgetLocked takes a ticket that waits out of its queue.
func (g *Gateway) forgetLocked(t *Ticket) {
	delete(t.key.tickets, t)
	team := t.team
	i := slices.Index(team.waiting, t)
	if i < 0 {
		return
	}
	team.waiting = slices.Delete(team.waiting, i, i+1)
	if len(team.waiting) == 0 {
		i := slices.Index(g.ring, team)
		g.ring = slices.Delete(g.ring, i, i+1)
		if g.turn > i {
			g.turn--
		}
	}
}

// dispatchLocked lets in whoever can be: one of each team in turn, until none
// can. It comes after every change of what a ticket may wait for.
func (g *Gateway) dispatchLocked() {
	for idle := 0; idle < len(g.ring); {
		if g.turn >= len(g.ring) {
			g.turn = 0
		}
		team := g.ring[g.turn]
		served := g.serveLocked(team)
		if len(team.waiting) > 0 { // else the ring has moved up by itself
			g.turn++
		}
		if idle++; served {
			idle = 0
		}
	}
}

// serveLocked lets in the first ticket of a team that can be, and answers those
// before it that never can.
func (g *Gateway) serveLocked(team *teamState) bool {
	for _, t := range slices.Clone(team.waiting) {
		why, held := t.judgeLocked()
		if why == nil && held != "" {
			continue
		}
		g.forgetLocked(t)
		if why != nil {
			t.let <- g.denyLocked(t.key, t.ask.Key, *why)
			continue
		}
		t.takeLocked()
		t.let <- nil
		return true
	}
	return false
}

// judgeLocked says why a ticket can never be let in, or what it waits for;
// neither: it can be let in now.
func (t *Ticket) judgeLocked() (why *envelope.Refusal, held string) {
	g := t.g
	if why := g.aliveLocked(t.key); why != nil {
		return why, ""
	}
	never, notNow := t.purse.fits(t.need, t.team.budget())
	if never != "" {
		return t.spent(never), ""
	}
	if notNow != "" {
		held = "team." + notNow
	}
	if t.task != nil {
		limits := t.ask.Envelope.Task
		if g.now().Sub(t.task.began) >= limits.Wall.Std() {
			return t.taskOver("wall"), ""
		}
		never, notNow := t.task.fits(t.need, ceilings(limits))
		if never != "" {
			return t.taskOver(never), ""
		}
		if notNow != "" {
			held = "task." + notNow
		}
	}
	if held == "" && (g.atOnce >= int(g.limits.AtOnce) || t.team.atOnce >= int(t.team.tier.AtOnce) || t.key.atOnce >= int(t.team.tier.KeyAtOnce)) {
		held = aTurn
	}
	return nil, held
}

// aTurn is what a ticket waits for that no budget holds up.
const aTurn = "a turn"

// spent is the refusal of a call that the team's month has no room for.
func (t *Ticket) spent(what string) *envelope.Refusal {
	most, used := t.team.budget(), t.purse.used
	text := map[string]string{
		"calls":   fmt.Sprintf("%d of %d calls", used.calls, most.calls),
		"tokens":  fmt.Sprintf("%d of %d tokens, and this call may take %d", used.tokens, most.tokens, t.need.tokens),
		"cpuTime": fmt.Sprintf("%s of %s CPU time, and this call may take %s", used.cpu, most.cpu, t.need.cpu),
	}[what]
	r := &envelope.Refusal{Reason: envelope.ReasonBudget, Field: "team." + what,
		Message: fmt.Sprintf("the team %s has used %s of %s", t.team.Name, text, t.month),
		Hint:    fmt.Sprintf("the next month begins at %s; or ask for less", t.month.Next().Format("2006-01-02 15:04 UTC"))}
	if left := most.tokens - used.tokens - t.args; what == "tokens" && left > 0 {
		r.Hint += fmt.Sprintf(": maxTokens %d would do", left)
		return r
	}
	r.RetryAfter = seconds(t.month.Next().Sub(t.g.now()))
	return r
}

// taskOver is the refusal of a call that its task has no room for.
func (t *Ticket) taskOver(what string) *envelope.Refusal {
	most, used := ceilings(t.ask.Envelope.Task), t.task.used
	text := map[string]string{
		"calls":   fmt.Sprintf("%d of %d calls", used.calls, most.calls),
		"tokens":  fmt.Sprintf("%d of %d tokens, and this call may take %d", used.tokens, most.tokens, t.need.tokens),
		"cpuTime": fmt.Sprintf("%s of %s CPU time, and this call may take %s", used.cpu, most.cpu, t.need.cpu),
		"wall":    fmt.Sprintf("%s, which is all there is, since %s", t.ask.Envelope.Task.Wall, t.task.began.Format("2006-01-02 15:04:05 UTC")),
	}[what]
	return &envelope.Refusal{Reason: envelope.ReasonBudget, Field: "task." + what,
		Message: "the task has used " + text, Hint: "a task that goes on needs a profile with higher ceilings; other work is another task"}
}

// takeLocked reserves for a ticket that is let in.
func (t *Ticket) takeLocked() {
	t.purse.reserve(t.need)
	if t.task != nil {
		t.task.reserve(t.need)
	}
	t.key.tickets[t] = struct{}{}
	t.turn = true
	t.turnsLocked(1)
}

// settleLocked gives back what is reserved, and counts what was used.
func (t *Ticket) settleLocked(used amounts) {
	t.purse.settle(t.need, used)
	if t.task != nil {
		t.task.settle(t.need, used)
		t.task.last = t.g.now()
	}
	delete(t.key.tickets, t)
}

// leaveLocked gives the turn back, if it was not given back already.
func (t *Ticket) leaveLocked() {
	if t.turn {
		t.turn = false
		t.turnsLocked(-1)
	}
}

func (t *Ticket) turnsLocked(n int) {
	t.key.atOnce += n
	t.team.atOnce += n
	t.g.atOnce += n
}

// cancelLocked ends a ticket of a key that is no longer good. One that waits is
// answered by dispatch.
func (t *Ticket) cancelLocked() {
	if t.ask.Cancel != nil {
		t.ask.Cancel(revoked())
	}
}
