package placement_test

import (
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/placement"
)

const (
	auto       = envelope.LevelAuto
	language   = envelope.LevelLanguage
	container  = envelope.LevelContainer
	userkernel = envelope.LevelUserKernel
	microvm    = envelope.LevelMicroVM
)

// firstForm is a host with the container level alone.
func firstForm() []placement.Offer {
	return []placement.Offer{
		{Level: container, Available: true, Cost: 3 * time.Millisecond,
			Cannot: map[placement.Need]string{placement.NeedNetwork: "egress is not built yet"}},
		{Level: language, Why: "not built yet"},
		{Level: userkernel, Why: "not built yet"},
		{Level: microvm, Why: "needs /dev/kvm"},
	}
}

// full is a host that has everything, for real.
func full() []placement.Offer {
	return []placement.Offer{
		{Level: language, Available: true, Effective: userkernel, Cost: time.Millisecond},
		{Level: container, Available: true, Cost: 3 * time.Millisecond},
		{Level: userkernel, Available: true, Cost: 4 * time.Millisecond},
		{Level: microvm, Available: true, Cost: 300 * time.Millisecond},
	}
}

// weak is a host whose strong levels are not what their names say: gVisor with
// the host's network, and a microVM under emulation.
func weak() []placement.Offer {
	return []placement.Offer{
		{Level: container, Available: true},
		{Level: userkernel, Available: true, Effective: container},
		{Level: microvm, Available: true, Effective: container},
	}
}

type decideCase struct {
	name  string
	host  []placement.Offer
	ask   envelope.Level
	trust envelope.Trust
	needs []placement.Need
	want  envelope.Level  // zero: refused
	why   envelope.Reason // of the refusal
	says  string          // in the hint of the refusal, or in the reasons
}

func decideCases() []decideCase {
	native := []placement.Need{placement.NeedNative}
	return []decideCase{
		{"reviewed code in a container", firstForm(), auto, envelope.TrustReviewed, native, container, 0, "container: chosen"},
		{"model code where only containers are", firstForm(), auto, envelope.TrustModel, native, 0, envelope.ReasonIsolation, "--trust reviewed"},
		{"how to get a level is said", firstForm(), auto, envelope.TrustHostile, native, 0, envelope.ReasonIsolation, "/dev/kvm"},
		{"below the floor by name", full(), container, envelope.TrustModel, native, 0, envelope.ReasonIsolation, "--trust reviewed"},
		{"below the floor by name, hostile", full(), userkernel, envelope.TrustHostile, native, 0, envelope.ReasonIsolation, "stronger level"},
		{"a level by name that is not there", firstForm(), microvm, envelope.TrustReviewed, native, 0, envelope.ReasonUnsupported, "/dev/kvm"},
		{"no fallback from a name", full()[:2], userkernel, envelope.TrustReviewed, native, 0, envelope.ReasonUnsupported, "not offer"},
		{"stronger than needed, by name", full(), microvm, envelope.TrustReviewed, native, microvm, 0, "asked for by name"},
		{"an argv cannot be language, by name", full(), language, envelope.TrustModel, native, 0, envelope.ReasonUnsupported, "ask for auto"},
		{"a script can be language, and is cheaper there", full(), auto, envelope.TrustModel, []placement.Need{placement.NeedPython}, language, 0, ""},
		{"a stronger level that costs less is not taken: the next need could not make it weaker",
			[]placement.Offer{{Level: container, Available: true, Cost: 9}, {Level: userkernel, Available: true, Cost: 1}},
			auto, envelope.TrustReviewed, native, container, 0, "is not needed"},
		{"an argv of a model", full(), auto, envelope.TrustModel, native, userkernel, 0, ""},
		{"third-party code", full(), auto, envelope.TrustThirdParty, native, userkernel, 0, ""},
		{"hostile code", full(), auto, envelope.TrustHostile, native, microvm, 0, ""},
		{"a need that nothing here meets", firstForm(), auto, envelope.TrustReviewed, []placement.Need{placement.NeedNetwork}, 0, envelope.ReasonUnsupported, ""},
		{"an emulated level for model code", weak(), auto, envelope.TrustModel, native, 0, envelope.ReasonIsolation, "--trust reviewed"},
		{"an emulated level by name for third-party code", weak(), userkernel, envelope.TrustThirdParty, native, 0, envelope.ReasonIsolation, ""},
		{"an emulated level by name for hostile code", weak(), microvm, envelope.TrustHostile, native, 0, envelope.ReasonIsolation, ""},
		{"an emulated level by name for reviewed code", weak(), microvm, envelope.TrustReviewed, native, microvm, 0, "no more than container here"},
		{"auto never takes an emulated level", weak()[1:], auto, envelope.TrustReviewed, native, 0, envelope.ReasonIsolation, "by name"},
		{"no offers", nil, auto, envelope.TrustReviewed, native, 0, envelope.ReasonIsolation, "not offer"},
		{"a level that is offered twice", append(full(), full()...), auto, envelope.TrustReviewed, native, 0, envelope.ReasonIsolation, "twice"},
		{"the level of a fetch", full(), envelope.LevelNone, envelope.TrustReviewed, nil, 0, envelope.ReasonUnsupported, "container"},
		{"no level at all", full(), 0, envelope.TrustReviewed, nil, 0, envelope.ReasonUnsupported, ""},
		{"no trust at all stands under the strongest", full(), auto, 0, native, microvm, 0, ""},
		{"a trust that is not in the set", full(), auto, 99, native, microvm, 0, ""},
	}
}

func TestDecide(t *testing.T) {
	for _, c := range decideCases() {
		t.Run(c.name, func(t *testing.T) {
			d := placement.Decide(placement.Input{Ask: c.ask, Trust: c.trust, Needs: c.needs, Host: c.host})
			if d.Level != c.want {
				t.Fatalf("level %s, want %s; refusal %v; reasons %q", d.Level, c.want, d.Refusal, d.Reasons)
			}
			if len(d.Reasons) != len(envelope.Levels()) {
				t.Errorf("reasons %q, want one for each level", d.Reasons)
			}
			text := strings.Join(d.Reasons, "\n")
			if (d.Refusal == nil) != (c.why == 0) {
				t.Fatalf("refusal %v, want reason %s", d.Refusal, c.why)
			}
			if r := d.Refusal; r != nil {
				text = r.Hint
				if r.Reason != c.why || r.Field != "level" || r.Message == "" || r.Hint == "" || r.Retry {
					t.Errorf("refusal %+v, want %s with a field and a hint", r, c.why)
				}
			}
			if !strings.Contains(text, c.says) {
				t.Errorf("%q does not say %q", text, c.says)
			}
		})
	}
}

func TestOperatorsFloors(t *testing.T) {
	floors := map[envelope.Trust]envelope.Level{envelope.TrustReviewed: language, envelope.TrustModel: container}
	in := placement.Input{Ask: auto, Trust: envelope.TrustModel, Host: firstForm(), Floors: floors}
	if d := placement.Decide(in); d.Level != container {
		t.Errorf("a lowered floor: %+v", d)
	}
	in.Trust = envelope.TrustHostile // not in the table
	if d := placement.Decide(in); d.Refusal == nil {
		t.Errorf("a trust without a floor got %s", d.Level)
	}
}

func TestNoHintThatDoesNotHelp(t *testing.T) {
	in := placement.Input{Ask: container, Trust: envelope.TrustModel, Host: full(),
		Floors: map[envelope.Trust]envelope.Level{envelope.TrustReviewed: microvm, envelope.TrustModel: microvm}}
	if d := placement.Decide(in); d.Refusal == nil || strings.Contains(d.Refusal.Hint, "reviewed") {
		t.Errorf("%+v", d.Refusal)
	}
}

func TestNeedsOf(t *testing.T) {
	wide := envelope.Default()
	wide.Network.Allow = []envelope.Allow{{Host: "api.example.com", Ports: []int{443}}}
	wide.Files.Mounts = map[string]envelope.Mount{"m": {}}
	wide.Credentials = map[string]envelope.Credential{"c": {}}
	wide.Image = "oci:python:3.13-slim"
	wide.CoResidency = envelope.CoResidencyTeam
	plain, reviewed := envelope.Default(), envelope.Default()
	reviewed.Trust, reviewed.Network.Allow = envelope.TrustReviewed, wide.Network.Allow
	cases := []struct {
		name string
		env  envelope.Envelope
		call envelope.Call
		want string
	}{
		{"argv", plain, envelope.Call{Argv: []string{"true"}}, "native-program"},
		{"a shell by its name", plain, envelope.Call{Argv: []string{"/bin/bash", "-c", "x"}}, "shell,native-program"},
		{"sh", plain, envelope.Call{Script: &envelope.Script{Lang: "sh"}}, "shell"},
		{"python", plain, envelope.Call{Script: &envelope.Script{Lang: "python"}}, "python"},
		{"node", plain, envelope.Call{Script: &envelope.Script{Lang: "node"}}, "node"},
		{"declared ones come on top, each once", plain, envelope.Call{Argv: []string{"true"}, Needs: []envelope.Need{envelope.NeedTenantSecrets, envelope.NeedNative}},
			"native-program,tenant-secrets"},
		{"packages are third-party code", wide, envelope.Call{Argv: []string{"/usr/bin/pip3", "install", "x"}},
			"native-program,third-party-code,network,mounts,credentials,image,alone"},
		{"python -m pip too", wide, envelope.Call{Argv: []string{"python3.13", "-m", "pip", "install", "x"}},
			"native-program,third-party-code,network,mounts,credentials,image,alone"},
		{"without a network none can be got", plain, envelope.Call{Argv: []string{"pip", "install", "x"}}, "native-program"},
		{"who reviewed the code reviewed its packages", reviewed, envelope.Call{Argv: []string{"npm", "ci"}}, "native-program,network"},
		{"everything", wide, envelope.Call{Argv: []string{"true"}}, "native-program,network,mounts,credentials,image,alone"},
	}
	for _, c := range cases {
		var got []string
		for _, n := range placement.NeedsOf(&c.env, &c.call) {
			got = append(got, n.String())
		}
		if text := strings.Join(got, ","); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}
