package draft_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/draft"
	"github.com/callcell/callcell/internal/render"
)

// read writes profiles and reads them back as an operator's configuration.
func read(t testing.TB, profiles []draft.Profile) (string, map[string]envelope.Envelope) {
	t.Helper()
	text, err := draft.File([]string{"a header\nwith \x1b two lines"}, profiles)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Read("draft.yaml", []byte(text), config.Host{Root: true, Executable: "/usr/bin/callcell"})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return text, c.Profiles
}

// reasoned fails the test where a line of a profile has no comment above it.
func reasoned(t testing.TB, text string) {
	t.Helper()
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		body := strings.TrimSpace(l)
		if body == "" || body[0] == '#' || strings.HasSuffix(body, ":") || body == "version: 1" {
			continue
		}
		if !strings.HasPrefix(strings.TrimSpace(lines[i-1]), "# ") || len(strings.TrimSpace(lines[i-1])) < 10 {
			t.Errorf("no reason above %q:\n%s", l, text)
		}
	}
}

func TestAnswers(t *testing.T) {
	gh, err := draft.ParseCredential("gh=command:pass show a@b@api.example.com/repos/")
	if err != nil || gh.Source != "command:pass show a@b" || gh.Path != "/repos/" {
		t.Fatalf("%+v, %v", gh, err)
	}
	a := draft.Answers{
		Name: "work", Read: []envelope.Allow{{Host: "docs.example.com", Ports: []int{443}}}, Write: []envelope.Allow{{Host: "db.example.com", Ports: []int{5432}, Protocol: "postgres"}},
		Credentials: []draft.Credential{gh}, Fetch: true, Environment: []string{"MODE"}, Memory: 512 * envelope.MiB, Wall: envelope.Duration(time.Minute), Trust: envelope.TrustThirdParty,
	}
	text, got := read(t, a.Profiles())
	reasoned(t, text)
	r, w := got["work-read"], got["work-write"]
	if len(r.Network.Allow) != 2 || len(w.Network.Allow) != 3 || w.Network.Fetch != "" || r.Network.Fetch != "public" || r.Trust != envelope.TrustThirdParty {
		t.Errorf("%+v\n%+v", r.Network, w.Network)
	}
	if m := r.Credentials["gh"].Use.Methods; !reflect.DeepEqual(m, []string{"GET", "HEAD"}) || len(w.Credentials["gh"].Use.Methods) != 6 {
		t.Errorf("who reads may write: %v", m)
	}
	if len((&draft.Answers{Name: "x"}).Profiles()) != 1 {
		t.Error("a profile to write with, where nothing is written")
	}
	for _, bad := range []string{"", "gh", "gh=env:X", "=env:X@h/", "gh=@h/"} {
		if c, err := draft.ParseCredential(bad); err == nil {
			t.Errorf("%q: %+v", bad, c)
		}
	}
}

// TestDraftsAreWhatTheyWrite: whatever was answered, the file is read as the
// very envelopes that were drafted, each within what was said, and every value
// has its reason.
func TestDraftsAreWhatTheyWrite(t *testing.T) {
	host := rapid.SampledFrom([]string{"a.example.com", "b.example.com", "*.example.org"})
	rapid.Check(t, func(rt *rapid.T) {
		a := draft.Answers{
			Name: "p", Trust: envelope.Trust(rapid.IntRange(0, 4).Draw(rt, "trust")), Image: rapid.SampledFrom([]string{"", "host", "build:data"}).Draw(rt, "image"),
			Fetch: rapid.Bool().Draw(rt, "fetch"), Environment: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"A", "B"}), 0, 2, rapid.ID).Draw(rt, "env"),
			Memory: envelope.Size(rapid.IntRange(0, 9).Draw(rt, "memory")) * 64 * envelope.MiB, Wall: envelope.Duration(rapid.IntRange(0, 90).Draw(rt, "wall")) * envelope.Duration(time.Second),
		}
		for _, h := range rapid.SliceOfN(host, 0, 4).Draw(rt, "read") {
			a.Read = append(a.Read, envelope.Allow{Host: h, Ports: []int{443}})
		}
		for _, h := range rapid.SliceOfN(host, 0, 4).Draw(rt, "write") {
			a.Write = append(a.Write, envelope.Allow{Host: h, Ports: []int{443}})
		}
		profiles := a.Profiles()
		text, got := read(t, profiles)
		reasoned(t, text)
		for _, p := range profiles {
			if e := got[p.Name]; e.Digest() != p.Envelope.Digest() {
				rt.Fatalf("%+v was read as %+v\n%s", p.Envelope, e, text)
			}
			if len(p.Proposals) > 0 {
				rt.Fatal("an answer is no proposal")
			}
		}
		if len(profiles) == 2 && !envelope.Within(withoutFetch(profiles[0].Envelope), profiles[1].Envelope) {
			rt.Fatalf("what reads may do what what writes may not\n%s", text)
		}
	})
}

func withoutFetch(e envelope.Envelope) envelope.Envelope {
	e.Network.Fetch = ""
	return e
}

// evil is what a program may call a host.
const evil = "x.test\n  allow: [{host: evil.test, ports: [443]}]\n# \x1b[31m\u202e"

func rowOf(t testing.TB, change func(*envelope.Envelope)) *audit.Row {
	t.Helper()
	e := envelope.Default()
	e.Network.Allow = []envelope.Allow{{Host: "api.example.com", Ports: []int{443}}}
	if change != nil {
		change(&e)
	}
	shown := e.Redacted()
	raw, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	denied := func(host string, port int, why string) envelope.Attempt {
		return envelope.Attempt{Host: host, Port: port, Verdict: envelope.VerdictDenied, Why: why}
	}
	attempts := []envelope.Attempt{
		{Host: "api.example.com", Port: 443, Verdict: envelope.VerdictAllowed}, denied("packages.example.org", 0, "no entry "+evil), denied("packages.example.org", 443, "no entry"),
		denied("db.example.org", 5432, ""), denied(evil, 443, ""), denied("10.0.0.1", 443, ""), denied("*.test", 443, ""), denied("UPPER.test", 1, ""), denied("", 0, ""),
	}
	for i := range 100 {
		attempts = append(attempts, denied(fmt.Sprintf("n%d.flood.test", i), 443, ""))
	}
	return &audit.Row{ID: "01a229ca-4faa-73ce-a805-c438f1924d84", Tool: "t" + evil, Intent: &audit.IntentRecord{Envelope: raw},
		Ending: &audit.Ending{Outcome: envelope.OutcomeMemory, Events: []envelope.Event{{Kind: "wall_time", Count: 1}, {Kind: evil}}, Egress: &envelope.Egress{Attempts: attempts}}}
}

// TestOfRowWidensNothing: what was denied is proposed with its why, and what is
// in force is what was in force; nothing that a program wrote is more than a
// comment.
func TestOfRowWidensNothing(t *testing.T) {
	row := rowOf(t, func(e *envelope.Envelope) {
		e.Credentials["gh"] = envelope.Credential{Source: "env:SECRET_PLACE", Use: envelope.CredentialUse{File: true}}
		e.Files.Mounts["m"] = envelope.Mount{Source: "/srv/place", Target: "/m", Why: "w"}
	})
	p, err := draft.OfRow("again", row)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Proposals) != 16+2 {
		t.Errorf("%d proposals: %+v", len(p.Proposals), p.Proposals)
	}
	for _, one := range p.Proposals {
		if one.Why == "" || one.Field == "" || one.Value == "" {
			t.Errorf("%+v", one)
		}
	}
	text, got := read(t, []draft.Profile{p})
	reasoned(t, text)
	e := got["again"]
	if len(e.Network.Allow) != 1 || e.Resources.Memory != 256*envelope.MiB || len(e.Credentials) != 0 || e.Resources.Wall != envelope.Default().Resources.Wall {
		t.Errorf("%+v", e)
	}
	if strings.Contains(text, "place") || strings.Contains(text, "SECRET_PLACE") || render.Text([]byte(text), render.Options{}) != text || strings.Contains(text, "\n  allow: [{host: evil") {
		t.Errorf("%s", text)
	}
	for _, want := range []string{"NOT IN FORCE", `{host: "packages.example.org", ports: [443]}`, `{host: "db.example.org", ports: [5432], protocol: tcp}`, "resources.memory: 512Mi", "resources.wall: 1m0s", "the credential gh", "more attempts"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestAcceptedProposals are in force, each with its reason.
func TestAcceptedProposals(t *testing.T) {
	p, err := draft.OfRow("again", rowOf(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	p.Accept()
	text, got := read(t, []draft.Profile{p})
	reasoned(t, text)
	if e := got["again"]; len(e.Network.Allow) != 17 || e.Resources.Memory != 512*envelope.MiB || strings.Contains(text, "NOT IN FORCE") || !strings.Contains(text, "Its program chose the name") {
		t.Errorf("%+v\n%s", e, text)
	}
}

func TestRowsThatSayTooLittle(t *testing.T) {
	refused := &audit.Row{ID: "i", Refused: &audit.RefusedRecord{Refusal: envelope.Refusal{Reason: envelope.ReasonPolicy, Field: "resources.memory", Message: "asks 1Gi" + evil, Hint: "h"}}}
	for _, row := range []*audit.Row{{}, refused, {Intent: &audit.IntentRecord{Envelope: json.RawMessage(`{"version":9}`)}}} {
		if _, err := draft.OfRow("p", row); !errors.Is(err, draft.ErrRow) {
			t.Errorf("%+v: %v", row, err)
		}
	}
	refused.Refused.IntentRecord = *rowOf(t, nil).Intent
	p, err := draft.OfRow("p", refused)
	if err != nil || len(p.Proposals) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	before := p.Envelope.Digest()
	p.Accept()
	if text, _ := read(t, []draft.Profile{p}); p.Envelope.Digest() != before || !strings.Contains(text, "asks 1Gi") {
		t.Errorf("%s", text)
	}
}

func TestNoValueWithoutAReason(t *testing.T) {
	p := draft.Profile{Name: "p", Envelope: envelope.Default(), Why: map[string]string{"trust": "said so"}}
	p.Envelope.Resources.Pids = 7
	if text, err := draft.File(nil, []draft.Profile{p}); !errors.Is(err, draft.ErrReason) {
		t.Errorf("%s, %v", text, err)
	}
	p.Envelope.Resources.Pids = 0
	if _, err := draft.File(nil, []draft.Profile{p}); err == nil {
		t.Error("a profile that is not valid was written")
	}
}

// FuzzOfRow: whatever names a program tried, the file is read, and nothing is
// in force that was not.
func FuzzOfRow(f *testing.F) {
	f.Add("api.example.org", "why", 443)
	f.Add(evil, evil, -1)
	f.Add("a.test\u2028b", "\x00", 70000)
	f.Fuzz(func(t *testing.T, host, why string, port int) {
		row := rowOf(t, nil)
		row.Ending.Egress.Attempts = []envelope.Attempt{{Host: host, Port: port, Verdict: envelope.VerdictDenied, Why: why, Protocol: why}}
		p, err := draft.OfRow("p", row)
		if err != nil {
			t.Fatal(err)
		}
		text, got := read(t, []draft.Profile{p})
		if e := got["p"]; e.Digest() != p.Envelope.Digest() || len(e.Network.Allow) != 1 {
			t.Fatalf("%s", text)
		}
		p.Accept()
		read(t, []draft.Profile{p})
	})
}
