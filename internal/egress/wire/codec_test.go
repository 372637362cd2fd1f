package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/secret"
)

// messages has one message of each member, and those with nothing in them.
func messages() []Message {
	limits := Limits{Connections: 1, AllConnections: 2, CallConnections: 3, Names: 4, Bytes: 5, Dial: time.Second, Idle: 6, Total: 7,
		FetchBytes: 8, FetchHeader: 9, FetchTotal: 10, FetchHops: 11, CacheEntries: 12, CacheFor: 13, CacheBytes: 14, FetchPorts: []int{80, 443}}
	return []Message{
		{Setup: &Setup{Version: 1, Resolvers: []string{"192.0.2.53:53"}, Limits: limits,
			Hosts: []Host{{Name: "db.test", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::5")}}},
			Deny:  []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}},
		{Begin: &Begin{ID: "c1", Team: "blue", Granted: true, Sockets: []Socket{{Use: UseCall}, {Use: UseListen, Port: 443}},
			Network: envelope.Network{Allow: []envelope.Allow{{Host: "a.test", Ports: []int{443}, Inspect: true}}, Private: []envelope.Private{{CIDR: "10.0.0.5/32", Why: "db"}}, Fetch: "public"}}},
		{Grant: &Grant{[]Credential{{Name: "gh", Header: "Authorization", Format: "Bearer {}", Host: "a.test", Port: 443, Methods: []string{"GET"}, Path: "/repos/"}}}},
		{Conn: &Conn{Local: netip.MustParseAddrPort("198.18.1.0:443")}},
		{Conn: &Conn{Local: netip.MustParseAddrPort("[fd00::5]:53"), Datagrams: true}},
		{Fetch: &Fetch{envelope.Fetch{URL: "https://a.test/", Text: true, Bytes: 2 * envelope.MiB, Fresh: true}}},
		{End: &End{}},
		{Hello: &Hello{Version: 1, PID: 7}},
		{Ready: &Ready{CA: "-----BEGIN"}},
		{Refused: &Refused{Why: "no"}},
		{Line: &envelope.Attempt{At: time.Unix(9, 0).UTC(), Host: "a.test", Port: 443, Protocol: "tls", Verdict: envelope.VerdictCut, Why: "w", Address: "192.0.2.1:443",
			Requests: 1, Sent: 2, Received: 3, Took: 4, Unchecked: "fronting"}},
		{Dialled: &envelope.Attempt{At: time.Unix(9, 0).UTC(), Host: "a.test", Port: 443, Protocol: "tls", Verdict: envelope.VerdictAllowed, Address: "192.0.2.1:443"}},
		{Body: &Body{Data: []byte("\x00\xff")}},
		{Fetched: &Fetched{Fetched: envelope.Fetched{URL: "https://a.test/", Hops: []string{"http://a.test/"}, Status: 200, Bytes: 1, WireBytes: 1, Untrusted: true},
			Refused: &envelope.Refusal{Reason: envelope.ReasonPolicy, Message: "m"}}},
		{Done: &Done{envelope.Egress{More: 1, Connections: 2, Denied: 3, Failed: 4, Names: 5, Sent: 6, Received: 7, Credentials: map[string]int64{"gh": 8}}, map[string]int64{"gh": 9}}},
	}
}

func TestEveryMessageComesBackAsItWas(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range messages() {
		b, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if !reflect.DeepEqual(m, back) {
			t.Errorf("%s came back as %+v", b, back)
		}
		name, _, _ := strings.Cut(string(b[2:]), `"`)
		seen[name] = true
	}
	if want := reflect.TypeFor[Message]().NumField(); len(seen) != want {
		t.Errorf("%d members are tried, there are %d", len(seen), want)
	}
}

func TestNilListsAreWrittenAsEmptyOnes(t *testing.T) {
	for _, m := range []Message{{Setup: &Setup{}}, {Setup: &Setup{Hosts: []Host{{Name: "a.test"}}}}, {Begin: &Begin{}}, {Grant: &Grant{}}, {Grant: &Grant{[]Credential{{Name: "gh"}}}}, {Body: &Body{}}} {
		b, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(b); err != nil {
			t.Errorf("%s: %v", b, err)
		}
	}
}

// TestSecretsAreNotWritten: neither as a message nor in anything that is
// printed.
func TestSecretsAreNotWritten(t *testing.T) {
	held, err := secret.New([]byte("s3cr3t-value"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Destroy()
	m := Message{Grant: &Grant{[]Credential{{Name: "gh", Secret: held}}}}
	b, err := Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(m.Grant)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(b), string(asJSON), fmt.Sprintf("%v %+v %#v %v", *m.Grant, *m.Grant, *m.Grant, m.Grant)} {
		for _, form := range []string{"s3cr3t", "czNjcjN0", "733363723374"} {
			if strings.Contains(text, form) {
				t.Errorf("%q has %q", text, form)
			}
		}
	}
}

func TestMalformedMessagesAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "null", "{}", "[]", `{"end":{}}x`, `{"end":null}`, `{"end":{},"hello":{"version":1,"pid":1}}`, `{"end":{"x":1}}`, `{"END":{}}`,
		`{"conn":{"host":"a","port":1,"port":2}}`, `{"conn":{"host":"a","port":"1"}}`, `{"line":{"verdict":"maybe"}}`,
		`{"grant":{"credentials":[{"name":"gh","secret":"x"}]}}`, `{"grant":{"credentials":[{"Secret":"x"}]}}`,
		`{"conn":{"host":"` + strings.Repeat("a", MaxMessage) + `","port":1}}`,
	} {
		m, err := Decode([]byte(text))
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%.80q: %v", text, err)
		}
		if m != (Message{}) {
			t.Errorf("%.80q left %+v", text, m)
		}
	}
}

func TestWhatCannotBeReadIsNotWritten(t *testing.T) {
	for name, m := range map[string]Message{
		"none":    {},
		"two":     {End: &End{}, Hello: &Hello{}},
		"large":   {Body: &Body{Data: make([]byte, MaxMessage)}},
		"verdict": {Line: &envelope.Attempt{}},
	} {
		if b, err := Encode(m); err == nil {
			t.Errorf("%s: %.80q", name, b)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range messages() {
		b, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			if m != (Message{}) {
				t.Fatalf("an error and %+v", m)
			}
			return
		}
		again, err := Encode(m)
		if err != nil {
			return // it can grow past the bound: a character becomes an escape
		}
		back, err := Decode(again)
		if err != nil || !reflect.DeepEqual(m, back) {
			t.Fatalf("%s came back as %+v: %v", again, back, err)
		}
	})
}
