package serve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/carry"
	"github.com/callcell/callcell/internal/egress/dial"
	"github.com/callcell/callcell/internal/egress/fetch"
	"github.com/callcell/callcell/internal/egress/inject"
	"github.com/callcell/callcell/internal/egress/policy"
	"github.com/callcell/callcell/internal/egress/wire"
)

// fetch gets one document and sends it.
func (c *call) fetch(req wire.Fetch) {
	got := c.p.fetcher().Fetch(c.ctx, c.team, &hops{c: c, refused: map[string]bool{}}, req, func(b []byte) error {
		for len(b) > 0 {
			n := min(len(b), wire.MaxBody)
			if err := send(c.conn, wire.Message{Body: &wire.Body{Data: b[:n]}}); err != nil {
				return err
			}
			b = b[n:]
		}
		return nil
	})
	got.Body, got.Untrusted = nil, true
	err := send(c.conn, wire.Message{Fetched: &got})
	if err == nil {
		return
	}
	short := wire.Fetched{}
	short.Failure, short.Untrusted = "what there is to say of the answer is too long", true
	if err := send(c.conn, wire.Message{Fetched: &short}); err != nil {
		c.p.log.line("the end of a fetch could not be said: the front has hung up")
	}
}

// hops is the policy of a call as its fetch sees it: every hop becomes a line.
type hops struct {
	c *call

	mu      sync.Mutex // guards refused
	refused map[string]bool
}

// JudgeFetch implements fetch.Judge. A refusal is noted once.
func (h *hops) JudgeFetch(host string, port int) policy.Verdict {
	v := h.c.pol.JudgeFetch(host, port)
	if !v.OK && h.first(v) {
		h.c.lines.add(denied(now(), v))
	}
	return v
}

func (h *hops) first(v policy.Verdict) bool {
	at := net.JoinHostPort(v.Host, strconv.Itoa(v.Port))
	h.mu.Lock()
	defer h.mu.Unlock()
	again := h.refused[at]
	h.refused[at] = true
	return !again
}

// JudgeAddr implements fetch.Judge.
func (h *hops) JudgeAddr(a netip.Addr, own []netip.Addr) policy.AddrVerdict {
	return h.c.pol.JudgeAddr(a, own)
}

// JudgePublicAddr implements fetch.Judge.
func (h *hops) JudgePublicAddr(a netip.Addr, own []netip.Addr) policy.AddrVerdict {
	return h.c.pol.JudgePublicAddr(a, own)
}

// Grant implements fetch.Granted.
func (h *hops) Grant() *inject.Set { return h.c.grant }

// fetchDialer is fetch.Dialer: the policy that is handed through knows whose
// fetch it is.
type fetchDialer struct{}

// Dial implements fetch.Dialer.
func (fetchDialer) Dial(ctx context.Context, pol fetch.Judge, host string, port int) (net.Conn, error) {
	h, ok := pol.(*hops)
	if !ok {
		return nil, &dial.Failed{Why: "nobody knows whose fetch it is"}
	}
	return h.dial(ctx, host, port)
}

// dial judges a hop from scratch and connects to it.
func (h *hops) dial(ctx context.Context, host string, port int) (net.Conn, error) {
	at := now()
	v := h.c.pol.JudgeFetch(host, port)
	if !v.OK {
		if h.first(v) {
			h.c.lines.add(denied(at, v))
		}
		return nil, &dial.Denied{Why: v.Why}
	}
	leave, err := h.c.quota.enter()
	if err != nil {
		h.c.lines.add(ended(at, v, carry.Outcome{Verdict: envelope.VerdictDenied, Why: err.Error()}))
		return nil, &dial.Denied{Why: err.Error()}
	}
	judge := h.c.pol.JudgeAddr
	if v.Entry < 0 {
		judge = h.c.pol.JudgePublicAddr
	}
	conn, err := h.c.dial(ctx, v, judge)
	if err != nil {
		leave()
		h.c.lines.add(ended(at, v, notReached(err)))
		return nil, err
	}
	h.c.dialled(ctx, at, v, conn)
	return &hop{Conn: conn, h: h, v: v, at: at, leave: leave}, nil
}

func notReached(err error) carry.Outcome {
	var denied *dial.Denied
	if errors.As(err, &denied) {
		out := carry.Outcome{Verdict: envelope.VerdictDenied, Why: denied.Why}
		if denied.Addr.IsValid() {
			out.Blocked = denied.Addr.String()
		}
		return out
	}
	out := carry.Outcome{Verdict: envelope.VerdictFailed, Why: "the connection failed"}
	var failed *dial.Failed
	if errors.As(err, &failed) {
		out.Why = failed.Why
	}
	return out
}

// hop is a connection of a fetch. It becomes a line when it is closed.
type hop struct {
	net.Conn
	h     *hops
	v     policy.Verdict
	at    time.Time
	leave func()

	mu             sync.Mutex // guards what follows
	sent, received int64
	cut            string // why, where a cap was met
	closed         bool
}

// Read implements net.Conn.
func (c *hop) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if over := c.count(0, int64(n)); over != nil {
		return 0, over
	}
	return n, err
}

// Write implements net.Conn.
func (c *hop) Write(b []byte) (int, error) {
	if over := c.count(int64(len(b)), 0); over != nil {
		return 0, over
	}
	return c.Conn.Write(b)
}

func (c *hop) count(sent, received int64) error {
	err := c.h.c.quota.count(sent, received)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.cut = err.Error()
		return err
	}
	c.sent, c.received = c.sent+sent, c.received+received
	return nil
}

// Close implements net.Conn.
func (c *hop) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return err
	}
	c.closed = true
	c.leave()
	out := carry.Outcome{Verdict: envelope.VerdictAllowed, Address: c.RemoteAddr().String(), Requests: 1, Sent: c.sent, Received: c.received}
	if c.cut != "" {
		out.Verdict, out.Why = envelope.VerdictCut, c.cut
	}
	c.h.c.lines.add(ended(c.at, c.v, out))
	return err
}
