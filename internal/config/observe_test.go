package config

import (
	"errors"
	"strings"
	"testing"
)

func TestObserveRefuses(t *testing.T) {
	hook := func(more string) string {
		return "webhooks: [{url: 'https://a.example/x', secret: 'file:/s'" + more + "}]"
	}
	for in, want := range map[string]string{
		"telemetry: {endpoint: 'http://a.example/v1/traces'}":                                    "telemetry.endpoint: not an https address",
		"telemetry: {endpoint: 'https://u:p@a.example/'}":                                        "telemetry.endpoint: not an https address",
		"telemetry: {endpoint: 'a.example:4318'}":                                                "telemetry.endpoint: not an https address",
		"telemetry: {endpoint: 'https:///v1'}":                                                   "telemetry.endpoint: not an https address",
		"telemetry: {sample: 0}":                                                                 "telemetry.sample: out of range",
		"telemetry: {queue: 1}":                                                                  "telemetry.queue: out of range",
		"telemetry: {service: 'a b'}":                                                            "telemetry.service: not a name",
		"telemetry: {headers: {Host: 'env:X'}}":                                                  "telemetry.headers.Host: not a header",
		"telemetry: {headers: {Authorization: 'Bearer sesame'}}":                                 "telemetry.headers.Authorization: is not a source",
		"telemetry: {headers: {Authorization: 'file:x'}}":                                        "telemetry.headers.Authorization: not an absolute path",
		"telemetry: {private: [169.254.0.0/16]}":                                                 "telemetry.private[0]: has 169.254.169.254 in it",
		"telemetry: {private: [0.0.0.0/0]}":                                                      "telemetry.private[0]: not an address range",
		"telemetry: {private: [10.0.0.0/8, 10.1.0.0/16]}":                                        "telemetry.private[1]: overlaps",
		"telemetry: {roots: x.pem}":                                                              "telemetry.roots: not an absolute path",
		"webhooks: [{url: 'https://a.example/'}]":                                                "webhooks[0].secret: is missing",
		"webhooks: [{url: 'https://a.example/', secret: 'sesame'}]":                              "webhooks[0].secret: is not a source",
		"webhooks: [{url: 'http://a.example/', secret: 'env:X'}]":                                "webhooks[0].url: not an https address",
		hook(", events: [everything]"):                                                           "webhooks[0].events[0]: not an event",
		hook(", events: [escape, escape]"):                                                       "webhooks[0].events[1]: not an event",
		hook(", perMinute: 601"):                                                                 "webhooks[0].perMinute: out of range",
		hook(", retries: 3"):                                                                     "webhooks[0].retries: ",
		"webhooks: [" + strings.Repeat("{url: 'https://a.example/', secret: 'env:X'},", 9) + "]": "webhooks: more than 8",
		"health: {disk: 0B}":                                                                     "health.disk: out of range",
		"health: {inodes: 0}":                                                                    "health.inodes: out of range",
		"health: {clock: 1h1s}":                                                                  "health.clock: out of range",
		"health: {anchorLag: 1s}":                                                                "health.anchorLag: out of range",
		"health: {ready: true}":                                                                  "health.ready: ",
	} {
		_, err := Read("f.yaml", []byte(in+"\n"), testHost())
		var fault *Error
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), ": "+want) || fault.Hint == "" {
			t.Errorf("%s: %v, want %s", in, err, want)
		} else if strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: what may be a secret is shown: %v", in, err)
		}
	}
}

// TestObserveIsPrintedWithoutSecrets: neither a command that prints one nor the
// path of a receiver's address, which may be one, is shown.
func TestObserveIsPrintedWithoutSecrets(t *testing.T) {
	var out strings.Builder
	if err := full(t).Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`telemetry.headers.Authorization = "command:[redacted]"`, `telemetry.headers.X-Tenant = "env:OTEL_TENANT"`,
		`webhooks[0].url = "https://hooks.example.com/[redacted]"`, `webhooks[0].secret = "command:[redacted]"`, `health.anchorRequired = true`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	for _, secret := range []string{"SECRET", "otel-token", "hook-secret"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	plain := Default(testHost())
	if plain.Telemetry.Endpoint != "" || len(plain.Webhooks) != 0 {
		t.Error("something is told to others by default")
	}
}
