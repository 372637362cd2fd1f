package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/gateway"
)

// A link is one step of the chain.
type link struct {
	name string
	wrap func(http.Handler) http.Handler
}

// links are the steps of the chain, outermost first. Each of them holds for what
// comes after it: nothing is read of a body before the key is known to be good,
// and nothing is looked up for a name or an origin that is not ours.
func (a *API) links() []link {
	return []link{
		{"recover", a.recovering},
		{"log", a.logging},
		{"headers", a.headers},
		{"host", a.host},
		{"origin", a.origin},
		{"body", a.body},
		{"key", a.key},
	}
}

// chain builds the handler, once.
func (a *API) chain() http.Handler {
	var h http.Handler = http.HandlerFunc(a.route)
	for _, l := range slices.Backward(a.links()) {
		h = l.wrap(h)
	}
	return h
}

func (a *API) recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			a.Log.Error("a failure of our own", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			problem("internal", "a failure of our own", "the log of the daemon says more").write(w)
		}()
		next.ServeHTTP(w, r)
	})
}

// seen is what the log says of a request: others fill it in.
type seen struct {
	http.ResponseWriter
	status int
	bytes  int64
	key    string
	call   string
	op     string // of the table of routes
	began  time.Time
	unread *unread // nil: there is no body, or it is HTTP/2's to deal with
}

// WriteHeader notes the status. An answer to a body that was not read ends the
// connection: else package net/http waits for the rest before it sends any of it,
// and whoever sends none holds the connection. What is under way is waited for a
// moment, so that the client sees the answer, and not that it broke.
func (s *seen) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
		if s.unread != nil && s.unread.left != 0 {
			s.Header().Set("Connection", "close")
			s.unread.guest.unhear()
			_ = http.NewResponseController(s.ResponseWriter).SetReadDeadline(time.Now().Add(restTime)) // a recorder in tests has none
		}
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write counts.
func (s *seen) Write(p []byte) (int, error) {
	if s.status == 0 {
		s.WriteHeader(http.StatusOK)
	}
	n, err := s.ResponseWriter.Write(p)
	s.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (s *seen) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// restTime is for what is left of a body that nobody reads.
const restTime = time.Second

// unread is a body of which some may not be read.
type unread struct {
	io.ReadCloser
	guest *guest // whose it is; nil: not of a door
	left  int64  // bytes; -1: nobody has said how many
}

// unreadOf returns the request with another body. The request itself stays as it
// is: package net/http looks at its body when it has been answered, and lets the
// client read the answer to one that was not read before it hangs up.
func unreadOf(r *http.Request) (*http.Request, *unread) {
	if r.ContentLength == 0 || r.ProtoMajor != 1 {
		return r, nil
	}
	u := &unread{r.Body, guestOf(r.Context()), r.ContentLength}
	with := *r
	with.Body = u
	return &with, u
}

// Read implements io.Reader.
func (u *unread) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if u.left > 0 {
		u.left -= int64(n)
	}
	if err == io.EOF {
		u.left = 0
	}
	return n, err
}

// logging writes a line for each request. Of what the client sent it has the
// method and the path, without the query; never a header.
func (a *API) logging(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := a.Clock.Now()
		r, body := unreadOf(r)
		s := &seen{ResponseWriter: w, began: began, unread: body}
		defer func() { a.logged(s, r, began) }() // also of an answer that is broken off
		next.ServeHTTP(s, r)
	})
}

func (a *API) logged(s *seen, r *http.Request, began time.Time) {
	if a.Metrics != nil {
		a.Metrics.request(s.op, s.status)
	}
	level := slog.LevelInfo
	if s.status >= 500 {
		level = slog.LevelError
	}
	a.Log.Log(r.Context(), level, "request", "method", r.Method, "path", cut(r.URL.Path, 256), "status", s.status, "bytes", s.bytes,
		"took", a.Clock.Now().Sub(began), "peer", a.peer(r), "key", s.key, "call", s.call)
}

func cut(s string, most int) string { return s[:min(len(s), most)] }

// headers are on every answer.
func (*API) headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}

// host refuses a request for a name that is not ours: somebody's name may point
// here, and a browser would take his page and us for one origin.
func (a *API) host(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.ours(r) {
			problem("host", "this daemon is not called that", "add the name to serve.hosts").write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (a *API) ours(r *http.Request) bool {
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if slices.Contains(a.Serve.Hosts, name) {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	if err != nil || name == "localhost" {
		return err == nil && at.Addr().Unmap().IsLoopback()
	}
	asked, err := netip.ParseAddr(name)
	return err == nil && at.Addr().Unmap() == asked.Unmap()
}

// origin refuses pages of other origins, but those that are listed.
func (a *API) origin(next http.Handler) http.Handler { return originIn(a.Serve.Origins, next) }

func originIn(origins []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		site := r.Header.Get("Sec-Fetch-Site")
		listed := origin != "" && slices.Contains(origins, origin)
		switch {
		case len(r.Header.Values("Origin")) > 1,
			origin != "" && !listed && !sameOrigin(origin, r),
			(site == "cross-site" || site == "same-site") && !listed:
			problem("origin", "pages of that origin may not call", "add it to serve.origins").write(w)
			return
		}
		if listed {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
			w.Header().Set("Access-Control-Expose-Headers", "Retry-After, RateLimit, RateLimit-Policy, Location, Callcell-Call, Idempotency-Replayed, ETag, Expires, Mcp-Session-Id")
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PATCH, DELETE")
				w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Prefer, Last-Event-ID, Idempotency-Key, Callcell-Task, Traceparent, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name")
				w.Header().Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func sameOrigin(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return err == nil && u.Scheme == scheme && strings.EqualFold(u.Host, r.Host)
}

// body bounds what of a body is read, and for how long.
func (a *API) body(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, _, _ := a.match(r.Method, r.URL.Path)
		r.Body = http.MaxBytesReader(w, r.Body, a.bodyCap(&e))
		c := http.NewResponseController(w)
		if r.ContentLength != 0 {
			_ = c.SetReadDeadline(time.Now().Add(a.Serve.Read.Std())) // a recorder in tests has none
		}
		next.ServeHTTP(w, r)
	})
}

type keyOf struct{}

// key finds out who calls. Without a good key there is what is open to all, and
// a bounded number of answers that say so.
func (a *API) key(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.open(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		k, ok := a.identify(r)
		if !ok {
			a.stranger(w, r)
			return
		}
		known(r.Context())
		if s, ok := w.(*seen); ok {
			s.key = k.ID
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), keyOf{}, k)))
	})
}

// identify finds the key of a request.
func (a *API) identify(r *http.Request) (gateway.Key, bool) {
	secret, ok := bearer(r)
	if !ok {
		return gateway.Key{}, false
	}
	return a.Gateway.Identify(secret)
}

// bearer takes the secret of a key from the one header that it may be in: what
// is in an address ends in logs.
func bearer(r *http.Request) (secret string, ok bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, secret, ok := strings.Cut(values[0], " ")
	return secret, ok && strings.EqualFold(scheme, "Bearer")
}

// stranger answers who has no good key. A good one is never held up by what
// others of its address do: there is nothing to guess in 256 bits.
func (a *API) stranger(w http.ResponseWriter, r *http.Request) {
	peer := a.peer(r)
	a.Rows.Count(assembly.BadKey, peer)
	if after, ok := a.bad.Take(peer); !ok {
		p := problem("tries", "too many tries without a good key", "")
		p.Retry, p.after = true, durationOf(after)
		p.write(w)
		return
	}
	noKey().write(w)
}

func noKey() *Problem {
	return problem("key", "there is no good key in the request", "send it as: Authorization: Bearer cck_...")
}

// lapsed is what is answered in place of what an endpoint has to say, where the
// key or the secret of it that the request came with is no longer good; else nil.
// Whoever holds it then gets nothing more, of whatever was done meanwhile.
func (a *API) lapsed(e *endpoint, req *request) *Problem {
	if len(e.roles) == 0 || e.ends {
		return nil
	}
	if _, good := a.identify(req.r); good {
		return nil
	}
	return noKey()
}

// peer is where a request comes from: an address, or of IPv6 the network of
// one host. What a proxy says is taken where the operator lists the proxy.
func (a *API) peer(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "unknown"
	}
	addr := at.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && a.proxy(addr); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = hop.Unmap()
	}
	return hostName(addr)
}

func (a *API) proxy(addr netip.Addr) bool {
	return slices.ContainsFunc(a.Serve.Proxies, func(text string) bool {
		p, err := netip.ParsePrefix(text) // the configuration was checked
		return err == nil && p.Contains(addr)
	})
}

// bodyProblem is why a body could not be read, whose cap the configuration has
// under a key.
func bodyProblem(err error, key string) *Problem {
	var large *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &large):
		return problem("too_large", fmt.Sprintf("more than %d bytes", large.Limit), "send less, or raise "+key)
	case errors.As(err, &slow) && slow.Timeout():
		return problem("slow", "the body did not come in time", "send it faster, or raise serve.read")
	}
	return problem("request", "the body could not be read", "")
}
