package broker

import (
	"fmt"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
)

// mostTasks is how many tasks are remembered at once.
const mostTasks = 4096

// tasks hold the calls of callers without a key to the ceilings of their tasks,
// as far as this process makes them: a gateway does it for those with one. Tokens
// are the gateway's to count.
type tasks struct {
	mu   sync.Mutex // guards what follows
	used map[string]*spending
}

// spending is what one task has used, with what the calls under way may use.
type spending struct {
	began, last time.Time
	calls       int64
	cpu         time.Duration
	under       int // calls under way
}

// enter counts a call, and refuses one for which its task has no room. What it
// returns is called once, with how the call ended: a refusal has used nothing.
func (t *tasks) enter(who Caller, task string, env *envelope.Envelope, now time.Time) (leave func(r *envelope.Result, now time.Time), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := who.String() + "\x00" + task
	s := t.used[key]
	if s == nil {
		if err := t.makeRoomLocked(); err != nil {
			return nil, err
		}
		s = &spending{began: now}
	}
	most, may := env.Task, env.Resources.CPUTime.Std()
	switch {
	case s.calls >= int64(most.Calls):
		return nil, taskOver("calls", fmt.Sprintf("%d of %d calls", s.calls, most.Calls))
	case now.Sub(s.began) >= most.Wall.Std():
		return nil, taskOver("wall", fmt.Sprintf("%s, which is all there is, since %s", most.Wall, s.began.UTC().Format("2006-01-02 15:04:05 UTC")))
	case s.cpu+may > most.CPUTime.Std():
		return nil, taskOver("cpuTime", fmt.Sprintf("%s of %s CPU time, and this call may take %s", s.cpu, most.CPUTime, may))
	}
	t.used[key] = s
	s.calls++
	s.cpu += may
	s.under++
	s.last = now
	return func(r *envelope.Result, now time.Time) {
		t.mu.Lock()
		defer t.mu.Unlock()
		s.cpu -= may
		if r.Ran() {
			s.cpu += r.Usage.CPU
		} else {
			s.calls--
		}
		s.under--
		s.last = now
	}, nil
}

// makeRoomLocked forgets the task that has rested longest.
func (t *tasks) makeRoomLocked() error {
	if t.used == nil {
		t.used = map[string]*spending{}
	}
	if len(t.used) < mostTasks {
		return nil
	}
	oldest := ""
	for key, s := range t.used {
		if s.under == 0 && (oldest == "" || s.last.Before(t.used[oldest].last)) {
			oldest = key
		}
	}
	if oldest == "" {
		return &envelope.Refusal{Reason: envelope.ReasonCapacity, Field: "task", Retry: true,
			Message: "there are too many tasks at once", Hint: "wait for calls of others to end"}
	}
	delete(t.used, oldest)
	return nil
}

func taskOver(what, used string) error {
	return &envelope.Refusal{Reason: envelope.ReasonBudget, Field: "task." + what,
		Message: "the task has used " + used, Hint: "a task that goes on needs a profile with higher ceilings; other work is another task"}
}
