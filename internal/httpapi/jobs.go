package httpapi

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/kept"
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
	key, team  string
	task, tool string
	name       kept.Name // of its idempotency key; zero: it has none
	digest     [32]byte  // of the request
	restored   bool      // it is of a daemon before this one, or was let go of
	started    time.Time
	cancel     context.CancelCauseFunc
	turn       *turn         // who runs it and who asked for it hold it; nil of one that is restored
	settled    chan struct{} // closed when the call has its turn, or has ended
	done       chan struct{} // closed when it has ended

	mu      sync.Mutex // guards what follows
	id      string
	once    bool // settled is closed
	events  []event
	live    int64 // bytes of output that may still be told
	size    int64
	changed chan struct{} // closed by the next event
	noted   bool          // the store has it
	saved   bool          // the store has its end
	end     *brief        // nil: it has not ended
	ended   time.Time
}

// A brief is what is kept of a result beside its text, which has all of it:
// nobody holds what a program has written twice.
type brief struct {
	ID      string            `json:"id"`
	Refusal *envelope.Refusal `json:"refusal"`
	Outcome envelope.Outcome  `json:"outcome"`
	Receipt *envelope.Receipt `json:"receipt"`
}

func briefOf(r *envelope.Result) *brief { return &brief{r.ID, r.Refusal, r.Outcome, r.Receipt} }

func newJob(k gateway.Key, call *envelope.Call, now time.Time, cancel context.CancelCauseFunc) *job {
	return &job{key: k.ID, team: k.Team, task: call.Task, tool: call.Tool, started: now, cancel: cancel, live: maxLive, turn: newTurn(2),
		settled: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{})}
}

// listener is what the broker tells.
func (j *job) listener() broker.Live {
	return broker.Live{
		Stdout: jobStream{j, "stdout"}, Stderr: jobStream{j, "stderr"}, Turn: j.turn.take,
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

// addLocked adds an event.
func (j *job) addLocked(kind string, v any) {
	j.tellLocked(kind, encode(v))
}

// tellLocked adds an event and wakes who waits for one.
func (j *job) tellLocked(kind string, data []byte) {
	if data == nil {
		return
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
	n := min(int64(len(p)), max(j.live, 0)) // live is below 0 once it was told that the rest is not
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

// finish ends the job. text is the result as JSON.
func (j *job) finish(end *brief, text []byte, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.end, j.ended, j.id = end, now, end.ID
	j.tellLocked("result", text)
	j.settleLocked()
	close(j.done)
}

// after returns the events after the n-th, a channel that is closed when there
// is another, and whether the last of all is among them.
func (j *job) after(n int) (list []event, more <-chan struct{}, last bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.restored {
		n = 0 // its one event is the result, wherever the client was
	}
	if n < len(j.events) {
		list = slices.Clip(j.events[max(n, 0):])
	}
	return list, j.changed, j.end != nil
}

// CallState is a call that was started and is read later.
type CallState struct {
	ID      string           `json:"id" doc:"Of the call, and of its row"`
	State   string           `json:"state" enum:"running,done" doc:"How far it is"`
	Task    string           `json:"task,omitempty" doc:"As the call has it"`
	Tool    string           `json:"tool,omitempty" doc:"As the call has it"`
	Started time.Time        `json:"started" doc:"When it was begun"`
	Ended   time.Time        `json:"ended,omitzero" doc:"When it was done; absent: it runs"`
	Outcome envelope.Outcome `json:"outcome,omitzero" doc:"How it ended"`
	Reason  envelope.Reason  `json:"reason,omitzero" doc:"Of a refusal"`
	Result  *envelope.Result `json:"result,omitempty" doc:"Where one call is read, when it is done"`
}

// state is how a job stands, without its result.
func (j *job) state() CallState {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := CallState{ID: j.id, State: "running", Task: j.task, Tool: j.tool, Started: j.started.UTC()}
	if end := j.end; end != nil {
		s.State, s.Ended, s.Outcome = "done", j.ended.UTC(), end.Outcome
		if end.Refusal != nil {
			s.Reason = end.Refusal.Reason
		}
	}
	return s
}

// over returns how a job ended, and its result as JSON, which must not be
// changed; nil while it runs.
func (j *job) over() (end *brief, text []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.end == nil {
		return nil, nil
	}
	return j.end, j.events[len(j.events)-1].data
}

func (j *job) bytes() (size int64, ended time.Time, done bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size, j.ended, j.end != nil
}

// jobs are the calls that can be read by id: those under way, those that have
// ended lately, and, in the store, those that are kept over a restart.
type jobs struct {
	keep  time.Duration
	most  int64 // bytes
	clock gateway.Clock
	store kept.Store
	rows  Rows
	log   *slog.Logger
	all   sync.WaitGroup  // calls
	after sync.WaitGroup  // what goes on behind them, until ending
	end   context.Context // ends with the API

	mu    sync.Mutex // guards what follows
	by    map[string]*job
	names map[kept.Name]*once
	swept time.Time
}

// once is what an idempotency key stands for.
type once struct {
	job    *job
	looked chan struct{} // closed when the store was asked, too
}

// add has a job whose id is known be found by it.
func (t *jobs) add(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by[j.state().ID] = j
	t.sweepLocked()
}

func (t *jobs) drop(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropLocked(j)
}

func (t *jobs) dropLocked(j *job) {
	if id := j.state().ID; t.by[id] == j {
		delete(t.by, id)
	}
	if o := t.names[j.name]; o != nil && o.job == j {
		delete(t.names, j.name)
	}
}

// ended makes room for the result of a job, where that is large.
func (t *jobs) ended(j *job) {
	if size, _, _ := j.bytes(); size < large {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.swept = time.Time{}
	t.sweepLocked()
}

// sweepLocked takes out of memory what is kept for long enough, and the oldest
// of what is too much. What runs stays.
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

// held returns a job that is in memory, or nil.
func (t *jobs) held(id string) *job {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweepLocked()
	return t.by[id]
}

func (t *jobs) wait() { t.all.Wait() }
