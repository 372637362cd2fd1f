package fetch

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/dial"
	"github.com/callcell/callcell/internal/egress/inject"
	"github.com/callcell/callcell/internal/egress/wire"
)

// The bounds of what is said about a trip. The whole answer has to fit into a
// message of wire.MaxMessage bytes, in which a byte can take six.
const (
	maxHopsShown = 16
	maxHopShown  = 1 << 10 // bytes of one
	maxFailure   = 1 << 10 // bytes
)

// A trip is one fetch that is not answered from the cache.
type trip struct {
	f     *Fetcher
	pol   Judge
	grant *inject.Set // nil where the call has no credentials
	want  want
	key   key
	out   *wire.Fetched
	emit  func([]byte) error

	limit   time.Duration
	hops    []address // that were asked
	storing storing
	private bool // a hop was at a host that a credential is for: the cache is left alone
}

// edge returns what there is to add to a request to an address; nil is nothing.
func (t *trip) edge(a address) *inject.Edge {
	if a.scheme != "https" {
		return nil
	}
	return t.grant.At(a.host, a.port)
}

// permitted is the judgement of an address: by the policy, and where a
// credential is for its host, of its path.
func (t *trip) permitted(a address) *fault {
	if bad := permitted(t.pol, a); bad != nil || t.edge(a) == nil {
		return bad
	}
	path, _, _ := strings.Cut(a.uri, "?")
	if why := inject.Path(path); why != "" {
		return &fault{envelope.ReasonPolicy, why + ", and a credential of the call is for " + a.host, "write the address as the host itself would: without dots, empty components and encoded separators in its path"}
	}
	return nil
}

// errLimit is why the context of a trip ends by itself.
var errLimit = errors.New("the time limit is over")

// run asks one hop after the other and takes the answer of the last.
func (t *trip) run(ctx context.Context, next address) {
	t.limit = t.f.o.Limits.FetchTotal
	t.whileWanted(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, t.limit, errLimit)
	defer cancel()
	t.storing.forTime = t.f.o.Limits.CacheFor
	for {
		t.hops = append(t.hops, next)
		t.out.URL = next.String()
		t.private = t.private || t.edge(next) != nil
		x, err := t.ask(ctx, next)
		if err != nil {
			t.unreachable(ctx, next, err)
			return
		}
		to, more := t.redirected(x, next)
		if !more && t.out.Failure == "" {
			t.take(ctx, x)
		}
		x.close()
		if !more {
			return
		}
		next = to
	}
}

// whileWanted gives on what came before the time limit, and nothing once the
// caller has gone.
func (t *trip) whileWanted(caller context.Context) {
	emit := t.emit
	t.emit = func(piece []byte) error {
		if err := caller.Err(); err != nil {
			return err
		}
		return emit(piece)
	}
}

// unreachable says why a hop has no answer.
func (t *trip) unreachable(ctx context.Context, a address, err error) {
	var denied *dial.Denied
	if !errors.As(err, &denied) {
		t.fail(ctx, "could not get "+cutAt(a.String(), maxHopShown/4)+": ", err)
		return
	}
	bad := &fault{envelope.ReasonPolicy, a.host + " is not allowed: " + neutral(denied.Why, 400),
		"to reach it, list the host in network.allow and its address range in network.private"}
	if len(t.hops) == 1 && a.literal() {
		t.out.Refused = refusal(bad) // no name was looked up for it
		return
	}
	t.out.Failure = neutral(bad.msg, maxFailure)
}

// fail sets Failure to what went wrong. Where the trip's time is over or its
// caller has gone, that is what went wrong.
func (t *trip) fail(ctx context.Context, doing string, err error) {
	why := ""
	var failed *dial.Failed
	switch {
	case errors.Is(context.Cause(ctx), errLimit):
		doing, why = "", "the time limit of "+t.limit.String()+" is over"
	case ctx.Err() != nil:
		doing, why = "", "the fetch was given up"
	case errors.As(err, &failed):
		why = failed.Why
	default:
		why = t.grant.Text(err.Error()) // it may quote the answer
	}
	t.out.Failure = neutral(doing+why, maxFailure)
}

// redirected returns the next hop where the answer names one that may be
// asked. Where it names another, Failure is set.
func (t *trip) redirected(x *exchange, from address) (next address, more bool) {
	t.storing.take(t.pol, x)
	t.out.Status = x.resp.StatusCode
	if !redirects(x.resp.StatusCode) {
		return next, false
	}
	places := slices.Compact(slices.Clone(x.resp.Header.Values("Location")))
	if len(places) == 0 {
		return next, false
	}
	if len(t.out.Hops) < maxHopsShown {
		t.out.Hops = append(t.out.Hops, cutAt(from.String(), maxHopShown))
	}
	refused := func(why string) (address, bool) {
		t.out.Failure = "redirect to " + neutral(places[0], maxHopShown/4) + " refused: " + neutral(why, maxFailure/2)
		return address{}, false
	}
	if len(places) > 1 {
		return refused("the answer names several places")
	}
	if x.told {
		return refused("it has the value of a credential in it")
	}
	next, bad := t.f.parse(places[0], &from)
	if bad == nil && from.scheme == "https" && next.scheme == "http" {
		bad = malformed("it leads from https to http", "")
	}
	if bad == nil && len(t.hops) > t.f.o.Limits.FetchHops {
		bad = malformed("more than "+strconv.Itoa(t.f.o.Limits.FetchHops)+" redirects", "")
	}
	if bad == nil {
		bad = t.permitted(next)
	}
	if bad != nil {
		return refused(bad.msg)
	}
	return next, true
}

// redirects reports whether a status sends the client elsewhere by itself.
func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

func refusal(bad *fault) *envelope.Refusal {
	return &envelope.Refusal{Reason: bad.reason, Message: bad.msg, Field: "fetch.url", Hint: bad.hint}
}
