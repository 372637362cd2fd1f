package carry

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/dial"
)

// What is written into Outcome.Unchecked.
const (
	UncheckedFronting = "fronting" // TLS is carried from end to end
	UncheckedContent  = "content"  // nothing is looked into
)

// ErrTotal and ErrIdle are causes of the end of a connection, and ErrEnded is
// the one of a call's end.
var (
	ErrTotal = errors.New("the connection's time is up")
	ErrIdle  = errors.New("nothing was said for too long")
	ErrEnded = errors.New("the call ended")
)

// Target is a host and port that was judged, and what is spoken there.
type Target struct {
	Host     string     // canonical
	Port     int        // 1 to 65535
	Literal  netip.Addr // valid where the host is an address
	Protocol string     // a Protocol word of package envelope
	Inspect  bool       // every request inside TLS is judged
	Once     bool       // HTTP ends after one request: the next may be for another host
}

// Options are the same for the connections of a call, but for Dial. All
// members are there.
type Options struct {
	// Dial connects to the target. Its errors are those of package dial.
	// HTTP may call it several times, and concurrently.
	Dial func(ctx context.Context) (net.Conn, error)
	// HTTP carries protocol http, and tls that is inspected. It closes both
	// sides.
	HTTP func(ctx context.Context, program net.Conn, t Target, o Options) HTTPOutcome
	// Count is told of bytes before they are passed on. Its error ends the
	// connection, and says why.
	Count func(sent, received int64) error

	Idle  time.Duration // without a byte either way
	Total time.Duration // of the connection
	First time.Duration // for the program's first words
	// Buffers are shared by as many connections as there are.
	Buffers *Buffers
}

// HTTPOutcome is how a connection that is looked into ended.
type HTTPOutcome struct {
	Requests, Sent, Received int64
	Address                  string // that was dialled last; "": nothing was
	Blocked                  string // an address that was not to be dialled; "": none
	Cut                      bool   // a request was refused, or a cap was met
	Late                     bool   // Cut by a deadline, and by no refusal
	Why                      string // of Cut
	Failed                   string // what went wrong with the other side
	Note                     string // what else there is to say where all went well
}

// Outcome is how a connection ended.
type Outcome struct {
	Verdict   envelope.Verdict
	Why       string // of any verdict; may be "" where it was carried
	Address   string // that was dialled
	Blocked   string // that was not to be dialled
	Requests  int64  // of a protocol that is looked into
	Sent      int64
	Received  int64
	Unchecked string
}

// Carry carries one connection to its end, which comes at latest when ctx
// ends or Options.Total has passed. It closes it, and nothing of it runs any
// more when it returns.
func Carry(ctx context.Context, program *Stream, t Target, o Options) Outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Total, ErrTotal)
	defer cancel()
	c := &carrier{ctx: ctx, program: program, t: t, o: o}
	switch {
	case t.Protocol == envelope.ProtocolHTTP, t.Protocol == envelope.ProtocolTLS && t.Inspect:
		return c.http()
	case t.Protocol == envelope.ProtocolTLS:
		c.run(c.tls, UncheckedFronting)
	case t.Protocol == envelope.ProtocolPostgres:
		c.run(c.postgres, UncheckedFronting)
	case t.Protocol == envelope.ProtocolTCP:
		c.run(c.tcp, UncheckedContent)
	default:
		c.out = Outcome{Verdict: envelope.VerdictDenied, Why: "protocol " + t.Protocol + " is not known"}
		reset(program)
	}
	return c.out
}

// carrier is one connection that is not looked into.
type carrier struct {
	ctx     context.Context
	program *Stream
	t       Target
	o       Options
	up      net.Conn // nil until it is dialled
	stops   []func() bool
	out     Outcome
}

// run takes the steps of a protocol. When they are refused, fail or are done,
// both sides are closed.
func (c *carrier) run(protocol func() error, unchecked string) {
	c.stops = append(c.stops, context.AfterFunc(c.ctx, func() { reset(c.program) }))
	err := protocol()
	for _, stop := range c.stops {
		stop()
	}
	c.end(err)
	if c.up != nil && c.out.Verdict != envelope.VerdictDenied {
		c.out.Unchecked = unchecked
	}
}

// end makes an outcome of how the steps ended, and closes what is open.
func (c *carrier) end(err error) {
	c.out.Verdict = envelope.VerdictAllowed
	if err == nil {
		_ = c.program.Close() // both sides have said all
		_ = c.up.Close()
		return
	}
	reset(c.program)
	if c.up != nil {
		reset(c.up)
	}
	c.out.Verdict, c.out.Why = c.verdict(err)
}

// verdict says what an error means for the outcome.
func (c *carrier) verdict(err error) (envelope.Verdict, string) {
	var refused *refusal
	var denied *dial.Denied
	var failed *dial.Failed
	carried := c.up != nil
	ended := c.ended()
	if cause := context.Cause(c.ctx); cause != nil && !errors.As(err, &refused) {
		err = cause // what was seen is what the end looks like from within
	}
	switch {
	case carried && errors.Is(err, errGone):
		return envelope.VerdictAllowed, ""
	case carried && (ended != nil && errors.Is(err, ended) || errors.Is(err, errBroken) || errors.Is(err, errSilent)):
		return envelope.VerdictAllowed, err.Error()
	case errors.As(err, &refused) && carried, errors.Is(err, ErrIdle), errors.Is(err, ErrTotal) && carried:
		return envelope.VerdictCut, err.Error()
	case errors.As(err, &denied) && denied.Addr.IsValid():
		c.out.Blocked = denied.Addr.String()
		return envelope.VerdictDenied, err.Error()
	case errors.As(err, &refused), denied != nil:
		return envelope.VerdictDenied, err.Error()
	case errors.As(err, &failed):
		return envelope.VerdictFailed, failed.Why
	}
	return envelope.VerdictFailed, err.Error()
}

// ended returns why whoever asked for the connection has ended it, if they
// have.
func (c *carrier) ended() error {
	if cause := context.Cause(c.ctx); !errors.Is(cause, ErrTotal) {
		return cause
	}
	return nil
}

// A refusal ends a connection by policy, or by a cap.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

func refuse(why string) error { return &refusal{why} }

// connect dials, once.
func (c *carrier) connect() error {
	up, err := c.o.Dial(c.ctx)
	if err != nil {
		return err
	}
	c.up = up
	c.stops = append(c.stops, context.AfterFunc(c.ctx, func() { reset(up) }))
	c.out.Address = up.RemoteAddr().String()
	return nil
}

// send passes on bytes of the program that were read already.
func (c *carrier) send(b []byte) error {
	if err := c.o.Count(int64(len(b)), 0); err != nil {
		return refuse(err.Error())
	}
	c.out.Sent += int64(len(b))
	if err := c.up.SetWriteDeadline(time.Now().Add(c.o.Idle)); err != nil {
		return err
	}
	if _, err := c.up.Write(b); err != nil {
		return broken("sending to the other side")
	}
	return c.up.SetWriteDeadline(time.Time{})
}

func (c *carrier) tcp() error {
	if err := c.connect(); err != nil {
		return err
	}
	return c.pump()
}

// http leaves the connection to who looks into it.
func (c *carrier) http() Outcome {
	h := c.o.HTTP(c.ctx, c.program, c.t, c.o)
	out := Outcome{Verdict: envelope.VerdictAllowed, Address: h.Address, Requests: h.Requests, Sent: h.Sent, Received: h.Received}
	if ended := c.ended(); h.Cut && ended != nil && h.Why == ended.Error() {
		h.Cut, h.Late, h.Failed, out.Why = false, false, "", h.Why
	}
	switch {
	case h.Late && h.Address == "":
		out.Verdict, out.Why = envelope.VerdictFailed, h.Why
	case h.Cut && h.Address == "":
		out.Verdict, out.Why, out.Blocked = envelope.VerdictDenied, h.Why, h.Blocked
	case h.Cut:
		out.Verdict, out.Why = envelope.VerdictCut, h.Why
	case h.Failed != "":
		out.Verdict, out.Why = envelope.VerdictFailed, h.Failed
	case h.Address == "" && h.Requests == 0:
		out.Verdict, out.Why = envelope.VerdictFailed, errSilent.Error()
	case out.Why == "":
		out.Why = h.Note
	}
	return out
}
