package config

import (
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// Audit is what of a call its row keeps, for how long, and what vouches for
// it.
type Audit struct {
	Arguments string `json:"arguments"`
	// Key is the file of the key that signs receipts and checkpoints; "" is
	// audit.key in the state directory. It is made where it is not there.
	Key        string     `json:"key"`
	Checkpoint Checkpoint `json:"checkpoint"`
	// Anchors are where checkpoints are kept off this host.
	Anchors []Anchor `json:"anchors"`
	// Retention is for how long the rows of calls that belong to no team are
	// kept; 0s: for ever. A team's are kept as long as its tier says.
	Retention envelope.Duration `json:"retention"`
	// Counters is how long what comes too often for an event each is gathered
	// for one.
	Counters envelope.Duration `json:"counters"`
}

// The words of Audit.Arguments.
const (
	ArgumentsKept     = "kept"     // redacted, as they were given
	ArgumentsDigested = "digested" // as a digest
	ArgumentsDropped  = "dropped"
)

// Checkpoint says when one is due: after so many events, or so long after the
// last one.
type Checkpoint struct {
	Events envelope.Count    `json:"events"`
	Every  envelope.Duration `json:"every"`
}

// Anchor is one place for checkpoints: exactly one of File, Syslog and HTTP.
type Anchor struct {
	File   string `json:"file,omitempty"`   // absolute path, on other storage than the state
	Syslog string `json:"syslog,omitempty"` // unix:///dev/log, udp://, tcp:// or tls://HOST:PORT
	HTTP   string `json:"http,omitempty"`   // https address
	Roots  string `json:"roots,omitempty"`  // PEM file of the authorities of tls and https; "": this host's
}

// maxAnchors is how many places there are at most.
const maxAnchors = 8

func defaultAudit() Audit {
	return Audit{
		Arguments: ArgumentsKept, Anchors: []Anchor{}, Counters: seconds(60),
		Checkpoint: Checkpoint{Events: 1000, Every: seconds(600)},
	}
}

// KeyFile is the path of the log's signing key.
func (c *Config) KeyFile() string {
	if c.Audit.Key != "" {
		return c.Audit.Key
	}
	return filepath.Join(c.State, "audit.key")
}

func checkArguments(c *Config) error {
	switch c.Audit.Arguments {
	case ArgumentsKept, ArgumentsDigested, ArgumentsDropped:
		return nil
	}
	return bad("audit.arguments", "not a word of it", "write kept, digested or dropped")
}

func checkKeyFile(c *Config) error {
	if c.Audit.Key == "" {
		return nil
	}
	return checkDir("audit.key", c.Audit.Key)
}

func checkAuditTimes(c *Config) error {
	a := &c.Audit
	switch {
	case a.Checkpoint.Events < 10 || a.Checkpoint.Events > 1_000_000:
		return bad("audit.checkpoint.events", "out of range", "write 10 to 1M")
	case a.Checkpoint.Every < seconds(10) || a.Checkpoint.Every > seconds(86_400):
		return bad("audit.checkpoint.every", "out of range", "write 10s to 24h")
	case a.Counters < seconds(1) || a.Counters > seconds(3600):
		return bad("audit.counters", "out of range", "write 1s to 1h")
	case a.Retention != 0 && a.Retention < seconds(3600):
		return bad("audit.retention", "less than an hour", "write 720h for 30 days, 0s for ever")
	}
	return nil
}

func checkAnchors(c *Config) error {
	if len(c.Audit.Anchors) > maxAnchors {
		return bad("audit.anchors", "more than 8", "name those that somebody looks at")
	}
	for i := range c.Audit.Anchors {
		if err := c.Audit.Anchors[i].check("audit.anchors"+index(i), c.State); err != nil {
			return err
		}
	}
	return nil
}

func (a *Anchor) check(field, state string) error {
	places := 0
	for _, place := range []string{a.File, a.Syslog, a.HTTP} {
		if place != "" {
			places++
		}
	}
	switch {
	case places != 1:
		return bad(field, "not exactly one of file, syslog and http", "write {file: /mnt/other/checkpoints}, an entry for each place")
	case a.File != "":
		return a.checkFile(field, state)
	case a.Syslog != "" && !plausible(a.Syslog, "unix", "udp", "tcp", "tls"):
		return bad(field+".syslog", "not a place of syslog", "write unix:///dev/log, udp://HOST:514, tcp://HOST:601 or tls://HOST:6514")
	case a.HTTP != "" && !plausible(a.HTTP, "https") && !isLoopback(a.HTTP):
		return bad(field+".http", "not an https address", "write https://HOST/PATH; http is for 127.0.0.1 and [::1] alone")
	case a.Roots != "" && !strings.HasPrefix(a.Syslog, "tls:") && a.HTTP == "":
		return bad(field+".roots", "there is no certificate to check", "leave it out")
	case a.Roots != "":
		return checkDir(field+".roots", a.Roots)
	}
	return nil
}

func (a *Anchor) checkFile(field, state string) error {
	if err := checkDir(field+".file", a.File); err != nil {
		return err
	}
	if below, err := filepath.Rel(state, a.File); err == nil && filepath.IsLocal(below) {
		return bad(field+".file", "in the state directory, with the log itself", "name a file on storage that who holds the log cannot write")
	}
	if a.Roots != "" {
		return bad(field+".roots", "there is no certificate to check", "leave it out")
	}
	return nil
}

// plausible reports whether text is an address of one of the schemes; what is
// to be said of the rest, the anchor says when it is made.
func plausible(text string, schemes ...string) bool {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Fragment != "" || u.Opaque != "" || u.Host == "" && u.Path == "" {
		return false
	}
	for _, scheme := range schemes {
		if u.Scheme == scheme {
			return true
		}
	}
	return false
}

func isLoopback(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Fragment != "" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.IsLoopback()
}

// auditWarnings are what of the log's settings thins the record.
func (c *Config) auditWarnings() (out []string) {
	if c.Audit.Arguments != ArgumentsKept {
		out = append(out, c.warning("audit.arguments", c.Audit.Arguments+": rows cannot say with what a tool was called, and calls cannot be replayed"))
	}
	for i, a := range c.Audit.Anchors {
		if strings.HasPrefix(a.Syslog, "udp:") || strings.HasPrefix(a.Syslog, "tcp:") {
			out = append(out, c.warning("audit.anchors"+index(i)+".syslog", "nobody vouches for what arrives there: checkpoints can be lost or kept back on the way"))
		}
	}
	return out
}
