package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/image"
	"github.com/callcell/callcell/internal/kept"
)

// The bounds of images that are being made, and of what is told of them.
const (
	mostMaking = 2 // at once
	mostMade   = kept.MaxJobs
	maxMade    = 256 << 10 // bytes of what is kept of one; of a larger one without its record
	tellEvery  = time.Second
)

// ImageJob is the making of an image.
type ImageJob struct {
	ID      string        `json:"id" doc:"Of the job"`
	What    string        `json:"what" enum:"pull,build" doc:"What is done"`
	Image   string        `json:"image" doc:"That is made"`
	State   string        `json:"state" enum:"running,done,failed,lost" doc:"lost: the daemon died before it was made"`
	Started time.Time     `json:"started" doc:"When it was begun"`
	Ended   time.Time     `json:"ended,omitzero" doc:"When it was done; absent: it runs"`
	Bytes   int64         `json:"bytes" doc:"Of its stream, so far"`
	Call    string        `json:"call,omitempty" doc:"Id of the call that makes it"`
	Digest  string        `json:"digest,omitempty" doc:"Of the image, where it is done"`
	Record  *image.Record `json:"record,omitempty" doc:"Of the image, where it is done"`
	Problem *Problem      `json:"problem,omitempty" doc:"Where it failed"`
}

// ImageJobList is the answer to GET /v1/images/jobs.
type ImageJobList struct {
	Jobs []ImageJob `json:"jobs" doc:"Newest first"`
}

// making is a job under way, or one that is remembered.
type making struct {
	cancel   context.CancelFunc
	clock    gateway.Clock
	restored bool // it is of a daemon before this one: its one event is its end

	mu      sync.Mutex // guards what follows
	state   ImageJob
	events  []event
	changed chan struct{} // closed by the next event
	told    time.Time     // when bytes were told last
	room    int           // bytes of what is printed that may still be told
}

// makings are the jobs of images.
type makings struct {
	mu  sync.Mutex // guards what follows
	all []*making  // oldest first
}

// add remembers a job, where there is room for one more.
func (t *makings) add(m *making) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	running := 0
	for _, m := range t.all {
		if m.snapshot().State == "running" {
			running++
		}
	}
	if running >= mostMaking {
		p := problem("capacity", "images are being made already", "wait until one of them is there")
		p.Retry = true
		return p
	}
	if len(t.all) >= mostMade {
		i := slices.IndexFunc(t.all, func(m *making) bool { return m.snapshot().State != "running" })
		t.all = slices.Delete(t.all, i, i+1)
	}
	t.all = append(t.all, m)
	return nil
}

func (t *makings) find(id string) (*making, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.all {
		if m.snapshot().ID == id {
			return m, nil
		}
	}
	return nil, problem("not_found", "there is no such job, or it is no longer remembered", "GET /v1/images lists the images there are")
}

// make begins to make an image, and answers at once.
func (a *API) make(req *request, what string, plan *image.Plan) (any, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.ctx()))
	m := &making{cancel: cancel, clock: a.Clock, changed: make(chan struct{}), room: maxLive,
		state: ImageJob{ID: strings.ToLower(rand.Text()), What: what, Image: plan.Name, State: "running", Started: a.Clock.Now().UTC()}}
	err := a.complete(req.r, plan.Call)
	plan.Call.Profile = "" // its own envelope
	if err == nil {
		err = a.making.add(m)
	}
	if err == nil {
		if err = a.Jobs.BeginJob(req.ctx(), m.kept()); err != nil {
			a.making.drop(m)
		}
	}
	if err != nil {
		cancel()
		return nil, err
	}
	stop := context.AfterFunc(a.ending, cancel)
	who := req.caller()
	a.jobs.all.Go(func() {
		defer stop()
		defer cancel()
		made, err := a.Images.Make(ctx, who, plan, broker.Live{Keep: m.called(a.Jobs), Begun: m.begun, Running: m.running, Stderr: m}, m.heard)
		m.finish(a, made, err)
	})
	req.w.Header().Set("Location", "/v1/images/jobs/"+m.state.ID)
	return withStatus{http.StatusAccepted, m.snapshot()}, nil
}

func (m *making) snapshot() ImageJob {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// addLocked adds an event and wakes who waits for one.
func (m *making) addLocked(kind string, v any) {
	data, err := json.Marshal(v)
	if err != nil || len(m.events) >= maxEvents && kind != "done" {
		return
	}
	m.events = append(m.events, event{kind, data})
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *making) begun(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Call = id
	m.addLocked("begun", map[string]string{"id": id})
}

func (m *making) running(level envelope.Level) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked("running", map[string]envelope.Level{"level": level})
}

// heard is told of the bytes so far, often.
func (m *making) heard(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Bytes = n
	if now := m.clock.Now(); now.Sub(m.told) >= tellEvery {
		m.told = now
		m.addLocked("progress", map[string]int64{"bytes": n})
	}
}

// Write hears what is printed: data of a stranger.
func (m *making) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := min(len(p), m.room); n > 0 {
		m.room -= n
		m.addLocked("words", map[string]envelope.Data{"data": p[:n]})
	}
	return len(p), nil
}

// finish ends the job, which is durable before it is told.
func (m *making) finish(a *API, made *image.Made, err error) {
	end := m.snapshot()
	if err != nil {
		a.Log.Error("an image was not made", "image", end.Image, "error", err.Error())
	}
	end.State, end.Ended = "done", a.Clock.Now().UTC()
	if made != nil && made.Result != nil {
		end.Call = made.Result.ID
	}
	if err != nil {
		end.State, end.Problem = "failed", problemOf(err)
	} else {
		end.Record, end.Digest = made.Record, made.Record.Digest()
	}
	a.made(end)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = end
	m.addLocked("done", end)
}

// after implements feed.
func (m *making) after(n int) (list []event, more <-chan struct{}, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.restored {
		n = 0
	}
	if n < len(m.events) {
		list = slices.Clip(m.events[max(n, 0):])
	}
	return list, m.changed, m.state.State != "running"
}

// listImageJobs is GET /v1/images/jobs.
func listImageJobs(a *API, _ *request) (any, error) {
	a.making.mu.Lock()
	defer a.making.mu.Unlock()
	out := ImageJobList{Jobs: []ImageJob{}}
	for _, m := range slices.Backward(a.making.all) {
		out.Jobs = append(out.Jobs, m.snapshot())
	}
	return out, nil
}

// readImageJob is GET /v1/images/jobs/{id}.
func readImageJob(a *API, req *request) (any, error) {
	m, err := a.making.find(req.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return m.snapshot(), nil
}

// cancelImageJob is DELETE /v1/images/jobs/{id}. Of one that has ended it is
// nothing.
func cancelImageJob(a *API, req *request) (any, error) {
	m, err := a.making.find(req.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	m.cancel()
	return m.snapshot(), nil
}

// streamImageJob is GET /v1/images/jobs/{id}/events.
func streamImageJob(a *API, req *request) (any, error) {
	m, err := a.making.find(req.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	after, err := lastEvent(req)
	if err != nil {
		return nil, err
	}
	end, err := a.following(req)
	if err != nil {
		return nil, err
	}
	defer end()
	return answered{}, a.stream(req, m, after)
}
