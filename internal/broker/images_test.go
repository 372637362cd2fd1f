package broker_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/placement"
)

// oneImage is an image store with one image.
type oneImage struct{ broker.Image }

func (o oneImage) Find(_ context.Context, name string, level envelope.Level) (broker.Image, error) {
	if name != "build:data" || level != envelope.LevelContainer {
		return broker.Image{}, &envelope.Refusal{Reason: envelope.ReasonRequest, Field: "image", Message: "there is no " + name}
	}
	return o.Image, nil
}

// TestImage: what an image is made of goes into the cell's shape, its variables
// come before ours and after the call's, and result and row have its digest.
func TestImage(t *testing.T) {
	image := broker.Image{
		Root: cell.Root{Tree: "sha256:" + strings.Repeat("ab", 32)}, Digest: "sha256:" + strings.Repeat("cd", 32),
		Env: map[string]string{"PATH": "/opt/bin", "LANG": "de"},
	}
	s := newStand(t, func(c *broker.Config) {
		offers := broker.OffersOf(c.Runtimes)
		for _, o := range offers {
			delete(o.Cannot, placement.NeedImage)
		}
		c.Images, c.Offers = oneImage{image}, func() []placement.Offer { return offers }
	})
	s.profile.Image, s.profile.Environment = "build:data", []string{"LANG"}
	var shape cell.Shape
	var command cell.Command
	s.shapes, s.commands = func(sh cell.Shape) { shape = sh }, func(c cell.Command) { command = c }
	r := s.run(t.Context(), &envelope.Call{Script: &envelope.Script{Lang: "python", Code: "1"}, Env: map[string]string{"LANG": "fr"}})
	if r.Outcome != envelope.OutcomeCompleted || shape.Root != image.Root || r.Image != image.Digest || s.intents[r.ID].ImageDigest != image.Digest {
		t.Errorf("%+v; root %+v, intent %+v", r, shape.Root, s.intents[r.ID])
	}
	if env := strings.Join(command.Env, " "); command.Argv[0] != "python3" || !strings.Contains(env, "LANG=fr") || !strings.Contains(env, "PATH=/opt/bin") || strings.Count(env, "PATH=") != 1 {
		t.Errorf("%q with %s", command.Argv, env)
	}
	s.profile.Image = "build:other"
	if r = s.run(t.Context(), argv("exit", "0")); r.Refusal == nil || r.Refusal.Field != "image" || s.count("open") != 1 {
		t.Errorf("an image that is not there: %+v", r.Refusal)
	}
}

// TestImageTakesNoVariableOfOurs: what the main path sets for the call itself
// stands once, and is ours, whatever an image says: which of two a program takes
// is its shell's or its library's to choose.
func TestImageTakesNoVariableOfOurs(t *testing.T) {
	s, _ := newNetStand(t, func(c *broker.Config) {
		c.Images = oneImage{broker.Image{Env: map[string]string{"http_proxy": "http://stranger.test", "SSL_CERT_FILE": "/opt/stranger.pem", "LANG": "de"}}}
	})
	s.profile.Image = "build:data"
	var command cell.Command
	s.commands = func(c cell.Command) { command = c }
	if r := s.run(t.Context(), argv("exit", "0")); r.Outcome != envelope.OutcomeCompleted {
		t.Fatalf("%+v", r)
	}
	seen := map[string]string{}
	for _, v := range command.Env {
		name, value, _ := strings.Cut(v, "=")
		if first, twice := seen[name]; twice {
			t.Errorf("%s is %q and %q", name, first, value)
		}
		seen[name] = value
	}
	if strings.Contains(seen["http_proxy"]+seen["SSL_CERT_FILE"], "stranger") || seen["LANG"] != "de" {
		t.Errorf("%v", seen)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("nobody listens") }

// TestLive: who listens hears all that is written, beyond what is kept, up to
// the total; who fails ends the program.
func TestLive(t *testing.T) {
	s := newStand(t)
	s.profile.Resources.Output = envelope.OutputCap{Keep: 100, Total: 5000}
	var out, err bytes.Buffer
	r := s.broker.RunLive(t.Context(), caller(), argv("zeros", "4000"), broker.Live{Stdout: &out, Stderr: &err})
	s.check(r)
	if r.Outcome != envelope.OutcomeCompleted || out.Len() != 4000 || err.Len() != 0 || len(r.Stdout.Head)+len(r.Stdout.Tail) != 100 {
		t.Errorf("%s, heard %d and %d, kept %d", r.Outcome, out.Len(), err.Len(), len(r.Stdout.Head)+len(r.Stdout.Tail))
	}
	out.Reset()
	if r = s.broker.RunLive(t.Context(), caller(), argv("zeros", "6000"), broker.Live{Stdout: &out}); r.Outcome != envelope.OutcomeOutput || out.Len() != 5000 {
		t.Errorf("%s, heard %d", r.Outcome, out.Len())
	}
	if r = s.broker.RunLive(t.Context(), caller(), argv("flood"), broker.Live{Stdout: failing{}}); r.Outcome != envelope.OutcomeOutput {
		t.Errorf("a listener that fails: %s", r.Outcome)
	}
}
