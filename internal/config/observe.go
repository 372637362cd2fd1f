package config

import (
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/callcell/callcell/envelope"
)

// Telemetry says where the traces of calls are sent to.
type Telemetry struct {
	// Endpoint takes OTLP over HTTP, protobuf: https://HOST:4318/v1/traces, or
	// http to this host's own loopback by its address. "": there are no traces.
	Endpoint string `json:"endpoint"`
	// Headers are sent along, each from a source: file:PATH, command:WORDS or
	// env:NAME.
	Headers map[string]string `json:"headers"`
	Roots   string            `json:"roots"`   // PEM file of the authorities of https; "": this host's
	Private []string          `json:"private"` // ranges that the endpoint's name may lead to, beside public ones
	Service string            `json:"service"` // service.name of the resource
	// Sample is how many calls in a hundred are traced, of those that nobody
	// else's trace decides about.
	Sample int `json:"sample"`
	// Parents takes the word of a caller's traceparent about whether a call is
	// traced. Without it Sample decides about every call.
	Parents bool           `json:"parents"`
	Queue   envelope.Count `json:"queue"` // traces that wait; more are dropped and counted
}

// Webhook is a receiver that is told of refusals and of what looks like an
// attempted escape.
type Webhook struct {
	URL string `json:"url"` // https, or http to this host's own loopback by its address
	// Events are words of WebhookEvents; empty: DefaultWebhookEvents.
	Events []string `json:"events"`
	// Secret is what deliveries are signed with, from a source: file:PATH,
	// command:WORDS or env:NAME.
	Secret    string         `json:"secret"`
	PerMinute envelope.Count `json:"perMinute,omitzero"` // requests in any 60 seconds; 0: 30
	Roots     string         `json:"roots,omitempty"`    // PEM file of the authorities of https; "": this host's
	Private   []string       `json:"private,omitempty"`  // ranges that the name may lead to, beside public ones
}

// Health says when the daemon is not ready.
type Health struct {
	// Disk and Inodes are what the state directory's file system must have
	// free.
	Disk   envelope.Size     `json:"disk"`
	Inodes envelope.Count    `json:"inodes"`
	Clock  envelope.Duration `json:"clock"` // how far the clock may step
	// AnchorLag is for how long a checkpoint may wait for its anchor. A daemon
	// that is behind is ready all the same, unless AnchorRequired.
	AnchorLag      envelope.Duration `json:"anchorLag"`
	AnchorRequired bool              `json:"anchorRequired"`
}

// The bounds of what is told to others.
const (
	maxWebhooks      = 8
	maxHeaders       = 16
	maxPrivate       = 16
	defaultPerMinute = 30
)

// WebhookEvents are the words of Webhook.Events.
func WebhookEvents() []string {
	return []string{"refusal", "denied", "escape", "ceiling", "broken", "leftover", "unrecorded", "fault", "key"}
}

// DefaultWebhookEvents are those that a receiver gets that names none: what
// somebody should look at.
func DefaultWebhookEvents() []string {
	return []string{"escape", "broken", "leftover", "unrecorded", "fault"}
}

// Rate is how many requests a receiver gets in any 60 seconds.
func (w *Webhook) Rate() int {
	if w.PerMinute == 0 {
		return defaultPerMinute
	}
	return int(w.PerMinute)
}

func defaultTelemetry() Telemetry {
	return Telemetry{Headers: map[string]string{}, Private: []string{}, Service: "callcell", Sample: 100, Parents: true, Queue: 2048}
}

func defaultHealth() Health {
	return Health{Disk: 64 * envelope.MiB, Inodes: 256, Clock: seconds(2), AnchorLag: seconds(1800)}
}

func checkTelemetry(c *Config) error {
	t := &c.Telemetry
	switch {
	case t.Endpoint != "" && !outward(t.Endpoint):
		return bad("telemetry.endpoint", "not an https address", "write https://HOST:4318/v1/traces; http is for 127.0.0.1 and [::1] alone")
	case !serviceName().MatchString(t.Service):
		return bad("telemetry.service", "not a name", "use letters, digits, ., - and _, at most 64 of them")
	case t.Sample < 1 || t.Sample > 100:
		return bad("telemetry.sample", "out of range", "write 1 to 100; to have no traces name no endpoint")
	case t.Queue < 16 || t.Queue > 100_000:
		return bad("telemetry.queue", "out of range", "write 16 to 100k")
	case len(t.Headers) > maxHeaders:
		return bad("telemetry.headers", "more than 16", "name those that the collector wants")
	}
	for _, name := range sortedKeys(t.Headers) {
		field := "telemetry.headers" + segment(name, false)
		if !headerName().MatchString(name) || slices.Contains([]string{"host", "content-type", "content-length", "connection", "transfer-encoding", "user-agent"}, strings.ToLower(name)) {
			return bad(field, "not a header that can be set", "write Authorization, or what the collector's manual says")
		}
		if err := checkSource(field, t.Headers[name]); err != nil {
			return err
		}
	}
	if err := checkPrivates("telemetry.private", t.Private); err != nil {
		return err
	}
	return checkPEM("telemetry.roots", t.Roots)
}

// Both are compiled when they are needed: most commands never do.
var (
	serviceName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`) })
	headerName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`) })
)

func checkWebhooks(c *Config) error {
	if len(c.Webhooks) > maxWebhooks {
		return bad("webhooks", "more than 8", "name those that somebody looks at")
	}
	for i := range c.Webhooks {
		if err := c.Webhooks[i].check("webhooks" + index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (w *Webhook) check(field string) error {
	switch {
	case !outward(w.URL):
		return bad(field+".url", "not an https address", "write https://HOST/PATH; http is for 127.0.0.1 and [::1] alone")
	case w.Secret == "":
		return bad(field+".secret", "is missing", "a receiver can tell our word from a stranger's by it: file:PATH, command:WORDS or env:NAME")
	case w.PerMinute < 0 || w.PerMinute > 600:
		return bad(field+".perMinute", "out of range", "write 1 to 600; 0 is 30")
	}
	for j, word := range w.Events {
		if !slices.Contains(WebhookEvents(), word) || slices.Contains(w.Events[:j], word) {
			return bad(field+".events"+index(j), "not an event, or there twice", "write some of: "+strings.Join(WebhookEvents(), ", "))
		}
	}
	if err := checkSource(field+".secret", w.Secret); err != nil {
		return err
	}
	if err := checkPrivates(field+".private", w.Private); err != nil {
		return err
	}
	return checkPEM(field+".roots", w.Roots)
}

// outward reports whether text is an address that this process may send to.
func outward(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Hostname() != "" && (plausible(text, "https") || isLoopback(text))
}

// checkSource holds the words of a source to their form. They are not shown: a
// secret may stand where its source belongs.
func checkSource(field, words string) error {
	const hint = "write file:PATH, command:WORDS or env:NAME"
	kind, rest, _ := strings.Cut(words, ":")
	switch {
	case !slices.Contains([]string{"file", "command", "env"}, kind) || strings.TrimSpace(rest) == "":
		return bad(field, "is not a source", hint)
	case len(rest) > 4096 || strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return bad(field, "is too long or not one line", hint)
	case kind == "file" && (!filepath.IsAbs(rest) || filepath.Clean(rest) != rest):
		return bad(field, "not an absolute path in its shortest form", "write it from / on, without . and ..")
	}
	return nil
}

func checkPrivates(field string, list []string) error {
	if len(list) > maxPrivate {
		return bad(field, "more than 16", "write wider ranges")
	}
	for i, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Masked().String() != text || p.Addr().Is4In6() || p.Bits() < 8 {
			return bad(field+index(i), "not an address range in canonical form, or wider than /8", "write ADDRESS/BITS: 10.1.2.0/24")
		}
		for _, other := range envelope.MetadataAddresses() {
			if p.Contains(other) {
				return bad(field+index(i), "has "+other.String()+" in it, which is never reached", "write a range without it")
			}
		}
		for _, before := range list[:i] {
			if b, err := netip.ParsePrefix(before); err == nil && b.Overlaps(p) {
				return bad(field+index(i), "overlaps "+before, "list each range once")
			}
		}
	}
	return nil
}

func checkPEM(field, path string) error {
	if path == "" {
		return nil
	}
	return checkDir(field, path)
}

func checkHealth(c *Config) error {
	h := &c.Health
	switch {
	case h.Disk < 1*envelope.MiB || h.Disk > 1<<40:
		return bad("health.disk", "out of range", "write 1Mi to 1Ti")
	case h.Inodes < 1 || h.Inodes > 1_000_000:
		return bad("health.inodes", "out of range", "write 1 to 1M")
	case h.Clock < seconds(1) || h.Clock > seconds(3600):
		return bad("health.clock", "out of range", "write 1s to 1h")
	case h.AnchorLag < seconds(10) || h.AnchorLag > seconds(7*86_400):
		return bad("health.anchorLag", "out of range", "write 10s to 168h")
	}
	return nil
}

// observeWarnings are what is told to others.
func (c *Config) observeWarnings() (out []string) {
	if c.Telemetry.Endpoint != "" && c.Telemetry.Parents {
		out = append(out, c.warning("telemetry.parents", "whoever may call says of his own calls whether they are traced, and in whose trace"))
	}
	for i, w := range c.Webhooks {
		for j, p := range w.Private {
			out = append(out, c.warning("webhooks"+index(i)+".private"+index(j), p+": whoever answers for the receiver's name can have what is sent go there"))
		}
	}
	return out
}

// shownURL is an address without what may be a secret in it: its path and query.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "[redacted]"
	}
	if u.Path == "" && u.RawQuery == "" {
		return text
	}
	return u.Scheme + "://" + u.Host + "/[redacted]"
}
