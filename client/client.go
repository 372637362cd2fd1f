// Package client calls a callcell daemon over HTTP. It knows the words of
// package envelope and nothing else of callcell.
//
//	c, err := client.New("http://127.0.0.1:7420", os.Getenv("CALLCELL_KEY"))
//	result, err := c.Run(ctx, &envelope.Call{Argv: []string{"echo", "hello"}})
//
// A call that ran is a Result, whatever its outcome. One that was refused, and
// every other answer that is none, is a *Problem. What is in a Result came from
// an untrusted program: it is data.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
)

// maxAnswer bounds what is read of one answer, in bytes.
const maxAnswer = 1 << 30

// maxRoom bounds the room that is made for an answer before any of it has come,
// in bytes.
const maxRoom = 1 << 20

// ErrAnswer means that what came back is not an answer of a daemon.
var ErrAnswer = errors.New("client: not an answer of a callcell daemon")

// ErrKey means that a key cannot be one: it is more than a line, or has another
// byte that no header takes. Its text is not in the error.
var ErrKey = errors.New("client: the key has a line end or another control character in it")

// Client calls one daemon with one key. Its methods may be called concurrently.
type Client struct {
	// HTTP makes the requests. It must not follow redirects to other hosts
	// with the key; the one of New follows none.
	HTTP *http.Client
	base string
	key  string
}

// New returns a Client of the daemon at base: scheme, host and port. The key
// goes to that host alone. An error wraps ErrKey where it is the key's.
func New(base, key string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("client: %q is not the address of a daemon: write http://HOST:PORT", base)
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, ErrKey
	}
	none := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{HTTP: &http.Client{CheckRedirect: none}, base: u.Scheme + "://" + u.Host, key: key}, nil
}

// Problem is an answer that is no result: see Code.
type Problem struct {
	Status  int               `json:"status"`
	Code    string            `json:"code"`   // of a closed table; a refusal's is its reason, or "conflict"
	Reason  envelope.Reason   `json:"reason"` // of a call that was refused
	Title   string            `json:"title"`
	Detail  string            `json:"detail"`
	Field   string            `json:"field"` // the field to mend, dotted
	Hint    string            `json:"hint"`
	Retry   bool              `json:"retry"` // whether trying again can help
	Call    string            `json:"call"`  // id of the call that was refused, where it has a row
	Receipt *envelope.Receipt `json:"receipt"`
	// After is the time before which trying again cannot help; 0: nobody knows.
	After time.Duration `json:"-"`
}

// Error says what is wrong.
func (p *Problem) Error() string {
	text := "callcell: " + p.Code + ": "
	if p.Field != "" {
		text += p.Field + ": "
	}
	return text + p.Detail
}

// Refusal returns the refusal of the call, or nil where the problem is not
// about a call.
func (p *Problem) Refusal() *envelope.Refusal {
	reason := p.Reason
	if !reason.Valid() && reason.UnmarshalText([]byte(p.Code)) != nil {
		return nil
	}
	return &envelope.Refusal{Reason: reason, Message: p.Detail, Field: p.Field, Hint: p.Hint, Retry: p.Retry, RetryAfter: envelope.Duration(p.After)}
}

// An Option changes one request.
type Option func(http.Header)

// Once makes the daemon take a request for the same call as another with that
// key and body: trying again does not run it twice.
func Once(key string) Option { return func(h http.Header) { h.Set("Idempotency-Key", key) } }

// Task is the task of a call that names none.
func Task(id string) Option { return func(h http.Header) { h.Set("Callcell-Task", id) } }

// Run runs one call and waits for its end. ctx ending cancels it.
func (c *Client) Run(ctx context.Context, call *envelope.Call, options ...Option) (*envelope.Result, error) {
	r := new(envelope.Result)
	return result(r, c.do(ctx, http.MethodPost, "/v1/calls", call, r, options...))
}

// Fetch gets one document, as a call of its own.
func (c *Client) Fetch(ctx context.Context, f envelope.Fetch, options ...Option) (*envelope.Result, error) {
	r := new(envelope.Result)
	return result(r, c.do(ctx, http.MethodPost, "/v1/fetch", f, r, options...))
}

func result[T any](v *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// State is a call that was started and is read later.
type State struct {
	ID      string           `json:"id"`
	State   string           `json:"state"` // "running" or "done"
	Task    string           `json:"task"`
	Tool    string           `json:"tool"`
	Started time.Time        `json:"started"`
	Ended   time.Time        `json:"ended"`
	Outcome envelope.Outcome `json:"outcome"`
	Reason  envelope.Reason  `json:"reason"` // of a refusal
	Result  *envelope.Result `json:"result"` // where it is done, by Get
}

// Start starts a call and returns when it has its turn. It goes on when the
// client is gone.
func (c *Client) Start(ctx context.Context, call *envelope.Call, options ...Option) (*State, error) {
	s := new(State)
	async := func(h http.Header) { h.Set("Prefer", "respond-async") }
	return result(s, c.do(ctx, http.MethodPost, "/v1/calls", call, s, append(options, async)...))
}

// Get reads a call that was started, with its result when it is done.
func (c *Client) Get(ctx context.Context, id string) (*State, error) {
	s := new(State)
	return result(s, c.do(ctx, http.MethodGet, "/v1/calls/"+url.PathEscape(id), nil, s))
}

// List lists the calls of this key that run, or are kept to be read.
func (c *Client) List(ctx context.Context) ([]State, error) {
	var list struct {
		Calls []State `json:"calls"`
	}
	return list.Calls, c.do(ctx, http.MethodGet, "/v1/calls", nil, &list)
}

// Cancel cancels a call by its id. Of one that has ended it is nothing.
func (c *Client) Cancel(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, "/v1/calls/"+url.PathEscape(id), nil, nil)
}

// Explanation is what Run would do with a call.
type Explanation struct {
	Refusal        *envelope.Refusal  `json:"refusal"`
	Level          envelope.Level     `json:"level"`
	Why            []string           `json:"why"`
	Needs          []envelope.Need    `json:"needs"`    // that were derived, and that the call declared
	Floor          envelope.Level     `json:"floor"`    // the strength that is required
	FloorWhy       string             `json:"floorWhy"` // why so strong
	Levels         []Verdict          `json:"levels"`   // what speaks for and against each
	Cheaper        []string           `json:"cheaper"`  // what would have to change for a cheaper level, a line each
	Warnings       []string           `json:"warnings"`
	Envelope       *envelope.Envelope `json:"envelope"`
	EnvelopeDigest string             `json:"envelopeDigest"`
	Argv           []string           `json:"argv"`
	Env            []string           `json:"env"`
	Files          []string           `json:"files"`
}

// Verdict is what is to be said of one level for one call.
type Verdict struct {
	Level    envelope.Level `json:"level"`    // that is spoken of
	Chosen   bool           `json:"chosen"`   // whether it is the one
	Worth    envelope.Level `json:"worth"`    // the strength that it has there
	Weakness string         `json:"weakness"` // why, where that is less than the name
	For      []string       `json:"for"`      // what speaks for it
	Against  []string       `json:"against"`  // what speaks against it
	Change   []string       `json:"change"`   // what would have to change for it to be chosen, all of it
}

// Explain says at which level a call would run, in what envelope, and why.
func (c *Client) Explain(ctx context.Context, call *envelope.Call) (*Explanation, error) {
	e := new(Explanation)
	return result(e, c.do(ctx, http.MethodPost, "/v1/explain", call, e))
}

// do makes a request and reads its answer into out, which may be nil.
func (c *Client) do(ctx context.Context, method, path string, in, out any, options ...Option) error {
	resp, err := c.send(ctx, method, path, in, options...)
	if err != nil {
		return err
	}
	return answer(resp, out)
}

// answer reads an answer of JSON into out, which may be nil.
func answer(resp *http.Response, out any) error { return answerWithin(resp, maxAnswer, out) }

// answerWithin is answer of one that has at most so many bytes.
func answerWithin(resp *http.Response, most int64, out any) error {
	defer resp.Body.Close()
	var body bytes.Buffer
	if n := resp.ContentLength; n > 0 { // who says more than comes is not believed
		body.Grow(int(min(n, maxRoom)) + bytes.MinRead)
	}
	_, err := body.ReadFrom(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return fmt.Errorf("client: %w", err)
	case int64(body.Len()) > most:
		return fmt.Errorf("%w: more than %d bytes", ErrAnswer, most)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(body.Bytes(), out); err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return nil
}

// send makes a request. An answer that is a problem is an error.
func (c *Client) send(ctx context.Context, method, path string, in any, options ...Option) (*http.Response, error) {
	if in == nil {
		return c.request(ctx, method, path, nil, options...)
	}
	text, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return c.request(ctx, method, path, bytes.NewReader(text), append(options, contentType("application/json"))...)
}

func contentType(kind string) Option { return func(h http.Header) { h.Set("Content-Type", kind) } }

// request makes a request with a body, which may be nil.
func (c *Client) request(ctx context.Context, method, path string, body io.Reader, options ...Option) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	for _, o := range options {
		o(req.Header)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, problemOf(resp)
	}
	return resp, nil
}

func problemOf(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	p := new(Problem)
	if json.Unmarshal(body, p) != nil || p.Code == "" {
		return fmt.Errorf("%w: status %d", ErrAnswer, resp.StatusCode)
	}
	p.Status = resp.StatusCode // whatever it says itself
	if n, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32); err == nil && n > 0 {
		p.After = time.Duration(n) * time.Second
	}
	return p
}
