// Package callcell runs tool calls of AI agents in cells, from within your own
// program: one call, one cell, a sandbox that is built for that call from an
// explicit envelope and destroyed after it. Every call leaves a row in a
// chained log.
//
// # What your program has to bring
//
// A cell is built by two small binaries, callcell-launcher and callcell-init.
// They are installed beside each other, of the same version as this package,
// and Config.Helpers names their directory: nothing is looked for in PATH and
// nothing is unpacked.
//
// The container level needs Linux and root: the launcher makes namespaces and
// control groups. Where it cannot, New succeeds all the same, and calls are
// refused with the reason. Your process keeps its rights: this package gives up
// none, and the launcher takes none from you. Whoever wants the process that
// holds keys and parses requests to be unprivileged runs it so, and callcell in
// another one: a daemon, with package client in the first. From the first secret
// on that a call or a collector needs, your process leaves no core dump, and no
// other process of its user can read its memory.
//
// # Calls and envelopes
//
// Package envelope has the words. A Call is data, from whoever asks: what to
// run, or the document to fetch, and its inputs. An Envelope is permission, from you: what the call may
// touch. Envelopes are named in Config.Profiles, a call names one of them and
// may narrow it. So a call can be decoded from what a model sent
// (envelope.DecodeCall) and handed to Run as it is: it cannot ask for more than
// its profile gives, names no path of the host, and is refused where it is
// malformed.
//
// A Result is data again: of an untrusted program. Its output is bytes; do not
// print it to a terminal, or hand it to a model, as words of your own.
//
// # Configuration
//
// Where the fields of Config are not enough, a configuration document has the
// rest: resolvers and limits of egress, the sources of credentials, anchors and
// the key of the log, a collector of traces, receivers of webhooks, the room for
// images and workspaces. It is the document that the commands and the daemon
// read, held to the same checks: LoadConfig reads its file, ParseConfig a text.
// Nothing of it is for Go alone, and no call can change it. What it says of
// serving (serve, gateway, health) is checked and has no use here.
//
// # Images, working trees, workspaces
//
// Code that people have not read runs with a kernel of its own (level
// userkernel), which sees a snapshot of this host's programs: Images.Snapshot
// makes it, once. ReadTree takes a working tree of this host into a call, and
// applies what became of it. A workspace is a tree that lives on from call to
// call: a call names it, and Workspaces looks at its versions.
package callcell

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/trace"
)

// Callcell runs calls. Its methods may be called concurrently.
type Callcell struct {
	house  *assembly.House
	config *config.Config // never changed
	caller broker.Caller
	ending context.Context // ends with Close
	end    context.CancelFunc

	mu     sync.Mutex // guards closed, and calls against an Add after Wait
	closed bool
	calls  sync.WaitGroup // that are under way
	once   sync.Once
	err    error // of Close, after once
}

// New opens the audit log, starts the launcher, and asks it what this host can
// enforce. ctx bounds the opening alone, not what runs later. An error is a
// *ConfigError.
func New(ctx context.Context, c Config) (*Callcell, error) {
	conf, err := c.complete()
	if err != nil {
		return nil, err
	}
	house, err := assembly.Open(ctx, assembly.Start(conf), assembly.Options{Config: conf, Watch: watch{c.Warn, c.Ended}, Version: version()})
	if err != nil {
		return nil, openError(err)
	}
	caller := c.Caller
	if caller == "" {
		caller = "embedded:" + filepath.Base(os.Args[0])
	}
	cc := &Callcell{house: house, config: conf, caller: broker.Caller{Name: caller}}
	cc.ending, cc.end = context.WithCancel(context.Background())
	return cc, nil
}

// Run runs one call in a cell of its own. It never returns nil, and not before
// the cell is destroyed and the row written. A refusal (nothing ran, and why)
// and an outcome (how it ended) are both in the result; neither is an error. ctx
// ending cancels the call; its teardown and its row are done all the same. Run
// does not change call, and nobody else may until it has returned.
func (c *Callcell) Run(ctx context.Context, call *envelope.Call) *envelope.Result {
	if !c.enter() {
		return &envelope.Result{Refusal: closed()}
	}
	defer c.calls.Done()
	ctx, end := c.until(c.traced(ctx))
	defer end()
	return c.house.Broker.Run(ctx, c.caller, call)
}

// until returns a context that ends with ctx, and with Close.
func (c *Callcell) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ending, cancel)
	return ctx, func() {
		stop()
		cancel()
		trace.From(ctx).End()
	}
}

// Explanation is what Run would do with a call, as far as that can be told
// without doing it.
type Explanation struct {
	Refusal        *envelope.Refusal  `json:"refusal,omitempty"`
	Level          envelope.Level     `json:"level,omitzero"`    // that would run it; zero where refused
	Why            []string           `json:"why,omitempty"`     // a reason for each level, as in the row
	Needs          []envelope.Need    `json:"needs,omitempty"`   // that were derived, and that the call declared
	Cheaper        []string           `json:"cheaper,omitempty"` // what would have to change for a cheaper level, a line each
	Warnings       []string           `json:"warnings,omitempty"`
	Envelope       *envelope.Envelope `json:"envelope,omitempty"` // that would be in force
	EnvelopeDigest string             `json:"envelopeDigest,omitempty"`
	Argv           []string           `json:"argv,omitempty"`  // what would be started
	Env            []string           `json:"env,omitempty"`   // NAME=value
	Files          []string           `json:"files,omitempty"` // names that would be put into the working directory
}

// Explain says at which level a call would run, in what envelope, and why.
// Nothing runs, and there is no row.
func (c *Callcell) Explain(ctx context.Context, call *envelope.Call) *Explanation {
	if !c.enter() {
		return &Explanation{Refusal: closed()}
	}
	defer c.calls.Done()
	x := c.house.Broker.Explain(ctx, c.caller, call)
	return &Explanation{
		Refusal: x.Refusal, Level: x.Level, Why: x.Why, Needs: x.Needs, Cheaper: x.Cheaper, Warnings: x.Warnings,
		Envelope: x.Envelope, EnvelopeDigest: x.EnvelopeDigest, Argv: x.Argv, Env: x.Env, Files: x.Files,
	}
}

// closeTime bounds what is still to be written when every call has ended.
const closeTime = 30 * time.Second

// Close cancels the calls that are under way, waits until each is destroyed
// and recorded, ends the launcher, and closes the log. It may be called more
// than once, and while calls run; later calls are refused.
func (c *Callcell) Close() error {
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		c.end()
		c.calls.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		c.err = c.house.Close(ctx)
	})
	return c.err
}

// enter notes a call, unless there may be none any more.
func (c *Callcell) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.calls.Add(1)
	}
	return !c.closed
}

// do does something that is no call, until ctx or c ends.
func (c *Callcell) do(ctx context.Context, what func(context.Context) error) error {
	if !c.enter() {
		return closed()
	}
	defer c.calls.Done()
	ctx, end := c.until(ctx)
	defer end()
	return failure(what(ctx))
}

func closed() *envelope.Refusal {
	return &envelope.Refusal{Reason: envelope.ReasonSetup, Message: "this Callcell is closed", Hint: "make another with New"}
}
