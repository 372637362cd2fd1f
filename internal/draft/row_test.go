package draft_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/draft"
)

// everything is an envelope in which no value is the default's, but for those that
// a row does not have.
const everything = `{"version":1,"level":"container","trust":"hostile","image":"build:data","environment":["MODE"],
 "files":{"scratch":"1Mi","inodes":20,"outputs":{"count":1,"bytes":"1Ki"},"tree":{"count":2,"bytes":"2Ki","changes":{"count":3,"bytes":"3Ki"}},"mounts":{}},
 "network":{"allow":[{"host":"api.example.com","ports":[443],"inspect":true},{"host":"db.example.com","ports":[5432],"protocol":"postgres"}],"private":[],"fetch":"public"},
 "privilege":{"user":"nobody"},"credentials":{},
 "resources":{"cpu":0.5,"cpuTime":"1s","wall":"2s","memory":"32Mi","pids":3,"fileSize":"4Ki","openFiles":17,"output":{"keep":"1Ki","total":"2Ki"}},
 "cleanup":{"stopGrace":"1s"},"task":{"calls":4,"cpuTime":"5s","tokens":6,"wall":"7s"},"coResidency":"none"}`

// TestOfRowHasAllThatWasInForce: a value that was left out would be the default's,
// which is wider for most calls that had another.
func TestOfRowHasAllThatWasInForce(t *testing.T) {
	want, err := envelope.DecodeEnvelope([]byte(everything), envelope.Envelope{})
	if err != nil {
		t.Fatal(err)
	}
	if same := alike("", mapOf(t, &want), mapOf(t, ptr(envelope.Default()))); !slices.Equal(same, []string{"credentials", "files.mounts", "network.private", "privilege.user", "version"}) {
		t.Fatalf("the envelope of the test has the default's %q", same)
	}
	p, err := draft.OfRow("again", &audit.Row{ID: "x", Intent: &audit.IntentRecord{Envelope: json.RawMessage(everything)}})
	if err != nil {
		t.Fatal(err)
	}
	text, got := read(t, []draft.Profile{p})
	reasoned(t, text)
	if e := got["again"]; e.Digest() != want.Digest() {
		t.Errorf("%+v\nwas read as\n%+v\n%s", want, e, text)
	}
}

func ptr[T any](v T) *T { return &v }

func mapOf(t *testing.T, e *envelope.Envelope) map[string]any {
	t.Helper()
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// alike are the fields that are the same in both.
func alike(at string, a, b map[string]any) (same []string) {
	for _, key := range slices.Sorted(maps.Keys(a)) {
		inA, isMap := a[key].(map[string]any)
		inB, _ := b[key].(map[string]any)
		switch {
		case isMap && len(inA) > 0:
			same = append(same, alike(at+key+".", inA, inB)...)
		case reflect.DeepEqual(a[key], b[key]):
			same = append(same, at+key)
		}
	}
	return same
}

// TestRefusedRows: what a call was refused for is proposed where it is a host or a
// variable, and is told of otherwise. Nothing of it is in force.
func TestRefusedRows(t *testing.T) {
	raw, err := json.Marshal(envelope.Default())
	if err != nil {
		t.Fatal(err)
	}
	refusal := func(field string) envelope.Refusal {
		return envelope.Refusal{Reason: envelope.ReasonPolicy, Field: field, Message: "the envelope reaches no host", Hint: "ask"}
	}
	for _, c := range []struct {
		name  string
		field string
		args  *audit.Arguments
		says  string // of the proposals
		allow []envelope.Allow
		env   []string
	}{
		{"a fetch", "fetch", &audit.Arguments{URL: "https://docs.example.com/a?b"}, `network.allow docs.example.com: {host: "docs.example.com", ports: [443]}`, []envelope.Allow{{Host: "docs.example.com", Ports: []int{443}}}, nil},
		{"a fetch of a port", "fetch.url", &audit.Arguments{URL: "http://docs.example.com:8080/"}, `ports: [8080], protocol: http}`, []envelope.Allow{{Host: "docs.example.com", Ports: []int{8080}, Protocol: "http"}}, nil},
		{"a fetch of an address", "fetch.url", &audit.Arguments{URL: "http://169.254.169.254/"}, "(see why)", nil, nil},
		{"a fetch of no address", "fetch.url", &audit.Arguments{URL: "https://a b\x1b/"}, "(see why)", nil, nil},
		{"a fetch with a password", "fetch.url", &audit.Arguments{URL: "https://u:p@docs.example.com/"}, "(see why)", nil, nil},
		{"a fetch that was not kept", "fetch", nil, "(see why)", nil, nil},
		{"variables", "env.MODE", &audit.Arguments{Env: []audit.Secret{{Name: "MODE"}, {Name: "LD_PRELOAD"}}}, `environment: ["MODE"]`, nil, []string{"MODE"}},
		{"outputs", "outputs", &audit.Arguments{Env: []audit.Secret{{Name: "MODE"}}}, "(see why)", nil, nil},
	} {
		row := &audit.Row{ID: "x", Refused: &audit.RefusedRecord{Refusal: refusal(c.field), IntentRecord: audit.IntentRecord{Envelope: raw, Arguments: c.args}}}
		p, err := draft.OfRow("again", row)
		if err != nil {
			t.Fatal(err)
		}
		text, got := read(t, []draft.Profile{p})
		if e := got["again"]; !strings.Contains(text, c.says) || e.Digest() != ptr(envelope.Default()).Digest() {
			t.Errorf("%s: no %q in\n%s", c.name, c.says, text)
		}
		p.Accept()
		text, got = read(t, []draft.Profile{p})
		reasoned(t, text)
		if e := got["again"]; !reflect.DeepEqual(e.Network.Allow, append([]envelope.Allow{}, c.allow...)) || !slices.Equal(e.Environment, c.env) {
			t.Errorf("%s: accepted, %+v\n%s", c.name, e, text)
		}
	}
}
