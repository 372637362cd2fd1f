package filters

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gvisor.dev/gvisor/pkg/bpf"
	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/runsc/boot/filter"
	"gvisor.dev/gvisor/runsc/boot/filter/config"
)

func options(t *testing.T) []config.Options {
	t.Helper()
	opts, err := Options()
	if err != nil || len(opts) < 2 {
		t.Fatalf("%d options (%v)", len(opts), err)
	}
	if strings.Contains(opts[0].ConfigKey(), "Instrumentation=true") {
		t.Skip("gVisor has other rules for the race detector")
	}
	return opts
}

// TestProgramsAreGVisors compiles gVisor's rules and compares. A program that
// differs was generated from another version's rules: go generate makes it anew.
func TestProgramsAreGVisors(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("no programs for", runtime.GOARCH)
	}
	Register()
	opts := options(t)
	for _, o := range opts {
		for _, fd := range []uint32{5, 14, 4711} {
			o.ControllerFD = fd
			p, ok := filter.GetPrecompiled(o.ConfigKey())
			if !ok {
				t.Fatalf("gVisor does not find the program for %s", o.ConfigKey())
			}
			got, err := p.RenderInstructions(o.Vars())
			if err != nil {
				t.Fatal(err)
			}
			rules, deny := config.Rules(o)
			program := seccomp.Program{
				RuleSets: []seccomp.RuleSet{{Rules: deny}, {Rules: rules, Action: seccomp.Allow}},
				Options:  config.SeccompOptions(o),
			}
			want, _, err := program.Build()
			if err != nil {
				t.Fatal(err)
			}
			if settled(got, want); !slices.Equal(got, want) {
				t.Errorf("%s, descriptor %d: %d instructions are not the %d that gVisor compiles", o.ConfigKey(), fd, len(got), len(want))
			}
		}
	}
}

// settled puts this process's PID where the program has the sentry's and gVisor
// would have this process's.
func settled(got, want []bpf.Instruction) {
	for i := range min(len(got), len(want)) {
		if want[i].K == uint32(os.Getpid()) && got[i].K == PID {
			got[i].K = want[i].K
		}
	}
}

// TestNothingElseIsRegistered: a program under the name of other options would
// be installed for them.
func TestNothingElseIsRegistered(t *testing.T) {
	opts := options(t)
	var want []string
	for _, o := range opts {
		want = append(want, o.ConfigKey())
	}
	for _, p := range compiled() {
		if !slices.Contains(want, p.Name) {
			t.Errorf("there is a program for %s", p.Name)
		}
	}
}
