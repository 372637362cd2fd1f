package egress

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/packet"
)

// A harm is something that is no message, or no message in its turn.
type harm struct {
	name string
	do   func(p *peer)
}

func text(name, b string) harm { return harm{name, func(p *peer) { p.raw(b) }} }

// noMessages are never a message.
func noMessages() []harm {
	return []harm{
		text("garbage", "\x00\xff\x17"),
		text("not UTF-8", "{\"hello\":{\"version\":1,\"pid\":7}\xff}"),
		text("no member", "{}"),
		text("two members", `{"hello":{"version":1,"pid":7},"ready":{}}`),
		text("an unknown member", `{"goodbye":{}}`),
		text("an unknown field", `{"ready":{"key":"x"}}`),
		text("a member twice", `{"ready":{},"ready":{}}`),
		text("another spelling", `{"READY":{}}`),
		text("two messages in one", `{"ready":{}}{"ready":{}}`),
		text("a message that is too long", `{"ready":{}}`+strings.Repeat(" ", wire.MaxMessage)),
		text("a very long one", strings.Repeat("x", 190<<10)),
		{"what the front says", func(p *peer) { p.say(wire.Message{End: &wire.End{}}) }},
		{"a Setup", func(p *peer) { p.say(wire.Message{Setup: &wire.Setup{}}) }},
		{"a Begin", func(p *peer) { p.say(wire.Message{Begin: &wire.Begin{}}) }},
		{"a Conn", func(p *peer) { p.say(wire.Message{Conn: &wire.Conn{}}) }},
		{"a descriptor", descriptors(1)},
		{"many descriptors", descriptors(200)},
		{"an end", func(p *peer) { _ = p.conn.CloseSend() }},
		{"a hang-up", func(p *peer) { p.conn.Close() }},
	}
}

// descriptors sends a message that would be right at most places, and files
// with it.
func descriptors(n int) func(p *peer) {
	return func(p *peer) {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			panic(err)
		}
		defer unix.Close(fd)
		fds := make([]int, n)
		for i := range fds {
			fds[i] = fd
		}
		p.raw(`{"ready":{}}`, fds...)
	}
}

func messages(name string, all ...wire.Message) harm {
	return harm{name, func(p *peer) {
		for _, m := range all {
			p.say(m)
		}
	}}
}

// TestBadBeginnings: a process that does not say Hello and nothing else serves
// no call; the next one may.
func TestBadBeginnings(t *testing.T) {
	hello := func(version int) wire.Message { return wire.Message{Hello: &wire.Hello{Version: version}} }
	for _, h := range append(noMessages(),
		messages("another version", hello(wire.Version+1)),
		messages("no version", hello(0)),
		messages("a Ready", ready("")),
		messages("a line", line("a.test", 443, envelope.VerdictAllowed)),
		harm{"its death", nil},
	) {
		t.Run(h.name, func(t *testing.T) {
			c, s := client(t, part{hello: func(f *fake) {
				if h.do == nil {
					f.die()
				} else {
					h.do(f.control)
				}
			}}, part{})
			g := gate(t, 443)
			if got, err := c.Open(t.Context(), Call{Gate: g}); got != nil || !errors.Is(err, ErrDied) {
				t.Errorf("%v, %v; want ErrDied", got, err)
			}
			closed(t, g)
			if works(t, c); s.started() != 2 {
				t.Errorf("%d processes, want 2", s.started())
			}
		})
	}
}

func TestSilentBeginning(t *testing.T) {
	c, s := client(t, part{hello: func(*fake) {}}, part{})
	usual := c.times
	c.times.start = soon
	if got, err := c.Open(t.Context(), Call{}); got != nil || !errors.Is(err, ErrDied) || !errors.Is(err, errSilent) {
		t.Errorf("%v, %v; want ErrDied", got, err)
	}
	c.times = usual
	if works(t, c); s.started() != 2 {
		t.Errorf("%d processes, want 2", s.started())
	}
}

// TestSpeakingOnControl: after Hello nothing comes there.
func TestSpeakingOnControl(t *testing.T) {
	for _, h := range append(noMessages(), messages("a second Hello", wire.Message{Hello: &wire.Hello{Version: wire.Version}})) {
		t.Run(h.name, func(t *testing.T) {
			now := make(chan *peer, 1)
			c, s := client(t, part{begin: func(f *fake, call *peer) {
				call.say(ready(""))
				now <- f.control
			}}, part{})
			session, other := open(t, c), open(t, c)
			h.do(<-now)
			dies(t, session)
			dies(t, other)
			if works(t, c); s.started() != 2 {
				t.Errorf("%d processes, want 2", s.started())
			}
		})
	}
}

// TestBadAnswersToBegin: the process is ended, and the calls that it had with
// it; the one that was to begin is not.
func TestBadAnswersToBegin(t *testing.T) {
	for _, h := range append(noMessages(),
		messages("a line", line("a.test", 443, envelope.VerdictAllowed)),
		messages("a body", body("x")),
		messages("an answer", fetched("u")),
		messages("an end of the call", done()),
		messages("a Hello", wire.Message{Hello: &wire.Hello{Version: wire.Version}}),
		messages("a long certificate", ready(strings.Repeat("x", maxCA+1))),
		harm{"silence", func(*peer) {}},
	) {
		t.Run(h.name, func(t *testing.T) {
			var calls atomic.Int32
			c, s := client(t, part{begin: func(_ *fake, call *peer) {
				if calls.Add(1) == 1 {
					call.say(ready(""))
				} else {
					h.do(call)
				}
			}}, part{})
			before := open(t, c)
			if h.name == "silence" {
				c.current.times.begin = soon
			}
			// The process was there before, so Open tries another one.
			if works(t, c); s.started() != 2 {
				t.Errorf("%d processes, want 2", s.started())
			}
			dies(t, before)
		})
	}
}

// TestBreaches: whatever a process says out of turn in a call ends it, and its
// other calls, and the next call has another.
func TestBreaches(t *testing.T) {
	tooMany := harm{"lines without end", func(p *peer) {
		for range envelope.MaxAttempts + 1 {
			p.say(line("a.test", 443, envelope.VerdictAllowed))
		}
	}}
	odd := func(change func(*envelope.Attempt)) wire.Message {
		m := line("a.test", 443, envelope.VerdictAllowed)
		change(m.Line)
		return m
	}
	for _, h := range append(noMessages(),
		messages("a second Ready", ready("")),
		messages("a late refusal", wire.Message{Refused: &wire.Refused{}}),
		messages("an end that nobody asked for", done()),
		messages("a body that nobody asked for", body("x")),
		messages("an answer that nobody asked for", fetched("u")),
		messages("a Hello", wire.Message{Hello: &wire.Hello{Version: wire.Version}}),
		tooMany,
		text("a line without a verdict", `{"line":{"at":"2026-01-01T00:00:00Z","host":"a"}}`),
		text("a line with an empty verdict", `{"line":{"at":"2026-01-01T00:00:00Z","host":"a","verdict":""}}`),
		messages("a port below all", odd(func(a *envelope.Attempt) { a.Port = -1 })),
		messages("a port above all", odd(func(a *envelope.Attempt) { a.Port = 65536 })),
		messages("requests below none", odd(func(a *envelope.Attempt) { a.Requests = -1 })),
		messages("bytes out below none", odd(func(a *envelope.Attempt) { a.Sent = -1 })),
		messages("bytes in below none", odd(func(a *envelope.Attempt) { a.Received = -1 })),
		messages("a connection that is refused already", dialled("a.test", envelope.VerdictDenied)),
		messages("a connection with sums", wire.Message{Dialled: line("a.test", 443, envelope.VerdictAllowed).Line}),
		harm{"connections without end", func(p *peer) {
			for range envelope.MaxAttempts {
				p.say(dialled("a.test", envelope.VerdictAllowed))
			}
		}},
		messages("time below none", odd(func(a *envelope.Attempt) { a.Took = -1 })),
	) {
		t.Run(h.name, func(t *testing.T) {
			now := make(chan *peer, 2)
			c, s := client(t, part{begin: func(_ *fake, call *peer) {
				call.say(ready(""))
				call.say(line("first.test", 443, envelope.VerdictCut))
				now <- call
			}}, part{})
			session, other := open(t, c), open(t, c)
			h.do(<-now)
			for _, one := range []*Session{session, other} {
				if e := dies(t, one); len(e.Attempts) > envelope.MaxAttempts {
					t.Errorf("%d lines", len(e.Attempts))
				}
			}
			if works(t, c); s.started() != 2 || s.fakes[0].closed != 1 {
				t.Errorf("%d processes, want 2; the first was ended %d times", s.started(), s.fakes[0].closed)
			}
		})
	}
}

// TestBreachesOfAFetch: the fetch fails with the process.
func TestBreachesOfAFetch(t *testing.T) {
	answer := func(change func(*wire.Fetched)) wire.Message {
		m := fetched("u")
		change(m.Fetched)
		return m
	}
	for _, h := range append(noMessages(),
		harm{"a body without end", func(p *peer) {
			for range Defaults().FetchBytes/wire.MaxBody + 1 {
				p.say(body(strings.Repeat("x", wire.MaxBody)))
			}
		}},
		messages("a large piece", body(strings.Repeat("x", wire.MaxBody+1))),
		messages("a body in the answer", answer(func(f *wire.Fetched) { f.Body = []byte("x") })),
		messages("a status below none", answer(func(f *wire.Fetched) { f.Status = -1 })),
		messages("a status above all", answer(func(f *wire.Fetched) { f.Status = 1000 })),
		messages("bytes below none", answer(func(f *wire.Fetched) { f.Bytes = -1 })),
		messages("bytes on the wire below none", answer(func(f *wire.Fetched) { f.WireBytes = -1 })),
		messages("a long address", answer(func(f *wire.Fetched) { f.URL = strings.Repeat("u", maxURL+1) })),
		messages("a long hop", answer(func(f *wire.Fetched) { f.Hops = []string{strings.Repeat("u", maxURL+1)} })),
		messages("hops without end", answer(func(f *wire.Fetched) { f.Hops = make([]string, maxHops+1) })),
		text("a refusal without a reason", `{"fetched":{"url":"","bytes":0,"wireBytes":0,"cached":false,"cut":false,"untrusted":true,"refused":{"message":"m","retry":false}}}`),
		messages("a refusal after a body", body("x"), answer(func(f *wire.Fetched) { f.Refused = &envelope.Refusal{Reason: envelope.ReasonPolicy} })),
	) {
		t.Run(h.name, func(t *testing.T) {
			c, s := client(t, part{fetch: func(_ *fake, call *peer, _ *wire.Fetch) { h.do(call) }}, part{})
			session := open(t, c)
			got, refusal, err := session.Fetch(t.Context(), envelope.Fetch{URL: "u"})
			if !errors.Is(err, ErrDied) || refusal != nil || got.Body != nil || got.URL != "" {
				t.Errorf("%+v, %v, %v; want ErrDied alone", got, refusal, err)
			}
			dies(t, session)
			if works(t, c); s.started() != 2 {
				t.Errorf("%d processes, want 2", s.started())
			}
		})
	}
}

func TestSpeakingAfterAnAnswer(t *testing.T) {
	for _, h := range []harm{messages("a body", body("x")), messages("a second answer", fetched("u"))} {
		t.Run(h.name, func(t *testing.T) {
			c, _ := client(t, part{fetch: func(_ *fake, call *peer, m *wire.Fetch) {
				call.say(fetched(m.URL))
				h.do(call)
			}}, part{})
			session := open(t, c)
			if got, _, err := session.Fetch(t.Context(), envelope.Fetch{URL: "u"}); err != nil || got.URL != "u" {
				t.Errorf("%+v, %v: the answer had come", got, err)
			}
			dies(t, session)
		})
	}
}

func TestSilentFetch(t *testing.T) {
	c, _ := client(t, part{fetch: func(*fake, *peer, *wire.Fetch) {}})
	session := open(t, c)
	c.current.times.end, c.current.limits.FetchTotal = soon, 0
	if _, _, err := session.Fetch(t.Context(), envelope.Fetch{}); !errors.Is(err, ErrDied) || !errors.Is(err, errSilent) {
		t.Errorf("%v, want ErrDied", err)
	}
	dies(t, session)
}

// TestBadEnds: who does not end a call well is ended.
func TestBadEnds(t *testing.T) {
	odd := func(change func(*envelope.Egress)) wire.Message {
		m := done()
		change(&m.Done.Egress)
		return m
	}
	for _, h := range append(noMessages(),
		messages("lines in the end", odd(func(e *envelope.Egress) { e.Attempts = []envelope.Attempt{*line("a", 1, envelope.VerdictCut).Line} })),
		messages("more below none", odd(func(e *envelope.Egress) { e.More = -1 })),
		messages("names below none", odd(func(e *envelope.Egress) { e.Names = -1 })),
		messages("bytes below none", odd(func(e *envelope.Egress) { e.Sent = -1 })),
		harm{"silence", func(*peer) {}},
		harm{"lines, and then silence", func(p *peer) { p.say(line("second.test", 1, envelope.VerdictDenied)) }},
	) {
		t.Run(h.name, func(t *testing.T) {
			c, s := client(t, part{
				begin: func(_ *fake, call *peer) {
					call.say(ready(""))
					call.say(line("first.test", 443, envelope.VerdictCut))
				},
				end: func(_ *fake, call *peer) { h.do(call) },
			}, part{})
			session, other := open(t, c), open(t, c)
			if strings.Contains(h.name, "silence") {
				heard(t, session, 1)
				c.current.times.end = soon
			}
			e, err := session.Close(t.Context())
			if !errors.Is(err, ErrDied) || len(e.Attempts) == 0 || e.Attempts[0].Host != "first.test" || e.Connections != 1 || e.Sent != int64(len(e.Attempts)) {
				t.Errorf("%+v, %v; want ErrDied and the first line", e, err)
			}
			dies(t, session)
			dies(t, other)
			if s.fakes[0].closed != 1 {
				t.Errorf("the process was ended %d times", s.fakes[0].closed)
			}
		})
	}
}

// TestWhatComesAfterTheEndIsNotHeard: the conversation is over.
func TestWhatComesAfterTheEndIsNotHeard(t *testing.T) {
	for _, h := range noMessages() {
		t.Run(h.name, func(t *testing.T) {
			c, s := client(t, part{end: func(_ *fake, call *peer) {
				call.say(done())
				h.do(call)
			}})
			works(t, c)
			if works(t, c); s.started() != 1 {
				t.Errorf("%d processes, want 1", s.started())
			}
		})
	}
}

// TestAProcessThatDoesNotRead is ended, and whoever waits for it hears of it.
func TestAProcessThatDoesNotRead(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	c, _ := client(t, part{begin: func(_ *fake, call *peer) {
		call.say(ready(""))
		<-stop
	}})
	session := open(t, c)
	c.current.times.send = soon
	t.Cleanup(func() { <-session.Dead() })
	var err error
	for n := 0; err == nil && n < 10_000; n++ {
		err = session.Tunnel(here(), false, file(t))
	}
	if !errors.Is(err, ErrDied) || !errors.Is(err, errSilent) {
		t.Errorf("%v, want ErrDied", err)
	}
}

// TestOneThatHangsUpOnACallAndLives is not believed about it.
func TestOneThatHangsUpOnACallAndLives(t *testing.T) {
	c, s := client(t, part{conn: func(_ *fake, call *peer, _ *wire.Conn, fd int) {
		packet.CloseAll([]int{fd})
		call.conn.Close()
	}}, part{})
	session := open(t, c)
	if err := session.Tunnel(here(), false, file(t)); err != nil {
		t.Fatal(err)
	}
	dies(t, session)
	if err := session.Tunnel(here(), false, file(t)); !errors.Is(err, ErrDied) && !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	if works(t, c); s.started() != 2 {
		t.Errorf("%d processes, want 2", s.started())
	}
}
