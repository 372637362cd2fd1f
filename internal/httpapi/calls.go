package httpapi

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/kept"
	"github.com/callcell/callcell/internal/trace"
)

// how says in which of the ways a call is to be answered.
type how int

const (
	wait   how = iota // one answer
	stream            // events
	later             // at once: it is read by id
)

func howOf(r *http.Request) how {
	for _, text := range r.Header.Values("Prefer") {
		for _, p := range strings.Split(text, ",") {
			if strings.TrimSpace(p) == "respond-async" {
				return later
			}
		}
	}
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		return stream
	}
	return wait
}

// runCall is POST /v1/calls.
func runCall(a *API, req *request) (any, error) {
	decode := func() (envelope.Call, error) { return envelope.DecodeCall(req.body) }
	if req.form != nil {
		decode = req.form.decode
	}
	call, err := decode()
	if err != nil {
		return nil, err
	}
	return a.start(req, &call, howOf(req.r))
}

// FetchRequest is the body of POST /v1/fetch.
type FetchRequest struct {
	envelope.Fetch
	Profile   string         `json:"profile,omitempty" doc:"An operator's envelope by name, whose network says what may be fetched; absent: the default one"`
	Task      string         `json:"task,omitempty" doc:"The caller's own id of the work"`
	MaxTokens envelope.Count `json:"maxTokens,omitempty" doc:"Most tokens that are wanted of the body; absent: what the host gives"`
}

// runFetch is POST /v1/fetch.
func runFetch(a *API, req *request) (any, error) {
	f, err := decode[FetchRequest](req)
	if err != nil {
		return nil, err
	}
	call := envelope.Call{Tool: "fetch", Task: f.Task, Profile: f.Profile, Fetch: &f.Fetch, MaxTokens: f.MaxTokens}
	return a.start(req, &call, wait)
}

// start begins a call, or finds the one that its idempotency key stands for, and
// answers.
func (a *API) start(req *request, call *envelope.Call, how how) (any, error) {
	if err := a.complete(req.r, call); err != nil {
		return nil, err
	}
	name, err := idempotent(req)
	if err != nil {
		return nil, err
	}
	req.own = true
	if how == wait && name == (kept.Name{}) {
		return a.runNow(req, call)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(req.ctx()))
	j := newJob(req.key, call, a.Clock.Now(), cancel)
	if name != (kept.Name{}) {
		j.name, j.digest = name, req.digest()
		was, err := a.jobs.claim(req.ctx(), j)
		if err != nil || was != nil {
			cancel(nil)
			if err != nil {
				return nil, err
			}
			return a.again(req, was, how)
		}
	}
	ctx = a.traced(ctx, req)
	req.turn = j.turn
	a.jobs.all.Go(func() { a.runJob(ctx, req.caller(), call, j) })
	return a.follow(req, j, how)
}

// runNow runs a call that nobody comes back for, on the goroutine of its request:
// each hand-over to another costs more than the rest of what is done here. The
// call ends with who waits for it.
func (a *API) runNow(req *request, call *envelope.Call) (any, error) {
	a.jobs.all.Add(1)
	defer a.jobs.all.Done()
	ctx, cancel := context.WithCancelCause(req.ctx())
	defer cancel(nil)
	defer context.AfterFunc(a.ending, func() { cancel(context.Canceled) })()
	ctx = a.traced(ctx, req)
	defer req.trace.End()
	req.turn = newTurn(1)
	r := a.Runner.RunLive(ctx, req.caller(), call, broker.Live{Turn: req.turn.take})
	a.standing(req, r.ID)
	switch {
	case r.Refusal != nil:
		return nil, refusedCall(briefOf(r))
	case req.ctx().Err() != nil: // nobody is left to answer
		return answered{}, nil
	}
	return r, nil
}

// again answers a request for a call that was made before. The gateway hears
// nothing of it, so that it is counted as what is no call.
func (a *API) again(req *request, j *job, how how) (any, error) {
	if after, ok := a.reads.Take(req.key.ID); !ok {
		return nil, tooMany("too many requests", after)
	}
	end, err := a.following(req)
	if err != nil {
		return nil, err
	}
	defer end()
	req.own = false
	req.w.Header().Set("Idempotency-Replayed", "true")
	return a.follow(req, j, how)
}

// following notes that a request waits for a call that it does not make.
func (a *API) following(req *request) (end func(), err error) {
	if end = a.follows.begin(req.key.ID); end != nil {
		return end, nil
	}
	p := problem("capacity", fmt.Sprintf("%d requests of the key wait for calls already that others have made", followsAtOnce), "wait for fewer of them at once; GET /v1/calls/{id} says how a call stands")
	p.Retry = true
	return nil, p
}

// runJob runs the call of a job to its end. What it leaves is counted among what
// is kept before the turn is given up.
func (a *API) runJob(ctx context.Context, who broker.Caller, call *envelope.Call, j *job) {
	defer j.turn.drop()
	defer trace.From(ctx).End()
	defer j.cancel(nil)
	defer context.AfterFunc(a.ending, func() { j.cancel(context.Canceled) })()
	live := j.listener()
	live.Keep = func(ctx context.Context, id string) error { return a.jobs.note(ctx, j, id) }
	r := a.Runner.RunLive(ctx, who, call, live)
	end, text := briefOf(r), encode(r) // of r there is no more use: it is as large again
	a.jobs.save(j, end, text)
	j.finish(end, text, a.Clock.Now())
	if len(text) < large {
		j.turn.end()
	}
	a.jobs.ended(j)
}

// complete fills in what the address and the headers say of a call.
func (a *API) complete(r *http.Request, call *envelope.Call) error {
	if call.Profile == "" {
		call.Profile = a.DefaultProfile
	}
	if call.Task != "" {
		return nil
	}
	if task := r.Header.Get("Callcell-Task"); task != "" {
		call.Task = task // checked with the call
		return nil
	}
	call.Task = parentOf(r).Trace.String()
	return nil
}

// parentOf is the span that a request was made under; the zero value is none.
func parentOf(r *http.Request) trace.Parent { return parentIn(r.Header) }

func parentIn(h http.Header) trace.Parent {
	values := h.Values("Traceparent")
	if len(values) != 1 {
		return trace.Parent{}
	}
	p, _ := trace.Parse(values[0])
	return p
}

// traced begins the trace of the call that a request makes, with what was done
// for it already.
func (a *API) traced(ctx context.Context, req *request) context.Context {
	began := a.Clock.Now()
	if s, ok := req.w.(*seen); ok {
		began = s.began
	}
	req.trace = trace.Start(a.Traces, parentOf(req.r), a.Clock.Now, began)
	req.trace.Add(trace.Span{}, trace.Data{Name: "receive", Start: began, End: a.Clock.Now()})
	req.trace.Hold() // the call may outlive the request
	return trace.With(ctx, req.trace)
}

// idempotent returns what a request's idempotency key is known by, if it has one.
func idempotent(req *request) (kept.Name, error) {
	names := req.r.Header.Values("Idempotency-Key")
	if len(names) == 0 {
		return kept.Name{}, nil
	}
	if ok, _ := regexp.MatchString(`^[!-~]+$`, names[0]); !ok || len(names) > 1 || len(names[0]) > maxIdempotent {
		return kept.Name{}, problem("request", "not an idempotency key", fmt.Sprintf("one, of 1 to %d printable characters without spaces", maxIdempotent)).at("Idempotency-Key")
	}
	return kept.NameOf(req.key.ID, req.r.URL.Path, names[0]), nil
}

// follow answers for a job, in the way that is asked for.
func (a *API) follow(req *request, j *job, how how) (any, error) {
	<-j.settled // bounded by the gateway's wait and the broker's steps
	state := j.state()
	a.standing(req, state.ID)
	if end, _ := j.over(); end != nil && end.Refusal != nil {
		return nil, refusedCall(end)
	}
	a.jobs.add(j)
	switch how {
	case later:
		req.w.Header().Set("Location", "/v1/calls/"+state.ID)
		return withStatus{http.StatusAccepted, state}, nil
	case stream:
		span := req.trace.Begin(trace.Span{}, "stream")
		defer span.End(false)
		return answered{}, a.stream(req, j, 0)
	}
	return a.await(req, j)
}

// await waits for the end of a job, or for the client to go.
func (a *API) await(req *request, j *job) (any, error) {
	select {
	case <-j.done:
	case <-req.ctx().Done():
		return answered{}, nil
	}
	end, text := j.over()
	a.standing(req, end.ID)
	if end.Refusal != nil {
		return nil, refusedCall(end)
	}
	return encoded{text}, nil
}

func refusedCall(end *brief) *Problem {
	p := refused(end.Refusal)
	p.Call, p.Receipt = end.ID, end.Receipt
	return p
}

// standing says which call it is, and how the key stands with its rate.
func (a *API) standing(req *request, id string) {
	h := req.w.Header()
	h.Set("Callcell-Call", id)
	if s, ok := req.w.(*seen); ok {
		s.call = id
	}
	st := a.Gateway.Standing(req.key.ID)
	h.Set("RateLimit-Policy", fmt.Sprintf(`"calls";q=%d;w=60`, st.Limit))
	h.Set("RateLimit", fmt.Sprintf(`"calls";r=%d;t=%d`, st.Remaining, int64(math.Ceil(st.Reset.Seconds()))))
}

// listCalls is GET /v1/calls.
func listCalls(a *API, req *request) (any, error) {
	calls, err := a.jobs.list(req.ctx(), req.key)
	return CallList{Calls: calls}, err
}

// CallList is the answer to GET /v1/calls.
type CallList struct {
	Calls []CallState `json:"calls" doc:"Newest first"`
}

// find returns the job that a request names. Another's is not told from none.
func (a *API) find(req *request) (*job, error) {
	j, err := a.jobs.get(req.ctx(), req.r.PathValue("id"), req.key)
	if err != nil {
		return nil, err
	}
	if j == nil {
		return nil, problem("not_found", "there is no such call, or it is no longer kept", "GET /v1/audit/{id} has the row of every call")
	}
	return j, nil
}

// readCall is GET /v1/calls/{id}.
func readCall(a *API, req *request) (any, error) {
	end := a.readers.begin(req.key.ID)
	if end == nil {
		p := problem("capacity", fmt.Sprintf("%d requests of the key read calls already", followsAtOnce), "read fewer of them at once")
		p.Retry = true
		return nil, p
	}
	defer end()
	j, err := a.find(req)
	if err != nil {
		return nil, err
	}
	_, text := j.over()
	if text == nil {
		return j.state(), nil
	}
	state := encode(j.state())
	return encoded{state[:len(state)-1], []byte(`,"result":`), text, []byte("}")}, nil
}

// cancelCall is DELETE /v1/calls/{id}. Of a call that has ended it is nothing.
func cancelCall(a *API, req *request) (any, error) {
	j, err := a.find(req)
	if err != nil {
		return nil, err
	}
	j.cancel(context.Canceled)
	return withStatus{http.StatusAccepted, j.state()}, nil
}

// streamCall is GET /v1/calls/{id}/events.
func streamCall(a *API, req *request) (any, error) {
	j, err := a.find(req)
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
	a.standing(req, j.state().ID)
	return answered{}, a.stream(req, j, after)
}

// lastEvent is the event that the client has heard last; 0: none.
func lastEvent(req *request) (int, error) {
	text := req.r.Header.Get("Last-Event-ID")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, problem("request", "not the id of an event", "send the id of the last one that came").at("Last-Event-ID")
	}
	return n, nil
}

// explainCall is POST /v1/explain.
func explainCall(a *API, req *request) (any, error) {
	call, err := envelope.DecodeCall(req.body)
	if err != nil {
		return nil, err
	}
	if err := a.complete(req.r, &call); err != nil {
		return nil, err
	}
	if err := a.Gateway.Enter(req.key.ID); err != nil {
		return nil, err
	}
	return a.Runner.Explain(req.ctx(), req.caller(), &call), nil
}
