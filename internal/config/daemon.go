package config

import (
	"net/url"
	"strings"
)

// Daemon has "callcell run", "fetch", "explain", "audit" and "workspace" asked of a
// daemon instead of this process: what a call may touch is then in that daemon's
// profiles, and what is kept of it is that daemon's.
type Daemon struct {
	// Address is the daemon's: http://127.0.0.1:7420, or https where it is
	// elsewhere. "": none; calls are made by the command itself.
	Address string `json:"address"`
	// Key is where a key of role call is from: file:PATH, command:WORDS or
	// env:NAME. It is one line; one line end of a file, or of what a command
	// writes, is not part of it.
	Key string `json:"key"`
}

// Named reports whether there is one.
func (d *Daemon) Named() bool { return d.Address != "" }

func checkDaemon(c *Config) error {
	d := &c.Daemon
	switch {
	case *d == Daemon{}:
		return nil
	case !d.Named():
		return bad("daemon.address", "is missing", "write http://127.0.0.1:7420, or leave daemon.key out")
	case !outward(d.Address) || !bare(d.Address):
		return bad("daemon.address", "not the address of a daemon", "write http://127.0.0.1:7420, no path; a key goes over http to 127.0.0.1 and [::1] alone, elsewhere it is https")
	case d.Key == "":
		return bad("daemon.key", "is missing", "callcell key create makes one: file:PATH, command:WORDS or env:NAME")
	}
	return checkSource("daemon.key", d.Key)
}

// bare reports whether an address is scheme, host and port alone.
func bare(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.User == nil && u.RawQuery == "" && u.Fragment == "" && strings.Trim(u.Path, "/") == ""
}
