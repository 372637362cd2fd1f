//go:build linux

package seccomp

import (
	"errors"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/moby/profiles/seccomp"
	"golang.org/x/sys/unix"
)

// table is a generated profile, of whatever architecture.
type table struct {
	arch    uint32
	newest  uint32
	numbers []known
}

var (
	newestLine = regexp.MustCompile(`(?m)^\tprofileNewest = (\d+)$`)
	entryLine  = regexp.MustCompile(`(?m)^\t\{(\d+), "(\w+)", (\w+)\},$`)
)

// tables reads the generated files, so that a test on one architecture looks
// at the other too.
func tables(t testing.TB) map[string]table {
	t.Helper()
	standings := map[string]standing{"absent": absent, "allowed": allowed, "conditional": conditional}
	number := func(s string) uint32 {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(n)
	}
	out := make(map[string]table)
	for goarch, arch := range map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64} {
		text, err := os.ReadFile("profile_" + goarch + ".go")
		if err != nil {
			t.Fatal(err)
		}
		newest := newestLine.FindStringSubmatch(string(text))
		if newest == nil {
			t.Fatal(goarch, "no profileNewest")
		}
		tab := table{arch: arch, newest: number(newest[1])}
		for _, m := range entryLine.FindAllStringSubmatch(string(text), -1) {
			tab.numbers = append(tab.numbers, known{nr: number(m[1]), name: m[2], standing: standings[m[3]]})
		}
		if len(tab.numbers) < 300 {
			t.Fatalf("%s: read only %d numbers", goarch, len(tab.numbers))
		}
		out[goarch] = tab
	}
	return out
}

// forEachArch runs a test with the policy of each architecture.
func forEachArch(t *testing.T, test func(t *testing.T, tab table, p Policy)) {
	t.Helper()
	for goarch, tab := range tables(t) {
		t.Run(goarch, func(t *testing.T) {
			p, err := tighten(tab.arch, tab.numbers, tab.newest)
			if err != nil {
				t.Fatal(err)
			}
			test(t, tab, p)
		})
	}
}

// What was read from the files is what the program was built with.
func TestTablesAreTheProfile(t *testing.T) {
	tab, ok := tables(t)[runtime.GOARCH]
	if !ok {
		t.Skip("no profile for", runtime.GOARCH)
	}
	if tab.arch != auditArch || tab.newest != profileNewest || !slices.Equal(tab.numbers, profile) {
		t.Error("the generated file and the table differ")
	}
}

// Each name of our tables is one of some architecture, stands there once, and
// carries a reason.
func TestTablesNameWhatExists(t *testing.T) {
	exists := make(map[string]bool)
	for _, tab := range tables(t) {
		for _, k := range tab.numbers {
			exists[k.name] = true
		}
	}
	seen := make(map[string]bool)
	row := func(name, why string) {
		if !exists[name] {
			t.Errorf("%s: no such system call", name)
		}
		if seen[name] {
			t.Errorf("%s: two rows", name)
		}
		if why == "" {
			t.Errorf("%s: no reason", name)
		}
		seen[name] = true
	}
	for _, r := range refusals {
		if !r.action.valid() || r.action == Allow {
			t.Errorf("%v: %v is no refusal", r.names, r.action)
		}
		for _, name := range r.names {
			row(name, r.why)
		}
	}
	for _, r := range narrowed() {
		row(r.Name, r.Why)
		if len(r.Cases) == 0 || r.Args == "" {
			t.Errorf("%s: nothing about its arguments", r.Name)
		}
	}
}

// The policy is moby's, only tighter: nothing is allowed that moby refuses.
func TestCellOnlyTightens(t *testing.T) {
	forEachArch(t, func(t *testing.T, tab table, p Policy) {
		if !slices.IsSortedFunc(p.Rules, func(a, b Rule) int { return int(a.Nr) - int(b.Nr) }) {
			t.Error("rules are not in order")
		}
		for i, r := range p.Rules {
			k := tab.numbers[i]
			allows := r.Action == Allow || slices.ContainsFunc(r.Cases, func(c Case) bool { return c.Then == Allow })
			if allows && k.standing == absent || r.Action == Allow && k.standing == conditional {
				t.Errorf("%s: %v %v, and in the profile %d", r.Name, r.Action, r.Cases, k.standing)
			}
			if r.Name != k.name || r.Nr != k.nr || r.Why == "" {
				t.Errorf("%+v for %+v", r, k)
			}
		}
	})
}

// The values of our own tables are within moby's.
func TestArgumentsAreWithinMobys(t *testing.T) {
	personalities := make(map[uint64]bool)
	families := func(int) bool { return false }
	for _, s := range seccomp.DefaultProfile().Syscalls {
		for _, arg := range s.Args {
			switch {
			case s.Names[0] == "personality":
				personalities[arg.Value] = true
			case s.Names[0] == "socket":
				before, below := families, string(arg.Op) == "SCMP_CMP_LT"
				families = func(f int) bool {
					return before(f) || uint64(f) == arg.Value && !below || uint64(f) < arg.Value && below
				}
			}
		}
	}
	for _, s := range Sockets() {
		if !families(s.Family) {
			t.Errorf("family %d is not moby's", s.Family)
		}
	}
	p := Policy{Rules: []Rule{narrowedPersonality()}}
	values := []uint64{0, 8, 0x20000, 0x20008, 0xffffffff}
	for bit := range 32 {
		values = append(values, 1<<bit, 0x20008|1<<bit)
	}
	for _, v := range values {
		if got := naive(p, call{args: [arguments]uint64{v}}) == Allow; got != personalities[v] {
			t.Errorf("personality %#x: allowed %v, by moby %v", v, got, personalities[v])
		}
	}
}

func TestTightenWantsARowForConditions(t *testing.T) {
	_, err := tighten(1, []known{{nr: 1, name: "new_call", standing: conditional}}, 10)
	if !errors.Is(err, ErrPolicy) {
		t.Errorf("got %v, want ErrPolicy", err)
	}
}
