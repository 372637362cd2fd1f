package fetch

import (
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/suffix"
)

func parser() *Fetcher { return New(Options{Limits: limits(), ToASCII: suffix.ToASCII}) }

func TestAddressesHaveOneForm(t *testing.T) {
	for text, want := range map[string]string{
		"http://allowed.test":                        "http://allowed.test/",
		"HTTP://ALLOWED.Test.:80/a#top":              "http://allowed.test/a",
		"https://allowed.test:443?q=1":               "https://allowed.test/?q=1",
		"https://allowed.test:0443/":                 "https://allowed.test/",
		"http://allowed.test:443/":                   "http://allowed.test:443/",
		"http://allowed.test:/x":                     "http://allowed.test/x",
		"https://bücher.test/":                       "https://xn--bcher-kva.test/",
		"https://b%C3%BCcher.test/":                  "https://xn--bcher-kva.test/",
		"http://[2606:4700::1111]/":                  "http://[2606:4700::1111]/",
		"http://[2606:4700:0:0::1111]:8080/":         "http://[2606:4700::1111]:8080/",
		"http://[::ffff:5db8:d822]/":                 "http://93.184.216.34/",
		"http://allowed.test/é b/%2e%2e/%zz?é b":     "",
		"http://allowed.test/é b/%2e%2e/x":           "http://allowed.test/%C3%A9%20b/%2e%2e/x",
		"http://allowed.test/?q=é b\"<>\\^`{|}%zz&x": "http://allowed.test/?q=%C3%A9%20b%22%3C%3E%5C%5E%60%7B%7C%7D%zz&x",
		"http://allowed.test/?":                      "http://allowed.test/?",
		"http://allowed.test//evil.test/":            "http://allowed.test//evil.test/",
		"http://allowed.test/?\xff":                  "http://allowed.test/?%FF",
		"http://allowed.test/a\\b":                   "http://allowed.test/a%5Cb",
	} {
		a, bad := parser().parse(text, nil)
		if want == "" {
			if bad == nil {
				t.Errorf("%q is taken as %s", text, a)
			}
			continue
		}
		if bad != nil || a.String() != want {
			t.Errorf("%q is %s, %v; want %s", text, a, bad, want)
			continue
		}
		if again, bad := parser().parse(a.String(), nil); bad != nil || again != a {
			t.Errorf("%s read again is %s, %v", a, again, bad)
		}
	}
}

func TestAddressesThatAreNoneAreRefusedWithAHint(t *testing.T) {
	for text, want := range map[string]string{
		"":                                           "scheme not allowed",
		"allowed.test":                               "scheme not allowed",
		"//allowed.test/":                            "scheme not allowed",
		"allowed.test:80/":                           "",
		"http:///x":                                  "no host",
		"http:allowed.test":                          "no host",
		"http://:80/":                                "bad host",
		"http://allowed.test:0/":                     "not a port",
		"http://allowed.test:65536/":                 "not a port",
		"http://allowed.test:-1/":                    "not an address",
		"http://me@allowed.test/":                    "user information",
		"http://@allowed.test/":                      "user information",
		"http://me:pw@allowed.test/":                 "user information",
		"http://allowed.test\t/":                     "not an address",
		"http://allowed.test/\r\nHost: x":            "not an address",
		"http://allowed.test /":                      "not an address",
		"http://allowed.test\\@evil.test/":           "user information",
		"http://allowed.test%2fx/":                   "not an address",
		"http://a\u200d.test/":                       "bad host",
		"http://[::1/":                               "not an address",
		"http://[fe80::1%25eth0]/":                   "bad host",
		"http://allowed.test/" + string(long(8<<10)): "more than 8 KiB",
		"http://allowed.test/?" + strings.Repeat("é", 2000): "more than 8 KiB when",
	} {
		a, bad := parser().parse(text, nil)
		if bad == nil || !strings.Contains(bad.msg, want) || bad.hint == "" || bad.reason != envelope.ReasonRequest {
			t.Errorf("%.60q: %s, %+v; want %q", text, a, bad, want)
		}
	}
}

func long(n int) []byte { return []byte(strings.Repeat("a", n)) }

func TestSchemeAndProtocolMustAgree(t *testing.T) {
	pol := listed(t,
		envelope.Allow{Host: "tls.test", Ports: []int{443, 80}, Protocol: envelope.ProtocolTLS},
		envelope.Allow{Host: "http.test", Ports: []int{80}},
		envelope.Allow{Host: "tcp.test", Ports: []int{80, 443}, Protocol: envelope.ProtocolTCP},
		envelope.Allow{Host: "db.test", Ports: []int{80}, Protocol: envelope.ProtocolPostgres},
		envelope.Allow{Host: "*.below.test", Ports: []int{443}},
	)
	for url, want := range map[string]string{
		"https://tls.test/": "", "https://tls.test:80/": "", "http://tls.test/": "says protocol tls", "http://tls.test:443/": "says protocol tls",
		"http://http.test/": "", "https://http.test:80/": "says protocol http", "https://http.test/": "port 80, not 443",
		"http://tcp.test/": "", "https://tcp.test/": "", "http://db.test/": "speaks postgres",
		"https://a.below.test/": "", "https://below.test/": "covers names below",
		"https://denied.test/": "no entry of network.allow covers it", "https://t1s.test/": `did you mean network.allow[0] "tls.test"?`,
	} {
		a, bad := parser().parse(url, nil)
		if bad != nil {
			t.Fatal(url, bad)
		}
		bad = permitted(pol, a)
		if want == "" && bad != nil || want != "" && (bad == nil || !strings.Contains(bad.msg, want) || bad.hint == "" || bad.reason != envelope.ReasonPolicy) {
			t.Errorf("%s: %+v, want %q", url, bad, want)
		}
	}
}

func TestNeutralTextIsOnePrintedLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain":              "plain",
		"a\r\nb\x1b[31m\x00": "a??b?[31m?",
		"a\u202eb\u200bc":    "a?b?c",
		"\xff\xfe":           "??",
		"ééééééééééé":        "ééé...",
	} {
		if got := neutral(text, 10); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
