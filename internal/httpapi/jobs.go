package httpapi

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/gateway"
)

// The bounds of what is told of a call while it runs. The result has the rest.
const (
	maxLive   = 256 << 10 // bytes of output
	maxEvents = 4096
)

// sweepAt is how many jobs there are when each that is added looks for those
// that need not be kept.
const sweepAt = 256

// An event is one of a call's, as it is sent. Its id is its place, from 1.
type event struct {
	kind string
	data []byte // JSON
}

// A job is a call under way, or one that is kept for who reads it later.
type job struct {
	key        string
	task, tool string
	idem       string // that it stands for, "" for none
	kept       bool   // somebody may come for it later
	started    time.Time
	cancel     context.CancelCauseFunc
	settled    chan struct{} // closed when the call has its turn, or has ended
	done       chan struct{} // closed when it has ended

	mu      sync.Mutex // guards what follows
	id      string
	once    bool // settled is closed
	events  []event
	live    int64 // bytes of output that may still be told
	size    int64
	changed chan struct{} // closed by the next event
	result  *envelope.Result
	ended   time.Time
}

func newJob(k gateway.Key, call *envelope.Call, now time.Time, cancel context.CancelCauseFunc) *job {
	return &job{key: k.ID, task: call.Task, tool: call.Tool, started: now, cancel: cancel, live: maxLive,
		settled: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{})}
}

// listener is what the broker tells.
func (j *job) listener() broker.Live {
	return broker.Live{
		Stdout: jobStream{j, "stdout"}, Stderr: jobStream{j, "stderr"},
		Begun: func(id string) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.id = id
			j.addLocked("begun", map[string]string{"id": id})
		},
		Admitted: func(tokens int64) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.live = min(j.live, tokens) // a token is at least a byte
			j.settleLocked()
		},
		Running: func(level envelope.Level) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.addLocked("running", map[string]envelope.Level{"level": level})
			j.settleLocked()
		},
	}
}

func (j *job) settleLocked() {
	if !j.once {
		j.once = true
		close(j.settled)
	}
}

// addLocked adds an event and wakes who waits for one.
func (j *job) addLocked(kind string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return // our own types: cannot be
	}
	j.events = append(j.events, event{kind, data})
	j.size += int64(len(data)) + 64
	close(j.changed)
	j.changed = make(chan struct{})
}

// jobStream takes what a program writes. It never blocks and never fails.
type jobStream struct {
	j    *job
	kind string
}

// Write tells what there is room for, and that there was none.
func (s jobStream) Write(p []byte) (int, error) {
	j := s.j
	j.mu.Lock()
	defer j.mu.Unlock()
	n := min(int64(len(p)), j.live)
	if len(j.events) >= maxEvents {
		n = 0
	}
	if n > 0 {
		j.addLocked(s.kind, map[string]envelope.Data{"data": p[:n]})
	}
	if n < int64(len(p)) && j.live >= 0 {
		j.addLocked("cut", map[string]string{"why": "the rest comes with the result"})
		j.live = -1
	}
	j.live = max(j.live-n, -1)
	return len(p), nil
}

// finish ends the job.
func (j *job) finish(r *envelope.Result, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.result, j.ended, j.id = r, now, r.ID
	j.addLocked("result", r)
	j.settleLocked()
	close(j.done)
}

// after returns the events after the n-th, a channel that is closed when there
// is another, and whether the last of all is among them.
func (j *job) after(n int) (list []event, more <-chan struct{}, last bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n < len(j.events) {
		list = slices.Clip(j.events[max(n, 0):])
	}
	return list, j.changed, j.result != nil
}

// CallState is a call that was started and is read later.
type CallState struct {
	ID      string           `json:"id"`
	State   string           `json:"state" enum:"running,done"`
	Task    string           `json:"task,omitempty"`
	Tool    string           `json:"tool,omitempty"`
	Started time.Time        `json:"started"`
	Ended   time.Time        `json:"ended,omitzero"`
	Outcome envelope.Outcome `json:"outcome,omitzero"`
	Reason  envelope.Reason  `json:"reason,omitzero" doc:"Of a refusal"`
	Result  *envelope.Result `json:"result,omitempty" doc:"Where one call is read, when it is done"`
}

func (j *job) state(whole bool) CallState {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := CallState{ID: j.id, State: "running", Task: j.task, Tool: j.tool, Started: j.started.UTC()}
	if r := j.result; r != nil {
		s.State, s.Ended, s.Outcome = "done", j.ended.UTC(), r.Outcome
		if r.Refusal != nil {
			s.Reason = r.Refusal.Reason
		}
		if whole {
			s.Result = r
		}
	}
	return s
}

func (j *job) bytes() (size int64, ended time.Time, done bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size, j.ended, j.result != nil
}

// jobs are the calls that can be read by id.
type jobs struct {
	keep  time.Duration
	most  int64 // bytes
	clock gateway.Clock
	all   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	by    map[string]*job
	idem  map[string]*once
	swept time.Time
}

// once is what an idempotency key stands for.
type once struct {
	digest [32]byte
	job    *job
}

func newJobs(keep time.Duration, most int64, clock gateway.Clock) *jobs {
	return &jobs{keep: keep, most: most, clock: clock, by: map[string]*job{}, idem: map[string]*once{}}
}

// add keeps a job whose id is known.
func (t *jobs) add(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by[j.state(false).ID] = j
	t.sweepLocked()
}

// retry lets an idempotency key that stands for a job be used again: nothing of
// it ran.
func (t *jobs) retry(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retryLocked(j)
}

func (t *jobs) dropLocked(j *job) {
	delete(t.by, j.state(false).ID)
	t.retryLocked(j)
}

func (t *jobs) retryLocked(j *job) {
	if o := t.idem[j.idem]; o != nil && o.job == j {
		delete(t.idem, j.idem)
	}
}

// sweepLocked forgets what is kept for long enough, and the oldest of what is
// too much. What runs stays.
func (t *jobs) sweepLocked() {
	now := t.clock.Now()
	if now.Sub(t.swept) < time.Second && len(t.by) < sweepAt {
		return
	}
	t.swept = now
	var done []*job
	var size int64
	for _, j := range t.by {
		n, ended, over := j.bytes()
		size += n
		if over && now.Sub(ended) > t.keep {
			size -= n
			t.dropLocked(j)
		} else if over {
			done = append(done, j)
		}
	}
	if size <= t.most {
		return
	}
	slices.SortFunc(done, func(a, b *job) int { return a.started.Compare(b.started) })
	for _, j := range done {
		if size <= t.most {
			return
		}
		n, _, _ := j.bytes()
		size -= n
		t.dropLocked(j)
	}
}

// get returns a job that a key may see: its own, or any of an admin's.
func (t *jobs) get(id string, k gateway.Key) *job {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweepLocked()
	j := t.by[id]
	if j == nil || j.key != k.ID && k.Role != gateway.RoleAdmin {
		return nil
	}
	return j
}

// list returns the jobs of a key, newest first.
func (t *jobs) list(k gateway.Key) []CallState {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweepLocked()
	list := []CallState{}
	for _, j := range t.by {
		if j.key == k.ID {
			list = append(list, j.state(false))
		}
	}
	slices.SortFunc(list, func(a, b CallState) int { return strings.Compare(b.ID, a.ID) })
	return list
}

// begin returns the job that an idempotency key stands for already, or notes
// that it stands for this one.
func (t *jobs) begin(digest [32]byte, j *job) (*job, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweepLocked()
	if o := t.idem[j.idem]; o != nil {
		if o.digest != digest {
			return nil, problem("idempotency", "the idempotency key was used for another request", "use another key for another request")
		}
		return o.job, nil
	}
	t.idem[j.idem] = &once{digest, j}
	return nil, nil
}

func (t *jobs) wait() { t.all.Wait() }
