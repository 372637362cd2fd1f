package assembly

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/config/guarded"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/credential/source"
	"github.com/callcell/callcell/internal/egress/hostnet"
	"github.com/callcell/callcell/internal/egress/policy"
	"github.com/callcell/callcell/internal/outward"
	"github.com/callcell/callcell/internal/telemetry"
	"github.com/callcell/callcell/internal/trace"
	"github.com/callcell/callcell/internal/webhook"
)

// The bounds of what is told to others.
const (
	outwardTime = 10 * time.Second // to resolve and connect
	flushTime   = 2 * time.Second  // of a process that ends
	tryTime     = 5 * time.Second  // to get every secret once
)

// observers are who is told of calls: nobody, unless the configuration names
// them.
type observers struct {
	traces  *telemetry.Exporter // nil: calls are not traced
	hooks   *webhook.Set        // nil: there are none
	sources *source.Set         // of their secrets; nil where neither is there
	say     func(string)        // hears what they did not take
	secrets []sourced           // that they need
}

// sourced is a secret of an observer, by the field that names its source.
type sourced struct {
	field  string
	source source.Source
}

// observe makes those that the configuration names. An error is of it.
func (h *House) observe(o Options) error {
	c := o.Config
	if c.Telemetry.Endpoint == "" && len(c.Webhooks) == 0 {
		return nil
	}
	say := func(string) {}
	if w, ok := o.Watch.(LogWatch); ok {
		say = w.Log
	}
	h.observed.say = say
	var err error
	if h.observed.sources, err = source.NewSet(source.Settings{}, source.Host{Home: c.State, LookupEnv: os.LookupEnv}); err != nil {
		return err
	}
	net, err := outwardNet(c)
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // "" where nobody says
	if c.Telemetry.Endpoint != "" {
		if err := h.observeTraces(c, net, telemetry.Resource{Service: c.Telemetry.Service, Version: o.Version, Host: host}, say); err != nil {
			return err
		}
	}
	if len(c.Webhooks) > 0 {
		return h.observeHooks(c, net, host, say)
	}
	return nil
}

// outwardNet is how this process dials, as the egress process does for calls.
func outwardNet(c *config.Config) (outward.Net, error) {
	n := outward.Net{Timeout: outwardTime, Hosts: map[string][]netip.Addr{}}
	o, err := egressOptions(c)
	if err != nil {
		return n, err
	}
	n.Deny = o.Deny
	for _, text := range o.Resolvers {
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			return n, fmt.Errorf("resolver %s: %w", text, err)
		}
		n.Resolvers = append(n.Resolvers, at)
	}
	for _, h := range hostnet.Hosts() {
		if name, err := policy.Canonical(h.Name); err == nil {
			n.Hosts[name] = append(n.Hosts[name], h.Addrs...)
		}
	}
	return n, nil
}

// place makes the client of a place. An error is of the configuration.
func place(c *config.Config, field, url, roots string, private []string, n outward.Net) (*outward.Client, error) {
	p := outward.Place{URL: url}
	for _, text := range private {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s.private: %w", field, err)
		}
		p.Private = append(p.Private, prefix)
	}
	fault := func(err error) error {
		return c.Locate(&envelope.FieldError{Reason: envelope.ReasonRequest, Field: field, Msg: err.Error(), Hint: "name an https address, and the file of its authority where it is your own"})
	}
	var err error
	if p.Roots, err = authorities(roots); err != nil {
		return nil, fault(err)
	}
	client, err := outward.New(p, n)
	if err != nil {
		return nil, fault(err)
	}
	return client, nil
}

// authorities reads a file of certificate authorities, PEM; nil: none is named,
// and this host's hold.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := guarded.Read(file, maxRoots)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: there is no certificate in it", file)
	}
	return roots, nil
}

func (h *House) observeTraces(c *config.Config, n outward.Net, r telemetry.Resource, say func(string)) error {
	t := &c.Telemetry
	client, err := place(c, "telemetry", t.Endpoint, t.Roots, t.Private, n)
	if err != nil {
		return err
	}
	header, err := h.headers(c)
	if err != nil {
		return err
	}
	h.observed.traces = telemetry.New(telemetry.Options{Sender: client, Resource: r, Header: header,
		Sample: t.Sample, Parents: t.Parents, Queue: int(t.Queue), Say: say})
	return nil
}

// headers returns what makes the headers of the configuration, from their
// sources.
func (h *House) headers(c *config.Config) (func(context.Context) (http.Header, error), error) {
	open := map[string]source.Source{}
	for name, words := range c.Telemetry.Headers {
		s, err := h.secret(c, "telemetry.headers."+name, words)
		if err != nil {
			return nil, err
		}
		open[name] = s
	}
	return func(ctx context.Context) (http.Header, error) {
		header := http.Header{}
		for name, s := range open {
			text := ""
			if err := reveal(ctx, s, func(value []byte) { text = string(value) }); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return nil, fmt.Errorf("%s: what its source has is not one line, or has another control character", name)
			}
			header.Set(name, text)
		}
		return header, nil
	}, nil
}

// secret opens a source. An error is of the configuration.
func (h *House) secret(c *config.Config, field, words string) (source.Source, error) {
	s, err := h.observed.sources.Open(envelope.Credential{Source: words})
	var fault *source.Fault
	if errors.As(err, &fault) {
		return nil, c.Locate(&envelope.FieldError{Reason: envelope.ReasonRequest, Field: field, Msg: fault.Msg, Hint: fault.Hint})
	}
	h.observed.secrets = append(h.observed.secrets, sourced{field, s})
	return s, err
}

// TrySecrets gets each secret of the observers once, within some seconds, and
// says of which there is none. An event that needs one may be months away.
func (h *House) TrySecrets(ctx context.Context) (faults []string) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	found := make([]string, len(h.observed.secrets))
	var all sync.WaitGroup
	for i, k := range h.observed.secrets {
		all.Go(func() {
			err := reveal(ctx, k.source, func([]byte) {})
			if err == nil {
				return
			}
			found[i] = k.field + ": " + err.Error()
			var fault *source.Fault
			if errors.As(err, &fault) && fault.Hint != "" {
				found[i] += " (" + fault.Hint + ")"
			}
		})
	}
	all.Wait()
	return slices.DeleteFunc(found, func(text string) bool { return text == "" })
}

// reveal gets a secret, has it used, and forgets it.
func reveal(ctx context.Context, s source.Source, use func(value []byte)) error {
	if err := secret.Harden(); err != nil { // from the first secret on, as for those of calls
		return err
	}
	grant, err := s.Fetch(ctx, source.Request{Fields: []string{""}})
	if err != nil {
		return err
	}
	defer grant.Destroy()
	if !grant.Secrets[""].Reveal(use) {
		return errors.New("there is no secret")
	}
	return nil
}

func (h *House) observeHooks(c *config.Config, n outward.Net, host string, say func(string)) error {
	o := webhook.Options{Host: host, Say: say}
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		field := fmt.Sprintf("webhooks[%d]", i)
		client, err := place(c, field, w.URL, w.Roots, w.Private, n)
		if err != nil {
			return err
		}
		key, err := h.secret(c, field+".secret", w.Secret)
		if err != nil {
			return err
		}
		events := w.Events
		if len(events) == 0 {
			events = config.DefaultWebhookEvents()
		}
		o.Hooks = append(o.Hooks, webhook.Hook{Sender: client, Events: events, PerMinute: w.Rate(),
			Secret: func(ctx context.Context, use func([]byte)) error { return reveal(ctx, key, use) }})
	}
	h.observed.hooks = webhook.New(o)
	return nil
}

// Traces takes the traces of calls; nil: they have none.
func (h *House) Traces() trace.Sink {
	if h.observed.traces == nil {
		return nil
	}
	return h.observed.traces
}

// TraceStats returns how the traces do, and false where there are none.
func (h *House) TraceStats() (telemetry.Stats, bool) {
	if h.observed.traces == nil {
		return telemetry.Stats{}, false
	}
	return h.observed.traces.Stats(), true
}

// HookStats returns how each receiver of webhooks does.
func (h *House) HookStats() []webhook.Stats { return h.observed.hooks.Stats() }

// closeObservers hands on what waits, bounded. What is not taken by then is lost,
// and said: no call, and no end of this process, is worse for it.
func (h *House) closeObservers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	hooked := make(chan error, 1)
	go func() { hooked <- h.observed.hooks.Close(ctx) }()
	var err error
	if h.observed.traces != nil {
		err = h.observed.traces.Close(ctx)
	}
	if err = errors.Join(err, <-hooked); err != nil {
		h.observed.say(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if h.observed.sources != nil {
		h.observed.sources.Close()
	}
}
