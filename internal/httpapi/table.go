package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/trace"
)

// An endpoint is one row of the table of routes: what it is, and what the
// document says of it.
type endpoint struct {
	method, path string
	id, summary  string
	roles        []gateway.Role // any of them, or admin; none: open to all
	query        []parameter
	headers      []parameter
	in           any // a value of the body's type; nil: it has none
	out          any // of the answer's
	status       int // of the answer; 0: 200
	streams      bool
	forms        bool   // the body may be a form with files, too
	upload       bool   // the body is bytes, of at most serve.blob
	file         string // the answer is bytes, of this type
	ends         bool   // it may be the key's own end, and is answered all the same
	do           func(*API, *request) (any, error)
}

type parameter struct{ name, doc string }

// A request is what an endpoint works on.
type request struct {
	w    http.ResponseWriter
	r    *http.Request
	key  gateway.Key
	body []byte
	// trace is of the call that the request makes; nil: there is none.
	trace *trace.Call
	form  *form // where the body is one, in place of body
	own   bool  // what is answered is of the call that the request makes
	turn  *turn // of that call, held by the request; nil: it is not
}

// answered is what an endpoint returns that has answered itself.
type answered struct{}

// encoded is an answer that is JSON already, in pieces.
type encoded [][]byte

// withStatus is an answer with a status of its own.
type withStatus struct {
	status int
	body   any
}

// open reports whether an address is open to all.
func (a *API) open(path string) bool {
	return slices.ContainsFunc(a.table, func(e endpoint) bool { return len(e.roles) == 0 && e.path == path })
}

// match finds the endpoint of a request, and the last part of its address where
// that is a name. other reports whether there is one of another method.
func (a *API) match(method, path string) (e endpoint, values map[string]string, other []string) {
	for _, e := range a.table {
		values, ok := matchPath(e.path, path)
		if !ok {
			continue
		}
		if e.method == method {
			return e, values, nil
		}
		other = append(other, e.method)
	}
	return endpoint{}, nil, other
}

// matchPath matches a pattern with {names}, each of which is one part that is
// not empty.
func matchPath(pattern, path string) (map[string]string, bool) {
	if fixed, _, named := strings.Cut(pattern, "{"); !strings.HasPrefix(path, fixed) || !named && path != pattern {
		return nil, false
	}
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	values := map[string]string{}
	for i, part := range want {
		if name, ok := strings.CutPrefix(part, "{"); ok && got[i] != "" {
			values[strings.TrimSuffix(name, "}")] = got[i]
		} else if part != got[i] {
			return nil, false
		}
	}
	return values, true
}

// route is the end of the chain.
func (a *API) route(w http.ResponseWriter, r *http.Request) {
	e, values, other := a.match(r.Method, r.URL.Path)
	if e.do == nil {
		if len(other) > 0 {
			w.Header().Set("Allow", strings.Join(other, ", "))
			problem("method", "not a method of this address", "").write(w)
			return
		}
		problem("not_found", "there is nothing at this address", "GET /openapi.json says what there is").write(w)
		return
	}
	if s, ok := w.(*seen); ok {
		s.op = e.id
	}
	for name, value := range values {
		r.SetPathValue(name, value)
	}
	req := &request{w: w, r: r}
	req.key, _ = r.Context().Value(keyOf{}).(gateway.Key)
	defer req.leave()
	out, err := a.perform(e, req)
	if _, done := out.(answered); !done {
		if p := a.lapsed(&e, req); p != nil {
			err = p
		}
	}
	defer req.trace.End()
	span := req.trace.Begin(trace.Span{}, "render")
	defer func() { span.End(err != nil) }()
	if err == nil {
		err = a.answer(&e, req, out)
	}
	if err != nil {
		a.fail(req, err)
	}
}

// fail answers a request with what went wrong.
func (a *API) fail(req *request, err error) {
	req.leave()
	p := problemOf(err)
	if p.Status >= 500 && p.Code == "internal" {
		a.Log.Error("request failed", "path", cut(req.r.URL.Path, 256), "error", err.Error())
	}
	a.writeBy(req.w)
	p.write(req.w)
}

// writeBy bounds the time for what is written next.
func (a *API) writeBy(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(a.Serve.Write.Std())) // a recorder in tests has none
}

// perform holds a request to what its endpoint asks for, and does it. What is to
// be a call and does not come to be one is counted here: reading it has its price.
func (a *API) perform(e endpoint, req *request) (any, error) {
	if len(e.roles) > 0 && !slices.ContainsFunc(e.roles, req.key.Role.May) {
		return nil, problem("role", "the key's role is "+req.key.Role.String(), "use a key of role "+e.roles[0].String())
	}
	if len(e.roles) > 0 && !e.calls() {
		if err := a.noCall(req); err != nil {
			return nil, err
		}
	}
	leave, err := a.hold(&e, req)
	if err != nil {
		return nil, err
	}
	defer leave()
	if !e.calls() {
		return a.meet(e, req)
	}
	if after := a.lost.Blocked(req.key.ID); after > 0 {
		return nil, tooMany("too many requests that are no calls", after)
	}
	out, err := a.meet(e, req)
	if err != nil && !recorded(err) {
		a.lost.Take(req.key.ID)
	}
	return out, err
}

func tooMany(what string, after time.Duration) *Problem {
	p := problem("rate", what, "")
	p.Retry, p.after = true, durationOf(after)
	return p
}

// recorded reports whether an error is of a call that came to the gateway, which
// has counted it.
func recorded(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Call != ""
}

// meet reads a request's body, and does what it asks for.
func (a *API) meet(e endpoint, req *request) (any, error) {
	if err := e.asked(req.r.URL.RawQuery); err != nil {
		return nil, err
	}
	if err := a.take(&e, req); err != nil {
		return nil, err
	}
	_ = http.NewResponseController(req.w).SetReadDeadline(time.Time{}) // from here on we wait for the call
	if !e.calls() && req.body != nil && !a.still(req) {                // a call's key is the gateway's to look at
		return nil, problem("key", "the key is no longer good", "")
	}
	return e.do(a, req)
}

// parametersHint says what may stand behind the address.
func (e *endpoint) parametersHint() string {
	var names []string
	for _, p := range e.query {
		names = append(names, p.name)
	}
	if len(names) == 0 {
		return "this address takes none"
	}
	return "there are: " + strings.Join(names, ", ")
}

// still reports whether the key of a request is good now: who is to lose it may
// send a body as slowly as a body may come.
func (a *API) still(req *request) bool {
	k, ok := a.identify(req.r)
	return ok && k.ID == req.key.ID
}

// asked holds the parameters of an address to those that there are, each once
// and with a value. One that is left out means more than any value does: what
// cannot be read, or says nothing, is not taken for it.
func (e *endpoint) asked(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return problem("request", "the parameters of the address cannot be read", "write NAME=VALUE&NAME=VALUE, and other characters as %HH")
	}
	for name, list := range values {
		field := "?" + cut(name, 64)
		switch {
		case !slices.ContainsFunc(e.query, func(p parameter) bool { return p.name == name }):
			return problem("request", "unknown parameter", e.parametersHint()).at(field)
		case len(list) > 1:
			return problem("request", "is there more than once", "write it once").at(field)
		case list[0] == "":
			return problem("request", "has no value", "write one, or leave the parameter out").at(field)
		}
	}
	return nil
}

// noCall counts a request that is no call.
func (a *API) noCall(req *request) error {
	after, ok := a.reads.Take(req.key.ID)
	if ok {
		return nil
	}
	return tooMany("too many requests", after)
}

// calls reports whether the endpoint makes a call, which the gateway counts.
func (e *endpoint) calls() bool { return e.in != nil && slices.Contains(e.roles, gateway.RoleCall) }

// take holds the body to what the endpoint takes, and reads all of it; that of
// an upload is for the endpoint to read.
func (a *API) take(e *endpoint, req *request) error {
	if e.in == nil && !e.upload {
		return e.bare(req.r)
	}
	want := "application/json"
	if e.upload {
		want = octets
	}
	kind, params, err := mime.ParseMediaType(req.r.Header.Get("Content-Type"))
	isForm := e.forms && kind == "multipart/form-data"
	if err != nil || kind != want && !isForm {
		return problem("content_type", "the body must be "+want, "send Content-Type: "+want)
	}
	if req.r.Header.Get("Content-Encoding") != "" {
		return problem("content_type", "a body that is compressed is not taken", "send it as it is")
	}
	if size := req.r.ContentLength; size > a.bodyCap(e) {
		return bodyProblem(&http.MaxBytesError{Limit: a.bodyCap(e)}, e.capKey())
	}
	switch {
	case isForm:
		return a.readForm(req, params["boundary"])
	case e.upload:
		return nil
	}
	if req.body, err = io.ReadAll(req.r.Body); err != nil {
		return bodyProblem(err, e.capKey())
	}
	return nil
}

// bare refuses a body where none is taken: who sends one means something by it,
// and without that the request may do more.
func (e *endpoint) bare(r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	return problem("request", "this address takes no body", "send none; of parameters, "+e.parametersHint())
}

// readForm reads a body that is a form.
func (a *API) readForm(req *request, boundary string) (err error) {
	size := req.r.ContentLength
	if size < 0 {
		size = int64(a.Serve.Body)
	}
	req.form, err = readForm(req.r.Body, boundary, size)
	if errors.Is(err, errForm) {
		return problem("request", strings.TrimPrefix(err.Error(), "httpapi: "), "a part call, of JSON, and a part for each file, by the name of the file")
	}
	if err != nil {
		return bodyProblem(err, "serve.body")
	}
	return nil
}

// bodyCap is how many bytes a body may have.
func (a *API) bodyCap(e *endpoint) int64 {
	if e.upload {
		return int64(a.Serve.Blob)
	}
	return int64(a.Serve.Body)
}

// capKey is the key of the configuration that says so.
func (e *endpoint) capKey() string {
	if e.upload {
		return "serve.blob"
	}
	return "serve.body"
}

// digest is what an idempotency key is held to: the same body again.
func (req *request) digest() [32]byte {
	if req.form != nil {
		return req.form.digest
	}
	return sha256.Sum256(req.body)
}

// decode reads the body strictly.
func decode[T any](req *request) (v T, err error) {
	err = envelope.Decode(req.body, int64(len(req.body)), &v)
	return v, err
}

// caller is who calls, as broker and row see it.
func (req *request) caller() broker.Caller {
	return broker.Caller{Name: "key:" + req.key.ID, Team: req.key.Team, Key: req.key.ID, Profiles: req.key.Profiles}
}

// leave gives up the turn of the call that the request makes: nothing large of it
// is to be sent any more.
func (req *request) leave() {
	if req.turn != nil {
		req.turn.drop()
		req.turn = nil
	}
}

func (req *request) ctx() context.Context { return req.r.Context() }

func durationOf(d time.Duration) envelope.Duration {
	return envelope.Duration(max((d+time.Second-1)/time.Second, 1) * time.Second)
}
