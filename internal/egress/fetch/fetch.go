package fetch

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/callcell/callcell/internal/egress/inject"
	"github.com/callcell/callcell/internal/egress/policy"
	"github.com/callcell/callcell/internal/egress/wire"
)

// A Judge is the policy of one call. Its methods may be called concurrently.
// A *policy.Policy is one; one that wraps it sees every hop that is judged,
// some of them twice.
type Judge interface {
	JudgeFetch(host string, port int) policy.Verdict
	JudgeAddr(a netip.Addr, own []netip.Addr) policy.AddrVerdict
	JudgePublicAddr(a netip.Addr, own []netip.Addr) policy.AddrVerdict
}

// Granted is a Judge whose call may use credentials: nil is none. What Grant
// returns is the same for as long as the call lasts.
type Granted interface {
	Grant() *inject.Set
}

// A Dialer connects to a host and port that JudgeFetch of pol has allowed. It
// resolves the host, judges every address, and dials none that is refused. Its
// error is a *dial.Denied where nothing was sent to an address, and another
// where the other side could not be reached; the text of a *dial.Failed is
// shown to the caller. What it returns is closed by who called it.
type Dialer interface {
	Dial(ctx context.Context, pol Judge, host string, port int) (net.Conn, error)
}

// Options are what a Fetcher works with.
type Options struct {
	Dial    Dialer
	Roots   *x509.CertPool                    // that certificates are proved by; nil is none
	Limits  wire.Limits                       // those of fetch and cache
	Now     func() time.Time                  // the clock of the cache; nil is time.Now
	ToASCII func(host string) (string, error) // a host of another script as it is looked up
}

// Fetcher fetches. Its methods may be called concurrently. Make one with New.
type Fetcher struct {
	o     Options
	cache *cache
	pages chan struct{} // a place for each page that is read at once
}

// pagesAtOnce bounds the memory and the processors that pages take.
const pagesAtOnce = 2

// New returns a Fetcher with an empty cache. It starts nothing.
func New(o Options) *Fetcher {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Roots == nil {
		o.Roots = x509.NewCertPool() // else crypto/x509 looks for those of the host
	}
	return &Fetcher{
		o:     o,
		cache: newCache(o.Limits.CacheEntries, o.Limits.CacheBytes, o.Limits.CacheFor),
		pages: make(chan struct{}, pagesAtOnce),
	}
}

// Fetch gets the document that req names and gives its body to emit, from its
// own goroutine, in pieces of at most wire.MaxBody bytes that emit neither
// keeps nor changes. An error of emit ends it.
//
// Refused is set where the address is not allowed: nothing has left this host
// then. Where a later hop is not, or a name's addresses are not, Failure says
// so. With req.Text the pages that are read have at most Limits.FetchBytes, and
// req.Bytes bounds the text.
//
// The team decides whose cached answers it may get. What a stranger sent is in
// Title and in the body; the other texts are one line of printed characters.
func (f *Fetcher) Fetch(ctx context.Context, team string, pol Judge, req wire.Fetch, emit func([]byte) error) wire.Fetched {
	out := wire.Fetched{}
	out.Untrusted = true
	t := &trip{f: f, pol: pol, want: wanted(req, f.o.Limits.FetchBytes), out: &out, emit: emit}
	if g, ok := pol.(Granted); ok {
		t.grant = g.Grant()
	}
	first, bad := f.parse(req.URL, nil)
	if bad == nil {
		out.URL = first.String()
		bad = t.permitted(first)
	}
	if bad != nil {
		out.Refused = refusal(bad)
		return out
	}
	t.key = key{team, out.URL, t.want}
	if !req.Fresh && t.edge(first) == nil {
		if e := f.cache.get(t.key, f.o.Now()); e != nil && t.allowed(e.hops) {
			t.replay(e)
			return out
		}
	}
	t.run(ctx, first)
	return out
}

// want is what is wanted of a document.
type want struct {
	text  bool
	bytes int64
}

func wanted(req wire.Fetch, most int64) want {
	w := want{req.Text, most}
	if n := int64(req.Bytes); n > 0 && n < most {
		w.bytes = n
	}
	return w
}

// allowed reports whether an answer that came by these hops may be had from the
// cache.
func (t *trip) allowed(hops []address) bool {
	return !slices.ContainsFunc(hops, func(a address) bool { return t.edge(a) != nil || t.permitted(a) != nil })
}
