package placement_test

import (
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/placement"
)

// hosts are the machines of the table.
func hosts() map[string][]placement.Offer {
	offer := func(level envelope.Level, cost time.Duration, t placement.Traits) placement.Offer {
		o := placement.Offer{Level: level, Available: true, Cost: cost}
		o.Effective, o.Weakness = placement.Worth(level, t)
		return o
	}
	none := placement.Traits{}
	noKVM := placement.Offer{Level: microvm, Why: "there is no /dev/kvm: use a machine with virtualisation, or turn it on in its firmware"}
	noLanguage := placement.Offer{Level: language, Why: "not built yet"}
	return map[string][]placement.Offer{
		"metal": {offer(language, time.Millisecond, placement.Traits{Workers: true}), offer(container, 3*time.Millisecond, none),
			offer(userkernel, 4*time.Millisecond, none), offer(microvm, 300*time.Millisecond, none)},
		"cloud":     {noLanguage, offer(container, 3*time.Millisecond, none), offer(userkernel, 500*time.Millisecond, none), noKVM},
		"container": {noLanguage, offer(container, 3*time.Millisecond, none), {Level: userkernel, Why: "runsc is not installed"}, noKVM},
		"emulated":  {noLanguage, offer(container, 3*time.Millisecond, none), offer(microvm, 1500*time.Millisecond, placement.Traits{Emulated: true})},
		"hostnet":   {noLanguage, offer(container, 3*time.Millisecond, none), offer(userkernel, 400*time.Millisecond, placement.Traits{HostNetwork: true}), noKVM},
		"bare engines": {offer(language, time.Millisecond, none), offer(container, 3*time.Millisecond, none),
			offer(userkernel, 4*time.Millisecond, none), noKVM},
		"nothing": nil,
	}
}

// floors are the operators of the table.
func floors() map[string]map[envelope.Trust]envelope.Level {
	of := func(reviewed, model, third, hostile envelope.Level) map[envelope.Trust]envelope.Level {
		return map[envelope.Trust]envelope.Level{envelope.TrustReviewed: reviewed, envelope.TrustModel: model,
			envelope.TrustThirdParty: third, envelope.TrustHostile: hostile}
	}
	return map[string]map[envelope.Trust]envelope.Level{
		"default": nil,
		"low":     of(language, container, container, userkernel),
		"model":   of(container, container, userkernel, microvm), // the model's code shares the kernel
		"high":    of(userkernel, microvm, microvm, microvm),
	}
}

// calls are what is run. Each is an envelope and a call.
func calls() map[string]func(*envelope.Envelope, *envelope.Call) {
	argv := func(words ...string) func(*envelope.Envelope, *envelope.Call) {
		return func(_ *envelope.Envelope, c *envelope.Call) { c.Argv = words }
	}
	script := func(lang string, needs ...envelope.Need) func(*envelope.Envelope, *envelope.Call) {
		return func(_ *envelope.Envelope, c *envelope.Call) {
			c.Script, c.Needs = &envelope.Script{Lang: lang, Code: "x"}, needs
		}
	}
	online := func(next func(*envelope.Envelope, *envelope.Call)) func(*envelope.Envelope, *envelope.Call) {
		return func(e *envelope.Envelope, c *envelope.Call) {
			e.Network.Allow = []envelope.Allow{{Host: "api.example.com", Ports: []int{443}}}
			next(e, c)
		}
	}
	return map[string]func(*envelope.Envelope, *envelope.Call){
		"ls":            argv("ls"),
		"bash":          argv("bash", "-c", "make"),
		"pip":           online(argv("pip", "install", "x")),
		"curl":          online(argv("curl", "https://api.example.com")),
		"python":        script("python"),
		"node":          script("node"),
		"sh":            script("sh"),
		"api transform": online(script("python", envelope.NeedTransform, envelope.NeedNetwork)),
		"pandas":        script("python", envelope.NeedPackages),
		"threads":       script("python", envelope.NeedSystemCalls),
		"ebpf":          script("python", envelope.NeedKernel),
		"plugin":        script("node", envelope.NeedThirdParty),
		"tenant":        script("python", envelope.NeedTenantSecrets),
		"tenant's tool": func(_ *envelope.Envelope, c *envelope.Call) {
			c.Argv, c.Needs = []string{"tool"}, []envelope.Need{envelope.NeedTenantSecrets}
		},
	}
}

// A tableRow is one call of one author on one host under one operator.
type tableRow struct {
	call   string
	trust  envelope.Trust
	host   string
	floors string
	ask    envelope.Level
	want   envelope.Level // zero: refused
	says   string         // of the level that is wanted, or the refusal with its hint
	change string         // in what would have to change for a cheaper level
}

func tableRows() []tableRow {
	const reviewed, model, third, hostile = envelope.TrustReviewed, envelope.TrustModel, envelope.TrustThirdParty, envelope.TrustHostile
	return []tableRow{
		// What a model wrote, on a machine that has it all.
		{"python", model, "metal", "default", auto, language, "chosen: the cheapest", ""},
		{"node", model, "metal", "default", auto, language, "1ms", ""},
		{"api transform", model, "metal", "default", auto, language, "chosen", ""},
		{"pandas", model, "metal", "default", auto, userkernel, "chosen", "language: a call that does not need packages with native code"},
		{"threads", model, "metal", "default", auto, userkernel, "chosen", "does not need Linux's system calls"},
		{"ebpf", model, "metal", "default", auto, microvm, "chosen", "does not need features of a kernel of its own"},
		{"sh", model, "metal", "default", auto, userkernel, "chosen", "write it in python or node"},
		{"ls", model, "metal", "default", auto, userkernel, "chosen", "container: trust: reviewed, for code that people have read, or floors: {model: container}"},
		{"bash", model, "metal", "default", auto, userkernel, "chosen", "container: "},
		{"curl", model, "metal", "default", auto, userkernel, "chosen", ""},
		{"tenant", model, "metal", "default", auto, language, "chosen", ""},
		{"plugin", model, "metal", "default", auto, language, "chosen", ""},
		// The same by others.
		{"python", hostile, "metal", "default", auto, microvm, "chosen", "language: trust: thirdparty"},
		{"ls", hostile, "metal", "default", auto, microvm, "chosen", "userkernel: trust: thirdparty"},
		{"ls", third, "metal", "default", auto, userkernel, "chosen", "trust: reviewed"},
		{"ls", reviewed, "metal", "default", auto, container, "chosen", ""},
		{"python", reviewed, "metal", "default", auto, container, "chosen", ""}, // engines in workers are worth more, and that is not needed
		{"tenant's tool", reviewed, "metal", "default", auto, userkernel, "chosen", "keep the secrets out of the cell"},
		{"plugin", reviewed, "metal", "default", auto, language, "chosen", ""},
		// Engines that are in our own process are worth their name.
		{"python", model, "bare engines", "default", auto, userkernel, "chosen", "language: "},
		{"python", model, "bare engines", "low", auto, container, "chosen", "language: trust: reviewed"},
		{"python", reviewed, "bare engines", "low", auto, language, "chosen", ""},
		// A cloud machine without KVM.
		{"python", model, "cloud", "default", auto, userkernel, "500ms", "a host that has it: not built yet"},
		{"ls", hostile, "cloud", "default", auto, 0, "/dev/kvm", ""},
		{"ebpf", model, "cloud", "default", auto, 0, "/dev/kvm", ""},
		{"ls", model, "cloud", "default", microvm, 0, "/dev/kvm", ""},
		{"ls", model, "cloud", "default", container, 0, "--trust reviewed", ""},
		{"ls", model, "cloud", "high", auto, 0, "/dev/kvm", ""},
		{"ls", reviewed, "cloud", "high", auto, userkernel, "chosen", "container: floors: {reviewed: container}"},
		// A machine with containers alone, and an operator who lets models use them.
		{"python", model, "container", "default", auto, 0, "runsc is not installed", ""},
		{"python", model, "container", "model", auto, container, "chosen", ""},
		{"pip", model, "container", "model", auto, 0, "it runs third-party code", ""},
		{"pip", reviewed, "container", "model", auto, container, "chosen", ""},
		{"plugin", model, "container", "model", auto, 0, "third-party code", ""},
		{"tenant", model, "container", "model", auto, 0, "tenant's secrets", ""},
		{"ls", third, "container", "low", auto, container, "chosen", ""},
		{"ls", hostile, "container", "low", auto, 0, "runsc", ""},
		// Levels that are worth less than their names: boundary test 16.
		{"ls", hostile, "emulated", "default", auto, 0, "", ""},
		{"ls", hostile, "emulated", "default", microvm, 0, "emulated, without hardware", ""},
		{"ls", third, "emulated", "default", microvm, 0, "no more than container", ""},
		{"ls", third, "emulated", "default", auto, 0, "", ""},
		{"ls", reviewed, "emulated", "default", auto, container, "chosen", ""},
		{"ls", reviewed, "emulated", "default", microvm, microvm, "worth no more than container here (emulated", ""},
		{"ebpf", reviewed, "emulated", "default", auto, 0, "by name", ""},
		{"ebpf", reviewed, "emulated", "default", microvm, microvm, "emulated", ""},
		{"ls", third, "hostnet", "default", auto, 0, "", ""},
		{"ls", third, "hostnet", "default", userkernel, 0, "no more than container (its network is the host's", ""},
		{"ls", hostile, "hostnet", "low", userkernel, 0, "no more than container", ""},
		{"ls", reviewed, "hostnet", "default", auto, container, "chosen", ""},
		{"ls", reviewed, "hostnet", "default", userkernel, userkernel, "asked for by name. It is worth no more than container here (its network is the host's", ""},
		{"python", model, "hostnet", "default", auto, 0, "", ""},
		{"python", model, "hostnet", "default", userkernel, 0, "no more than container (its network is the host's", ""},
		{"tenant", reviewed, "hostnet", "default", userkernel, 0, "no more than container", ""},
		// By name.
		{"python", model, "metal", "default", microvm, microvm, "asked for by name", "language: level: language in the envelope"},
		{"ls", model, "metal", "default", language, 0, "no native program", ""},
		{"python", hostile, "metal", "default", language, 0, "below the floor", ""},
		{"ls", reviewed, "nothing", "low", auto, 0, "not offer", ""},
	}
}

// TestTable holds placement against calls, hosts and floors, and says for each
// what must be said.
func TestTable(t *testing.T) {
	if len(tableRows()) < 40 {
		t.Fatal("the table is too short")
	}
	for _, r := range tableRows() {
		name := strings.Join([]string{r.call, "of", r.trust.String(), "on", r.host, "under", r.floors, "as", r.ask.String()}, " ")
		t.Run(name, func(t *testing.T) {
			env, call := envelope.Default(), envelope.Call{}
			env.Trust = r.trust
			calls()[r.call](&env, &call)
			d := placement.Decide(placement.Input{Ask: r.ask, Trust: r.trust, Needs: placement.NeedsOf(&env, &call), Host: hosts()[r.host], Floors: floors()[r.floors]})
			if d.Level != r.want {
				t.Fatalf("level %s, want %s; %v; %q", d.Level, r.want, d.Refusal, d.Reasons)
			}
			if text := said(r, d); !strings.Contains(text, r.says) {
				t.Errorf("%q does not say %q", text, r.says)
			}
			if lines := strings.Join(d.Cheaper, "\n"); !strings.Contains(lines, r.change) {
				t.Errorf("what would have to change: %q does not say %q", lines, r.change)
			}
			checkAdvice(t, r, &env, &call, d)
		})
	}
}

// checkAdvice follows the one advice that a machine can follow: less trust in
// what the code was, where it says that a floor alone stands in the way.
func checkAdvice(t *testing.T, r tableRow, env *envelope.Envelope, call *envelope.Call, d placement.Decision) {
	t.Helper()
	for _, v := range d.Levels {
		if len(v.Change) != 1 || !strings.HasPrefix(v.Change[0], "trust: reviewed") || v.Level > d.Level {
			continue
		}
		env.Trust = envelope.TrustReviewed
		again := placement.Decide(placement.Input{Ask: r.ask, Trust: env.Trust, Needs: placement.NeedsOf(env, call), Host: hosts()[r.host], Floors: floors()[r.floors]})
		if again.Level != v.Level && again.Level >= d.Level {
			t.Errorf("%s was said to need %q; with it, %s", v.Level, v.Change, again.Level)
		}
	}
}

// said is the reason of the level that is wanted, or the refusal.
func said(r tableRow, d placement.Decision) string {
	if d.Refusal != nil {
		return d.Refusal.Message + "\n" + d.Refusal.Hint
	}
	return d.Reasons[r.want-language]
}

// TestLessTrustIsNeverWeaker is the property over the whole way from a call to
// its level: what is derived from a call depends on the trust as well.
func TestLessTrustIsNeverWeaker(t *testing.T) {
	for call, make := range calls() {
		for host, offers := range hosts() {
			for operator, floors := range floors() {
				var before envelope.Level
				for trust := envelope.TrustReviewed; trust.Valid(); trust++ {
					env, c := envelope.Default(), envelope.Call{}
					env.Trust = trust
					make(&env, &c)
					in := placement.Input{Ask: auto, Trust: trust, Needs: placement.NeedsOf(&env, &c), Host: offers, Floors: floors}
					now := strength(in, placement.Decide(in))
					if now == 0 {
						now = microvm + 1 // nothing runs, so nothing runs weaker
					}
					if now < before {
						t.Errorf("%s of %s on %s under %s: %s, and %s where it is trusted more", call, trust, host, operator, now, before)
					}
					before = now
				}
			}
		}
	}
}
