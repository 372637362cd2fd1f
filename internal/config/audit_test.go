package config

import (
	"errors"
	"strings"
	"testing"
)

func TestAuditRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"key: audit.key":          "audit.key: not an absolute path",
		"checkpoint: {events: 1}": "audit.checkpoint.events: out of range",
		"checkpoint: {every: 1s}": "audit.checkpoint.every: out of range",
		"counters: 0s":            "audit.counters: out of range",
		"retention: 59m":          "audit.retention: less than an hour",
		"anchors: [{}]":           "audit.anchors[0]: not exactly one",
		"anchors: [{file: /mnt/x, http: 'https://a.example/'}]": "audit.anchors[0]: not exactly one",
		"anchors: [{file: x}]":                                    "audit.anchors[0].file: not an absolute path",
		"anchors: [{file: /var/state/x}]":                         "audit.anchors[0].file: in the state directory",
		"anchors: [{file: /mnt/x, roots: /r.pem}]":                "audit.anchors[0].roots: there is no certificate",
		"anchors: [{syslog: '/dev/log'}]":                         "audit.anchors[0].syslog: not a place",
		"anchors: [{syslog: 'http://x:1'}]":                       "audit.anchors[0].syslog: not a place",
		"anchors: [{syslog: 'udp://x:1', roots: /r.pem}]":         "audit.anchors[0].roots: there is no certificate",
		"anchors: [{http: 'http://a.example/'}]":                  "audit.anchors[0].http: not an https address",
		"anchors: [{http: 'https://u:p@a.example/'}]":             "audit.anchors[0].http: not an https address",
		"anchors: [{http: 'https://a.example/', roots: r.pem}]":   "audit.anchors[0].roots: not an absolute path",
		"anchors: [" + strings.Repeat("{file: /mnt/x},", 9) + "]": "audit.anchors: more than 8",
		"anchors: [{telnet: x}]":                                  "audit.anchors[0].telnet: ",
	} {
		_, err := Read("f.yaml", []byte("state: /var/state\naudit: {"+in+"}\n"), testHost())
		var fault *Error
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), ": "+want) || fault.Hint == "" {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

func TestAuditIsTaken(t *testing.T) {
	c, err := Read("f.yaml", []byte("state: /var/state\naudit: {anchors: [{http: 'http://127.0.0.1:9/x'}, {syslog: 'unix:///dev/log'}, {syslog: 'udp://log.example:514'}]}\n"), testHost())
	if err != nil {
		t.Fatal(err)
	}
	if c.Audit.Arguments != ArgumentsKept || c.Audit.Checkpoint.Events != 1000 || len(c.Audit.Anchors) != 3 || c.KeyFile() != "/var/state/audit.key" {
		t.Errorf("%+v", c.Audit)
	}
	if w := strings.Join(c.Warnings(), "\n"); !strings.Contains(w, "audit.anchors[2].syslog: nobody vouches") || strings.Contains(w, "anchors[1]") {
		t.Errorf("warnings: %s", w)
	}
	if got := full(t).KeyFile(); got != "/etc/callcell/audit.key" {
		t.Errorf("key %s", got)
	}
}
