package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/mcp"
	"github.com/callcell/callcell/internal/mcp/hub"
)

// mcpAtOnce bounds the requests of a key to /mcp at once: each holds a
// connection. How many of them are calls that run is the gateway's to say.
const mcpAtOnce = 128

func mcpEndpoints() []endpoint {
	call := []gateway.Role{gateway.RoleCall}
	session := parameter{mcp.SessionHeader, "The session, as the answer to initialize named it"}
	revision := parameter{mcp.RevisionHeader, "The revision of the protocol; from " + mcp.Sessionless + " on there are no sessions"}
	return []endpoint{
		{method: http.MethodPost, path: "/mcp", id: "mcpMessage", roles: call, in: json.RawMessage{}, out: json.RawMessage{}, streams: true, do: mcpMessage,
			summary: "A message of the Model Context Protocol, over streamable HTTP",
			headers: []parameter{session, revision, {"Callcell-Task", "The caller's own id of the work; else the trace of Traceparent, else one of the session"}}},
		{method: http.MethodGet, path: "/mcp", id: "mcpListen", roles: call, streams: true, do: mcpListen,
			summary: "What the server has to say in a session by itself", headers: []parameter{session, revision}},
		{method: http.MethodDelete, path: "/mcp", id: "mcpEnd", roles: call, status: http.StatusNoContent, do: mcpListen,
			summary: "End a session: its calls are cancelled", headers: []parameter{session, revision}},
	}
}

// heardHeader has the name of a message, for who is told that its call was
// counted. What a client sends in it is overwritten.
const heardHeader = "Callcell-Message"

// cancelSize is how large a message may be that cancels a call, in bytes, to be
// counted as such.
const cancelSize = 1 << 10

// mcpMessage is POST /mcp. A call of a tool is counted by the gateway when it is
// made, and what tells us that a call is cancelled is not held up; any other
// message is no call, and so is a call that ends before it comes to its tool.
func mcpMessage(a *API, req *request) (any, error) {
	msg, err := mcp.ReadMessage(req.body)
	if err != nil {
		return nil, problem("request", err.Error(), "send one message of JSON-RPC 2.0")
	}
	if !msg.Counted() && !a.cancelling(req, &msg) {
		if err := a.noCall(req); err != nil {
			return nil, err
		}
	}
	req.r.Body = io.NopCloser(bytes.NewReader(req.body))
	m := &message{Message: msg, key: req.key.ID}
	defer a.hear(req, m)()
	if !msg.Counted() {
		return a.speak(req, m)
	}
	m.turn = newTurn(1)
	req.own, req.turn = true, m.turn
	out, err := a.speak(req, m)
	if err == nil && !m.counted.Load() { // the same as with an error, see perform
		a.lost.Take(req.key.ID)
	}
	return out, err
}

// hear has a message be known by a name in the header of its request, until its
// end.
func (a *API) hear(req *request, m *message) (end func()) {
	name := rand.Text()
	req.r.Header.Set(heardHeader, name)
	a.heard.Store(name, m)
	return func() {
		a.heard.Delete(name)
		m.made()
	}
}

// of is the message of a request; nil, when that is over.
func (a *API) of(h http.Header) *message {
	m, _ := a.heard.Load(h.Get(heardHeader))
	of, _ := m.(*message)
	return of
}

// cancelling reports whether a message cancels a call, and counts those.
func (a *API) cancelling(req *request, msg *mcp.Message) bool {
	if msg.Method != "notifications/cancelled" || len(req.body) > cancelSize {
		return false
	}
	_, ok := a.cancels.Take(req.key.ID)
	return ok
}

// A message is one under way.
type message struct {
	mcp.Message
	key     string
	counted atomic.Bool // its call was
	turn    *turn       // of its call, until the request is over; nil: it calls no tool

	mu    sync.Mutex // guards what follows
	over  bool       // its answer is there, or never will be
	leave func()     // the line in which it is made; nil: it is in none
}

// making notes that its answer is made in a line, until it is there.
func (m *message) making(leave func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leave = leave; m.over {
		leave()
	}
}

// made notes that the answer is there.
func (m *message) made() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	if m.leave != nil {
		m.leave()
	}
}

// The making of an answer out of files: what the SDK has of it at the same time,
// in bytes of its JSON, and what a list of files has at most.
const (
	sdkCopies = 4
	listBytes = 4 << 20
)

// makes waits for the turn of an answer of so many bytes that the SDK is to make.
// While it is sent it is there once, and counted as every other one.
func (a *API) makes(ctx context.Context, m *message, size int64) error {
	leave, err := a.line.enter(ctx, m.key, sdkCopies*size)
	if err != nil {
		return err
	}
	m.making(leave)
	return nil
}

// reading is told that a file is read, by a message of a session.
func (a *API) reading(ctx context.Context, h http.Header, size int64) error {
	m := a.of(h)
	if m == nil {
		return context.Canceled
	}
	return a.makes(ctx, m, size)
}

type messageOf struct{}

// counted notes that the gateway has counted the call of a message. The call that
// is made with what it returns has the message's turn.
func (a *API) counted(ctx context.Context, h http.Header) context.Context {
	m := a.of(h)
	if m == nil { // its request is over
		return ctx
	}
	m.counted.Store(true)
	return context.WithValue(ctx, messageOf{}, m)
}

// mcpListen is GET and DELETE /mcp.
func mcpListen(a *API, req *request) (any, error) { return a.speak(req, nil) }

// speak has the hub answer; m is nil where the request has no message.
func (a *API) speak(req *request, m *message) (any, error) {
	end := a.speaks.begin(req.key.ID)
	if end == nil {
		p := problem("capacity", fmt.Sprintf("%d requests of the key are under way already", mcpAtOnce), "make fewer at once")
		p.Retry = true
		return nil, p
	}
	defer end()
	w, ctx, stop := a.events(req)
	if !req.own { // else the call has its turn until all is sent
		w.room = func(text ...[]byte) (func(), error) { return a.roomOf(req, m, text...) }
	}
	var msg *mcp.Message
	if m != nil {
		msg = &m.Message
	}
	var beating sync.WaitGroup
	beating.Go(func() { w.beat(msg != nil && msg.ID != nil && msg.Method == "tools/call") })
	defer beating.Wait()
	defer stop()
	if msg != nil && msg.Method == "resources/list" {
		if err := a.makes(ctx, m, listBytes); err != nil {
			return answered{}, nil // the client is gone, or its key is over
		}
	}
	owner := hub.Owner{Key: req.key.ID, Make: func(session string) (*mcp.Server, error) { return a.assistant(req, session) }}
	w.Header().Set("X-Accel-Buffering", "no") // a proxy's
	err := a.mcp.Serve(w, req.r.WithContext(ctx), owner, msg)
	if w.cutOff() {
		return nil, noKey()
	}
	full := w.overfull()
	switch {
	case full != nil:
		return nil, full
	case err != nil && !w.started():
		return nil, sessionProblem(err)
	}
	return answered{}, nil
}

// roomOf takes room for what is sent to the client of a message: its making is
// over.
func (a *API) roomOf(req *request, m *message, text ...[]byte) (leave func(), err error) {
	leave, err = a.room(req, text...)
	if m != nil {
		m.made()
	}
	return leave, err
}

func sessionProblem(err error) error {
	var p *Problem
	switch {
	case errors.Is(err, hub.ErrUnknown):
		return problem("not_found", "there is no such session, or it has ended", "begin another one: initialize")
	case errors.Is(err, hub.ErrNone):
		return problem("request", "the request names no session", "begin one with initialize, or use the revision "+mcp.Sessionless).at(mcp.SessionHeader)
	case errors.Is(err, hub.ErrFull), errors.Is(err, hub.ErrClosed):
		p = problem("capacity", "there is no room for another session", "end one, or wait until one is idle for long enough")
		p.Retry = true
		return p
	}
	return err
}

// assistant makes the server of a session of a request's key.
func (a *API) assistant(req *request, session string) (*mcp.Server, error) {
	profiles := a.profilesOf(&req.key)
	if len(profiles) == 0 {
		return nil, problem("permission", "the key may name no profile that there is", "ask for a key with one")
	}
	key := req.key.ID
	o := mcp.Options{
		Runner: assistants{a}, Profiles: profiles, Caller: req.caller(), Version: a.Version, Calls: mcpAtOnce, Session: session,
		Room: a.rooms.of(key), Entered: func() error { return a.Gateway.Enter(key) }, Heard: a.counted, Reads: a.reading, Log: a.Log, Traces: a.Traces,
		Task: taskOf(req.r.Header), TaskOf: taskOf,
	}
	if session == "" {
		o.Task = ""
		o.TaskOf = func(h http.Header) string { return cmp.Or(taskOf(h), a.hour(key)) }
	}
	server, err := mcp.New(o)
	if r := envelope.RefusalOf(err); r != nil {
		return nil, problem("request", r.Message, r.Hint).at("Callcell-Task")
	}
	return server, err
}

// hour is the task of calls that name none and are of no session: all of the
// key's in one hour of UTC, so that its ceilings bound a loop and end no client.
func (a *API) hour(key string) string {
	return "mcp-" + key + "-" + a.Clock.Now().UTC().Format("2006-01-02T15")
}

// profilesOf are the profiles that a key may name, the default one first.
func (a *API) profilesOf(k *gateway.Key) (list []mcp.Profile) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(a.Profiles)), func(name string) bool { return name == a.DefaultProfile })
	for _, name := range append([]string{a.DefaultProfile}, names...) {
		if e, ok := a.Profiles[name]; ok && k.May(name) {
			list = append(list, mcp.Profile{Name: name, Envelope: e.Clone()})
		}
	}
	return list
}

// taskOf is the task that the head of a request names, or "".
func taskOf(h http.Header) string {
	return cmp.Or(h.Get("Callcell-Task"), parentIn(h).Trace.String())
}

// assistants is a Runner as package mcp sees it.
type assistants struct{ a *API }

// Run implements mcp.Runner.
func (s assistants) Run(ctx context.Context, who broker.Caller, call *envelope.Call) *envelope.Result {
	var live broker.Live
	if m, ok := ctx.Value(messageOf{}).(*message); ok && m.turn != nil {
		live.Turn = m.turn.take
	}
	return s.a.Runner.RunLive(ctx, who, call, live)
}

// Explain implements mcp.Runner.
func (s assistants) Explain(ctx context.Context, who broker.Caller, call *envelope.Call) *broker.Explanation {
	return s.a.Runner.Explain(ctx, who, call)
}

// rooms are where the files of sessions are kept, by key.
type rooms struct {
	all   *mcp.Room
	ofKey int64 // bytes

	mu sync.Mutex // guards by
	by map[string]*mcp.Room
}

func newRooms(most int64) *rooms {
	return &rooms{all: mcp.NewRoom(most, nil), ofKey: most / 4, by: map[string]*mcp.Room{}}
}

// of returns the room of a key. Where there are many, those that are empty are
// forgotten.
func (r *rooms) of(key string) *mcp.Room {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.by) >= 1024 {
		maps.DeleteFunc(r.by, func(_ string, room *mcp.Room) bool { return room.Used() == 0 })
	}
	if r.by[key] == nil {
		r.by[key] = mcp.NewRoom(r.ofKey, r.all)
	}
	return r.by[key]
}
