package envelope

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The words of the wire never change. A new one is added to the golden file
// by hand; nothing is ever taken out of it.
func TestCodesGolden(t *testing.T) {
	want, err := os.ReadFile("testdata/codes.golden")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	bySet := map[string][]string{}
	for _, c := range Codes() {
		fmt.Fprintf(&got, "%s %s\n", c.Set, c.Word)
		bySet[c.Set] = append(bySet[c.Set], c.Word)
		if c.Means == "" {
			t.Errorf("%s %s: no meaning", c.Set, c.Word)
		}
	}
	if got.String() != string(want) {
		t.Errorf("the words have changed:\n%s", got.String())
	}
	for name, s := range map[string]set{"level": levels(), "trust": trusts(), "outcome": outcomes(), "refusal": reasons(), "verdict": verdicts(), "need": needs(), "change": changeKinds()} {
		if !slices.Equal(bySet[name], s.list()) || s.kind != name {
			t.Errorf("%s: the table and the set differ", name)
		}
	}
}

// The table of the package doc has every field, once, with what a request
// may do.
func TestNarrowerTableIsComplete(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^//\t([a-z][A-Za-z.]+) +.*?  +(may|cannot)\b`).FindAllSubmatch(doc, -1) {
		field := string(m[1])
		if _, twice := rows[field]; twice {
			t.Errorf("%s comes twice", field)
		}
		rows[field] = string(m[2]) == "may"
	}
	fields := fieldPaths(reflect.TypeFor[Envelope](), "")
	requests := fieldPaths(reflect.TypeFor[Request](), "")
	for _, field := range fields {
		may, ok := rows[field]
		if !ok {
			t.Errorf("%s is not in the table", field)
		}
		if may != slices.Contains(requests, field) {
			t.Errorf("%s: the table and Request differ", field)
		}
	}
	if len(rows) != len(fields) {
		t.Errorf("%d rows for %d fields", len(rows), len(fields))
	}
	for _, field := range requests {
		if !slices.Contains(fields, field) {
			t.Errorf("%s of Request is no field of Envelope", field)
		}
	}
}

func TestChecksAreDocumented(t *testing.T) {
	for _, docs := range [][]CheckDoc{Checks(), WarningDocs()} {
		seen := map[string]bool{}
		for _, d := range docs {
			if d.Name == "" || d.Says == "" || seen[d.Of+d.Name] || d.Of != "envelope" && d.Of != "call" {
				t.Errorf("%+v", d)
			}
			seen[d.Of+d.Name] = true
		}
	}
	var e Envelope
	numbers := 0
	walkLeaves(reflect.ValueOf(&e), "", func(path string, leaf reflect.Value) {
		if leaf.Kind() != reflect.Int64 {
			return
		}
		numbers++
		if !slices.ContainsFunc(Bounds(), func(b Bound) bool { return b.Field == path && b.Least != "" && b.Most != "" }) {
			t.Errorf("%s has no bounds", path)
		}
	})
	if numbers != len(Bounds()) {
		t.Errorf("%d ceilings, %d bounds", numbers, len(Bounds()))
	}
}

// Each bound is looked up at the field that it names, and reached.
func TestBoundsAreReached(t *testing.T) {
	for _, b := range bounds() {
		for _, n := range []int64{b.least, b.most, b.least - 1, b.most + 1} {
			e := full()
			walkLeaves(reflect.ValueOf(&e), "", func(path string, leaf reflect.Value) {
				if path == b.field {
					leaf.SetInt(n)
				}
			})
			var f *FieldError
			err := error(asError(checkBounds(&e)))
			inside := n >= b.least && n <= b.most
			if inside != (err == nil) || err != nil && (!errors.As(err, &f) || f.Field != b.field) {
				t.Errorf("%s of %s: %v", b.field, b.text(n), err)
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	e := Default()
	if got := e.Warnings(); got == nil || len(got) > 0 {
		t.Errorf("the default warns: %q", got)
	}
	cases := []struct {
		name   string
		change func(*Envelope)
		want   string
	}{
		{"trust", func(e *Envelope) { e.Trust = TrustReviewed }, "trust: reviewed"},
		{"mount", func(e *Envelope) { e.Files.Mounts["m"] = Mount{"/srv/m", "/m", "big"} }, "files.mounts.m: the call sees a directory of the host at /m"},
		{"wildcard", func(e *Envelope) { e.Network.Allow = []Allow{{Host: "*.a.test", Ports: []int{443}}} }, "network.allow[0]: *.a.test"},
		{"tcp", func(e *Envelope) {
			e.Network.Allow = []Allow{{Host: "x.a.test", Ports: []int{22}, Protocol: ProtocolTCP}}
		}, "network.allow[0]: what is sent to x.a.test"},
		{"private", func(e *Envelope) { e.Network.Private = []Private{{"127.0.0.1/32", "stand"}} }, "network.private[0]: the call can reach 127.0.0.1/32, services of this host itself (stand)"},
		{"address-inert", func(e *Envelope) { e.Network.Allow = []Allow{{Host: "10.1.2.3", Ports: []int{443}}} }, "network.allow[0]: 10.1.2.3 is not public"},
		{"fetch", func(e *Envelope) { e.Network.Fetch = FetchPublic }, "network.fetch"},
		{"credential-env", func(e *Envelope) {
			e.Credentials["c"] = Credential{Source: "env:X", Use: CredentialUse{Env: "TOKEN"}}
		}, "credentials.c: the call is given the secret itself, in TOKEN"},
		{"credential-inert", func(e *Envelope) { e.Credentials["gh"] = full().Credentials["gh"] }, "credentials.gh: api.example.com is not allowed with tls on port 8443"},
		{"loud", func(e *Envelope) { e.Resources.Wall = Duration(2 * time.Hour) }, "resources.wall: 2h0m0s is far above"},
	}
	for i, c := range cases {
		if docs := WarningDocs(); i >= len(docs) || docs[i].Name != c.name {
			t.Fatalf("no case for the warnings in order: %s", c.name)
		}
		e := Default()
		c.change(&e)
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		got := e.Warnings()
		if len(got) != 1 || !strings.HasPrefix(got[0], c.want) || strings.Contains(got[0], "/srv") {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	plainTCP := full()
	plainTCP.Network.Allow = []Allow{{Host: "api.example.com", Ports: []int{8443}, Protocol: ProtocolTCP}}
	if got := warnCredentialInert(&plainTCP); len(got) != 1 {
		t.Errorf("a credential that goes over tcp: %q", got)
	}
	if len(cases) != len(WarningDocs()) {
		t.Error("a warning without a case")
	}
	whole := full()
	if got := whole.Warnings(); len(got) != 6 {
		t.Errorf("%q", got)
	}
}

// An address is warned about as a name is, and where it can never be reached.
func TestWarningsOfAddresses(t *testing.T) {
	list := func(hosts ...string) (out []Allow) {
		for _, host := range hosts {
			out = append(out, Allow{Host: host, Ports: []int{22}, Protocol: ProtocolTCP})
		}
		return out
	}
	const tcp = ": what is sent to"
	cases := []struct {
		name    string
		allow   []Allow
		private string
		want    []string // what the lines hold, in order
	}{
		{"public", list("203.0.113.7", "2001:db8::7"), "", []string{tcp, tcp}},
		{"in a range", list("10.1.2.3"), "10.1.0.0/16", []string{tcp, "can reach 10.1.0.0/16"}},
		{"in no range", list("10.1.2.3", "fd00::1", "169.254.1.1"), "10.9.0.0/16", []string{tcp, tcp, tcp, "can reach 10.9.0.0/16", "[0]: 10.1.2.3 is not", "[1]: fd00::1 is not", "[2]: 169.254.1.1 is not"}},
		{"this host, by itself", list("127.0.0.1"), "127.0.0.1/32", []string{tcp, "services of this host itself"}},
		{"this host, in a range", list("127.0.0.1"), "127.0.0.0/8", []string{tcp, "127.0.0.0/8 opens nothing", "[0]: 127.0.0.1 is not"}},
		{"this host, IPv6", list("::1"), "::1/128", []string{tcp, "services of this host itself"}},
	}
	for _, c := range cases {
		e := Default()
		e.Network.Allow = c.allow
		if c.private != "" {
			e.Network.Private = []Private{{c.private, "stand"}}
		}
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		got := e.Warnings()
		ok := len(got) == len(c.want)
		for i := range min(len(got), len(c.want)) {
			ok = ok && strings.Contains(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestRefusalOf(t *testing.T) {
	refusal := &Refusal{Reason: ReasonRate, Message: "slow down"}
	for _, c := range []struct {
		err  error
		want *Refusal
	}{
		{nil, nil},
		{errors.New("disk on fire"), nil},
		{refusal, refusal},
		{fmt.Errorf("step: %w", refusal), refusal},
		{fmt.Errorf("step: %w", &FieldError{Reason: ReasonPolicy, Field: "a.b", Msg: "m", Hint: "h"}), &Refusal{Reason: ReasonPolicy, Message: "m", Field: "a.b", Hint: "h"}},
		{&FieldError{Field: "a", Msg: "m"}, &Refusal{Reason: ReasonRequest, Message: "m", Field: "a"}},
		{&DecodeError{Path: "a", Msg: "m", Hint: "h"}, &Refusal{Reason: ReasonRequest, Message: "m", Field: "a", Hint: "h"}},
		{&ValueError{Kind: "size", Value: "x", Want: []string{"w"}, Hint: "h"}, &Refusal{Reason: ReasonRequest, Message: `bad size "x": want w`, Hint: "h"}},
	} {
		if got := RefusalOf(c.err); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
	if got := (&DecodeError{Msg: "m", Err: refusal}); !errors.Is(got, error(refusal)) || got.Error() != "m" {
		t.Error(got)
	}
}

func TestResult(t *testing.T) {
	done := Result{Outcome: OutcomeCompleted}
	failed := Result{Outcome: OutcomeCompleted, Exit: Exit{Code: 1}}
	killed := Result{Outcome: OutcomeSignalled, Exit: Exit{Code: -1, Signal: "SIGKILL"}}
	refused := Result{Refusal: &Refusal{Reason: ReasonRate, Message: "m"}}
	for i, c := range []struct {
		r       Result
		ran, ok bool
	}{{done, true, true}, {failed, true, false}, {killed, true, false}, {refused, false, false}, {Result{}, true, false}} {
		if c.r.Ran() != c.ran || c.r.OK() != c.ok {
			t.Errorf("%d: ran %v, ok %v", i, c.r.Ran(), c.r.OK())
		}
	}
	// What the daemon writes, a client reads back.
	e := full()
	for _, r := range []Result{done, killed, refused, {Outcome: OutcomeMemory, Level: LevelContainer, Envelope: &e, Stdout: Stream{Head: Data{0xff}, Total: 1},
		Outputs: []File{{Name: "a"}}, Usage: Usage{Wall: time.Second, MemoryPeak: -1}, Teardown: &Report{Complete: true, Checks: []Check{{What: "uid", Gone: true}}}}} {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("null")) {
			t.Errorf("null in %s", data)
		}
		var back Result
		if err := Decode(data, 1<<20, &back); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		if again, err := json.Marshal(back); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%v\n%s\n%s", err, data, again)
		}
	}
}

// TestWordsInTags: the words that the document has of a field are those that are
// taken.
func TestWordsInTags(t *testing.T) {
	tag := func(of reflect.Type, field string) []string {
		f, _ := of.FieldByName(field)
		return strings.Split(f.Tag.Get("enum"), ",")
	}
	for _, c := range []struct {
		name  string
		words []string
		taken func(word string) error
	}{
		{"lang", tag(reflect.TypeFor[Script](), "Lang"), func(word string) error {
			c := Call{Script: &Script{Lang: word, Code: "1"}}
			return c.Validate()
		}},
		{"protocol", tag(reflect.TypeFor[Allow](), "Protocol"), func(word string) error {
			e := Default()
			e.Network.Allow = []Allow{{Host: "a.example.com", Ports: []int{443}, Protocol: word}}
			return e.Validate()
		}},
		{"user", tag(reflect.TypeFor[Privilege](), "User"), func(word string) error {
			e := Default()
			e.Privilege.User = word
			return e.Validate()
		}},
		{"coResidency", tag(reflect.TypeFor[Envelope](), "CoResidency"), func(word string) error {
			e := Default()
			e.CoResidency = word
			return e.Validate()
		}},
	} {
		for _, word := range c.words {
			if err := c.taken(word); err != nil {
				t.Errorf("%s %q: %v", c.name, word, err)
			}
		}
		if c.taken("x") == nil {
			t.Errorf("%s: any word is taken", c.name)
		}
	}
}
