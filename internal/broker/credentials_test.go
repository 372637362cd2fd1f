package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest/fake"
	"github.com/callcell/callcell/internal/credential"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/credential/source"
	"github.com/callcell/callcell/internal/placement"
)

// value is the secret of a name in these tests.
func value(name string) string { return "s3cr3t-value-of-" + name }

// standSources hand out value(name) for env:NAME.
type standSources struct{ s *stand }

func (o standSources) Open(c envelope.Credential) (source.Source, error) {
	if strings.HasSuffix(c.Source, ":NONE") {
		return nil, &source.Fault{Kind: source.Env, Reason: source.Unconfigured, Msg: "there is no such source"}
	}
	return standSource{o.s, strings.TrimPrefix(c.Source, "env:")}, nil
}

type standSource struct {
	s    *stand
	name string
}

func (standSource) Kind() source.Kind { return source.Env }
func (standSource) Group() string     { return "" }
func (standSource) Field() string     { return "" }

func (o standSource) Fetch(ctx context.Context, _ source.Request) (*source.Grant, error) {
	if err := o.s.at(ctx, "issue"); err != nil {
		return nil, &source.Fault{Kind: source.Env, Reason: source.Absent, Msg: err.Error()}
	}
	v, err := secret.New([]byte(value(o.name)))
	if err != nil {
		return nil, err
	}
	return &source.Grant{
		Secrets: map[string]secret.Secret{"": v},
		Revoke:  func(ctx context.Context) error { return o.s.at(ctx, "revoke") },
	}, nil
}

// newSecretStand is a net stand whose profile has a credential of each use.
func newSecretStand(t *testing.T) (*stand, *standEgress) {
	e := &standEgress{dead: make(chan struct{})}
	var issuer *credential.Issuer
	s := newStand(t, func(c *broker.Config) {
		c.Egress, c.Offers = e, offers(placement.Offer{Level: envelope.LevelContainer, Available: true})
		c.Credentials = issuing{&issuer}
	})
	e.s = s
	issuer = credential.NewIssuer(standSources{s}, credential.Options{IssueTime: 5 * time.Second})
	s.profile.Network.Allow = []envelope.Allow{{Host: "a.test", Ports: []int{443}}}
	s.profile.Credentials = map[string]envelope.Credential{
		"edge": {Source: "env:EDGE", Use: envelope.CredentialUse{Header: "Authorization", Host: "a.test", Methods: []string{"GET"}, Path: "/"}},
		"file": {Source: "env:FILE", Use: envelope.CredentialUse{File: true}},
		"env":  {Source: "env:VAR", Use: envelope.CredentialUse{Env: "TOKEN"}},
	}
	return s, e
}

// issuing is an issuer that is made after the broker.
type issuing struct{ issuer **credential.Issuer }

func (i issuing) Check(c map[string]envelope.Credential) error { return (*i.issuer).Check(c) }

func (i issuing) Issue(ctx context.Context, call string, c map[string]envelope.Credential) (*credential.Lease, error) {
	return (*i.issuer).Issue(ctx, call, c)
}

// leaky writes every secret that it can get hold of.
func leaky(p *fake.Proc) fake.Status {
	token := ""
	for _, v := range p.Env {
		if after, ok := strings.CutPrefix(v, "TOKEN="); ok {
			token = after
		}
	}
	for i := range token { // in pieces
		fmt.Fprint(p.Stdout, token[i:i+1])
	}
	fmt.Fprint(p.Stderr, "and "+value("FILE"))
	if err := p.Files.Write("out", []byte("x"+token+"y"), false); err != nil {
		return fake.Exit(1)
	}
	if err := p.Files.Write(token, nil, false); err != nil {
		return fake.Exit(1)
	}
	return fake.Exit(0)
}

func TestCredentials(t *testing.T) {
	s, e := newSecretStand(t)
	var given cell.Command
	s.runtime = fake.New(envelope.LevelContainer, map[string]fake.Program{"leaky": leaky})
	s.commands = func(cmd cell.Command) { given = cmd; given.Run = cloneRun(cmd.Run) }
	r := s.run(t.Context(), &envelope.Call{Argv: []string{"leaky"}, Outputs: []string{"out", value("VAR")}})
	if r.Outcome != envelope.OutcomeCompleted || r.Exit.Code != 0 {
		t.Fatalf("%+v %+v", r.Refusal, r.Exit)
	}
	if string(r.Stdout.Head) != "[redacted:env]" || string(r.Stderr.Head) != "and [redacted:file]" {
		t.Errorf("stdout %q, stderr %q", r.Stdout.Head, r.Stderr.Head)
	}
	if len(r.Outputs) != 1 || string(r.Outputs[0].Data) != "x[redacted:env]y" || len(r.Missing) != 1 {
		t.Errorf("outputs %+v, missing %+v", r.Outputs, r.Missing)
	}
	if r.Masked["env"] < 2 || r.Masked["file"] != 1 {
		t.Errorf("masked %v", r.Masked)
	}
	if text := fmt.Sprintf("%+v %+v", r, s.endings[r.ID]); strings.Contains(text, "s3cr3t") {
		t.Errorf("a secret in result or row: %s", text)
	}
	if !slices.Contains(given.Env, "TOKEN="+value("VAR")) || strings.Contains(strings.Join(given.Env, " "), value("EDGE")) {
		t.Errorf("environment %q", given.Env)
	}
	i := slices.IndexFunc(given.Run, func(f cell.RunFile) bool { return f.Name == "credentials/file" })
	if i < 0 || string(given.Run[i].Data) != value("FILE") || given.Run[i].Mode != 0o400 {
		t.Errorf("files %+v", given.Run)
	}
	if len(e.out.Held) != 1 || e.out.Held[0].Name != "edge" {
		t.Errorf("the way out holds %+v", e.out.Held)
	}
	for _, order := range [][2]string{{"issue", "exec"}, {"close", "revoke"}, {"revoke", "complete"}} {
		if !s.before(order[0], order[1]) {
			t.Errorf("%s is not before %s: %q", order[0], order[1], s.trace)
		}
	}
	if !r.Teardown.Complete || !slices.ContainsFunc(r.Teardown.Checks, func(c envelope.Check) bool { return c.What == "credentials" && c.Gone }) {
		t.Errorf("teardown %+v", r.Teardown)
	}
}

// TestSecretsInArgumentsAreHeldBack: the intent is written while the secrets
// are issued, so it has no text of a call that has any; the ending has it,
// masked.
func TestSecretsInArgumentsAreHeldBack(t *testing.T) {
	s, _ := newSecretStand(t)
	s.runtime = fake.New(envelope.LevelContainer, map[string]fake.Program{"leaky": leaky})
	call := &envelope.Call{Argv: []string{"leaky", "-H", "Bearer " + value("EDGE")}, Outputs: []string{"x-" + value("VAR"), "out"},
		Inputs: []envelope.File{{Name: "in-" + value("FILE"), Data: []byte(value("FILE"))}}}
	r := s.run(t.Context(), call)
	said := s.endings[r.ID].Said
	if !s.intents[r.ID].Hold || said == nil {
		t.Fatalf("held %v, said %v", s.intents[r.ID].Hold, said)
	}
	if said.Argv[2] != "Bearer [redacted:edge]" || said.Outputs[0] != "x-[redacted:env]" || said.Outputs[1] != "out" ||
		said.Inputs[0].Name != "in-[redacted:file]" || string(said.Inputs[0].Data) != value("FILE") {
		t.Errorf("said %+v", said)
	}
	if call.Argv[2] != "Bearer "+value("EDGE") || call.Outputs[0] != "x-"+value("VAR") {
		t.Errorf("the call itself was changed: %+v", call)
	}
	s.fault("open", func(context.Context) error { return errors.New("no " + value("EDGE")) })
	r = s.run(t.Context(), call)
	if r.Refusal == nil || !strings.Contains(r.Refusal.Message, "no [redacted:edge]") {
		t.Errorf("refusal %+v", r.Refusal)
	}
	if ref := s.refused[r.ID]; ref.Said == nil || ref.Said.Argv[2] != "Bearer [redacted:edge]" || strings.Contains(ref.Refusal.Message, "s3cr3t") {
		t.Errorf("refused after the intent: %+v", ref)
	}
}

func cloneRun(files []cell.RunFile) (out []cell.RunFile) {
	for _, f := range files {
		f.Data = slices.Clone(f.Data)
		out = append(out, f)
	}
	return out
}

func TestCredentialsCannotBeHad(t *testing.T) {
	s, _ := newSecretStand(t)
	s.fault("issue", func(context.Context) error { return errors.New("down") })
	r := s.run(t.Context(), argv("sh", "x"))
	if r.Refusal == nil || s.count("open") != 0 || s.count("exec") != 0 {
		t.Errorf("%+v, %q", r.Refusal, s.trace)
	}
	s, _ = newSecretStand(t)
	s.profile.Credentials["edge"] = envelope.Credential{Source: "env:NONE", Use: envelope.CredentialUse{File: true}}
	r = s.run(t.Context(), argv("sh", "x"))
	if r.Refusal == nil || s.count("intend") != 0 || s.count("issue") != 0 {
		t.Errorf("%+v, %q", r.Refusal, s.trace)
	}
}

// What was issued is taken back however the call goes, and what cannot be is
// said.
func TestCredentialsAreTakenBack(t *testing.T) {
	broken := errors.New("broken")
	for _, point := range []string{"open", "way", "put", "exec", "intend"} {
		s, _ := newSecretStand(t)
		s.fault(point, func(context.Context) error { return broken })
		s.run(t.Context(), argv("sh", "x"))
		if s.count("revoke") != s.count("issue") {
			t.Errorf("%s fails: issued %d, revoked %d", point, s.count("issue"), s.count("revoke"))
		}
	}
	s, _ := newSecretStand(t)
	s.fault("revoke", func(context.Context) error { return broken })
	r := s.run(t.Context(), argv("sh", "x"))
	if r.Teardown.Complete || s.watch.leftovers != 1 {
		t.Errorf("a source that will not revoke: %+v", r.Teardown)
	}
}

// What a program says in a name comes to the row in lower case and cut.
func TestPiecesOfCredentialsAreNotInTheRow(t *testing.T) {
	s, e := newSecretStand(t)
	secretName := strings.ToUpper(value("VAR"))
	e.tried = []envelope.Attempt{
		{Host: strings.ToLower(secretName) + ".evil.test", Verdict: envelope.VerdictDenied},
		{Host: "a.test", Why: "the name is " + value("FILE")[:12] + "...", Verdict: envelope.VerdictCut},
		{Host: "innocent.test", Why: "no entry covers it", Verdict: envelope.VerdictDenied},
	}
	r := s.run(t.Context(), argv("sh", "x"))
	got := r.Egress.Attempts
	if got[0].Host != "[redacted:env]" && got[0].Host != "[redacted:file]" || !strings.HasPrefix(got[1].Why, "[redacted:") {
		t.Errorf("attempts %+v", got)
	}
	if got[2].Host != "innocent.test" || got[2].Why != "no entry covers it" {
		t.Errorf("an attempt without a secret: %+v", got[2])
	}
}
