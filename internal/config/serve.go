package config

import (
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// Serve is the daemon.
type Serve struct {
	// Listen is ADDRESS:PORT. Port 0 is one that is free.
	Listen string `json:"listen"`
	// User is who the daemon is once its launcher has been started, where it was
	// started as root; "": root, without its capabilities.
	User string `json:"user"`
	TLS  TLS    `json:"tls"`
	// Metrics is where Prometheus finds the numbers, ADDRESS:PORT, without a key;
	// "": nowhere.
	Metrics string `json:"metrics"`
	// Hosts are the names, without a port, that a request may call this
	// daemon, beside the address that it listens at and localhost.
	Hosts []string `json:"hosts"`
	// Origins are pages that may call: https://console.example.com. None: no
	// page of another origin can.
	Origins []string `json:"origins"`
	// Proxies are address ranges whose word about who calls is taken.
	Proxies  []string          `json:"proxies"`
	Body     envelope.Size     `json:"body"`     // of a request
	Header   envelope.Duration `json:"header"`   // until the head of a request is there
	Read     envelope.Duration `json:"read"`     // until its body is
	Write    envelope.Duration `json:"write"`    // for one write of an answer
	Idle     envelope.Duration `json:"idle"`     // between two requests of a connection
	Shutdown envelope.Duration `json:"shutdown"` // that calls have when the daemon is to end
	Keep     envelope.Duration `json:"keep"`     // of the result of an asynchronous call
	KeepAll  envelope.Size     `json:"keepAll"`  // of all kept results together, of all that are being read, and of the files of all sessions: of each of them
	// Blob is how large one blob may be that is put by itself, and KeepBlobs how
	// long what a team has put is kept for it, from the last time that it put it;
	// 0s: until it lets go. How much a team may have is workspaces.bytes.
	Blob      envelope.Size     `json:"blob"`
	KeepBlobs envelope.Duration `json:"keepBlobs"`
	Sessions  Sessions          `json:"sessions"`
}

// Sessions bound those of assistants, at /mcp.
type Sessions struct {
	AtOnce envelope.Count    `json:"atOnce"` // of all keys
	OfKey  envelope.Count    `json:"ofKey"`  // of one key; the quietest gives way to a new one
	Idle   envelope.Duration `json:"idle"`   // without a request, until a session ends
}

// TLS are the files of a certificate with its chain, and of its key, in PEM.
// They are read again when they change.
type TLS struct {
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

func defaultServe() Serve {
	return Serve{
		Listen: "127.0.0.1:7420", Hosts: []string{}, Origins: []string{}, Proxies: []string{},
		Body: 32 * envelope.MiB, Header: seconds(10), Read: seconds(60), Write: seconds(30), Idle: seconds(120),
		Shutdown: seconds(30), Keep: seconds(600), KeepAll: 256 * envelope.MiB,
		Blob: 256 * envelope.MiB, KeepBlobs: seconds(7 * 86_400),
		Sessions: Sessions{AtOnce: 256, OfKey: 32, Idle: seconds(1800)},
	}
}

func checkServe(c *Config) error {
	s := &c.Serve
	host, port, err := net.SplitHostPort(s.Listen)
	if err == nil {
		_, err = netip.ParseAddr(host)
	}
	if n, odd := strconv.ParseUint(port, 10, 16); odd != nil || strconv.FormatUint(n, 10) != port || err != nil {
		return bad("serve.listen", "not an address and a port", "write 127.0.0.1:7420 or [::1]:7420")
	}
	if s.Metrics != "" {
		if _, err := netip.ParseAddrPort(s.Metrics); err != nil {
			return bad("serve.metrics", "not an address and a port", "write 127.0.0.1:7421")
		}
	}
	if (s.TLS.Cert == "") != (s.TLS.Key == "") {
		return bad("serve.tls", "one of cert and key is missing", "name both files, or neither")
	}
	for field, path := range map[string]string{"serve.tls.cert": s.TLS.Cert, "serve.tls.key": s.TLS.Key} {
		if path != "" && (!filepath.IsAbs(path) || filepath.Clean(path) != path) {
			return bad(field, "not an absolute path in its shortest form", "write it from / on")
		}
	}
	return checkServeLists(s)
}

func checkServeLists(s *Serve) error {
	for i, host := range s.Hosts {
		if host == "" || strings.ContainsAny(host, "/:@ *") || strings.ToLower(host) != host {
			return bad("serve.hosts"+index(i), "not a name", "write it in lower case, without scheme and port")
		}
	}
	for i, origin := range s.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || origin != u.Scheme+"://"+strings.ToLower(u.Host) {
			return bad("serve.origins"+index(i), "not an origin", "write https://HOST or https://HOST:PORT, no path, no *")
		}
	}
	for i, text := range s.Proxies {
		if p, err := netip.ParsePrefix(text); err != nil || p.Masked() != p {
			return bad("serve.proxies"+index(i), "not an address range", "write ADDRESS/BITS: 10.0.0.0/24")
		}
	}
	return nil
}

// checkServeLimits holds every number to a range in which it means something.
func checkServeLimits(c *Config) error {
	s := &c.Serve
	for _, v := range []struct {
		field         string
		value, lo, hi int64
		text          string
	}{
		{"body", int64(s.Body), 1024, 1 << 30, "1Ki to 1Gi"},
		{"header", int64(s.Header), int64(seconds(1)), int64(seconds(60)), "1s to 1m"},
		{"read", int64(s.Read), int64(seconds(1)), int64(seconds(3600)), "1s to 1h"},
		{"write", int64(s.Write), int64(seconds(1)), int64(seconds(3600)), "1s to 1h"},
		{"idle", int64(s.Idle), int64(seconds(1)), int64(seconds(3600)), "1s to 1h"},
		{"shutdown", int64(s.Shutdown), 0, int64(seconds(3600)), "0s to 1h"},
		{"keep", int64(s.Keep), int64(seconds(1)), int64(seconds(86_400)), "1s to 24h"},
		{"keepAll", int64(s.KeepAll), 1 << 20, 1 << 36, "1Mi to 64Gi"},
		{"blob", int64(s.Blob), 1024, 1 << 36, "1Ki to 64Gi"},
		{"keepBlobs", int64(s.KeepBlobs), 0, int64(seconds(86_400 * 3660)), "0s to ten years"},
		{"sessions.atOnce", int64(s.Sessions.AtOnce), 1, 100_000, "1 to 100k"},
		{"sessions.ofKey", int64(s.Sessions.OfKey), 1, 10_000, "1 to 10k"},
		{"sessions.idle", int64(s.Sessions.Idle), int64(seconds(1)), int64(seconds(86_400)), "1s to 24h"},
	} {
		if v.value < v.lo || v.value > v.hi {
			return bad("serve."+v.field, "out of range", "write "+v.text)
		}
	}
	return nil
}

// Local reports whether only this host can reach the daemon.
func (s *Serve) Local() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	addr, odd := netip.ParseAddr(host)
	return err == nil && odd == nil && addr.IsLoopback()
}

func (c *Config) serveWarnings() (out []string) {
	s := &c.Serve
	if !s.Local() && s.TLS.Cert == "" {
		out = append(out, c.warning("serve.listen", s.Listen+" without serve.tls: keys go over the network in the clear"))
	}
	if at, err := netip.ParseAddrPort(s.Metrics); err == nil && !at.Addr().IsLoopback() {
		out = append(out, c.warning("serve.metrics", s.Metrics+": whoever reaches it sees how much this host does"))
	}
	if len(s.Origins) > 0 {
		out = append(out, c.warning("serve.origins", "pages of other origins can call"))
	}
	if len(s.Proxies) > 0 {
		out = append(out, c.warning("serve.proxies", "the word of these addresses about who calls is taken"))
	}
	return out
}
