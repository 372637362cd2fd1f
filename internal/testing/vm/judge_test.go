package vm

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

func boot() Boot {
	return Boot{Name: "b", Suites: []Suite{{Package: "p/a", Skips: []string{"TestOld: why"}}, {Package: "p/b"}}}
}

const good = `VM-BOOT 6.1 landlock 2
VM-RUN p/a
=== RUN   TestOne
--- PASS: TestOne (0.10s)
    --- SKIP: TestOne/part (0.00s)
=== RUN   TestOld
    x_test.go:1: an old one
--- SKIP: TestOld (0.00s)
PASS

VM-RESULT p/a 0 1.5
VM-RUN p/b
--- PASS: TestTwo (0.10s)
PASS
VM-RESULT p/b 0 0.5
VM-END
`

func read(text string) *Record { return Read(strings.NewReader(text), nil) }

func TestJudge(t *testing.T) {
	rec := read(strings.ReplaceAll(good, "\n", "\r\n"))
	if faults := rec.Judge(boot()); len(faults) > 0 || rec.Kernel != "6.1 landlock 2" {
		t.Errorf("%q: %q", rec.Kernel, faults)
	}
	if got := rec.Results[0].Short(); !strings.HasPrefix(got, "ok   p/a ") || !strings.HasSuffix(got, "1.5s  1 tests passed, skipped: TestOld") {
		t.Errorf("%q", got)
	}
}

// TestJudgeGoesRed takes from a good record what makes it one.
func TestJudgeGoesRed(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"no boot":              {good, "junk\n", "has not booted"},
		"nothing at all":       {good, "", "has not booted"},
		"a binary that fails":  {"p/a 0 1.5", "p/a 1 1.5", "p/a: ended with 1"},
		"a binary that dies":   {"p/b 0 0.5", "p/b -1 0.5", "p/b: ended with -1"},
		"no result":            {"VM-RESULT p/b 0 0.5\n", "", "p/b: has no result"},
		"a result of another":  {"VM-RESULT p/b", "VM-RESULT p/c", "p/b: has no result"},
		"a result that is cut": {"p/b 0 0.5", "p/b 0", "p/b: has no result"},
		"a status that is not": {"p/b 0 0.5", "p/b x 0.5", "p/b: has no result"},
		"it hangs before b":    {good[strings.Index(good, "VM-RUN p/b"):], "", "p/b: was not run"},
		"no end":               {"VM-END\n", "", "did not come to its end"},
		"no test":              {"--- PASS: TestTwo (0.10s)\n", "testing: warning: no tests to run\n", "p/b: no test ran"},
		"a skip":               {"TestTwo (0.10s)\n", "TestTwo (0.10s)\n--- SKIP: TestThree (0.00s)\n", "p/b: TestThree was skipped"},
		"only a part ran":      {"--- PASS: TestTwo", "    --- PASS: TestTwo/part", "p/b: no test ran"},
		"init's fault":         {"VM-END", "VM-FAULT mount\nVM-END", "init: mount"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(good, c.old, c.new, 1)
			if text == good {
				t.Fatal("nothing was changed")
			}
			faults := strings.Join(read(text).Judge(boot()), "\n")
			if !strings.Contains(faults, c.want) {
				t.Errorf("%q, want %q", faults, c.want)
			}
		})
	}
	b := boot()
	b.Check = withoutLandlock
	if faults := read(good).Judge(b); len(faults) != 1 {
		t.Errorf("Landlock is there and should not be: %q", faults)
	}
}

func TestShortOfAFailure(t *testing.T) {
	rec := read("VM-BOOT x\nVM-RUN p\n=== RUN   TestA\n    a_test.go:3: wrong\n--- FAIL: TestA (0.00s)\n--- PASS: TestB (0.00s)\nFAIL\n\nVM-RESULT p 1 2.0\n")
	want := "1 tests passed\n         a_test.go:3: wrong\n     --- FAIL: TestA (0.00s)\n     FAIL"
	if got := rec.Results[0].Short(); !strings.HasPrefix(got, "FAIL p ") || !strings.HasSuffix(got, want) {
		t.Errorf("%q", got)
	}
}

// TestBoots: what is listed is there, and a skip has its reason.
func TestBoots(t *testing.T) {
	for _, b := range Boots() {
		if b.Name == "" || len(b.Suites) == 0 {
			t.Errorf("%+v", b)
		}
		for _, s := range b.Suites {
			if _, err := os.Stat("../../../" + s.Package); err != nil {
				t.Error(err)
			}
			for _, skip := range s.Skips {
				if name, why, _ := strings.Cut(skip, ": "); !strings.HasPrefix(name, "Test") || why == "" {
					t.Errorf("%s: %q", s.Package, skip)
				}
			}
		}
	}
}

// TestArgs: one accelerator, so that nothing falls back in silence, and
// nothing else differs.
func TestArgs(t *testing.T) {
	m := Machine{Kernel: "k", Initrd: "i", Log: "l", Append: "x=y"}
	kvm, tcg := strings.Join(m.Args("kvm"), " "), strings.Join(m.Args("tcg"), " ")
	if strings.Count(kvm, "-accel") != 1 || strings.Replace(kvm, "-accel kvm -cpu host", "-accel tcg,thread=multi -cpu max", 1) != tcg || !strings.HasSuffix(tcg, " x=y") {
		t.Errorf("%s\n%s", kvm, tcg)
	}
}

func TestTSCRate(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("only amd64 has this counter")
	}
	a, b := TSCRate(), TSCRate()
	if a < 100_000 || max(a, b)-min(a, b) > a/100 {
		t.Errorf("%d and %d kHz", a, b)
	}
	emulated := strings.Join(Machine{TSC: a, Append: "x=y"}.Args("tcg"), " ")
	if want := fmt.Sprintf("tsc_early_khz=%d x=y", a); !strings.Contains(emulated, want) {
		t.Errorf("%s, want %s", emulated, want)
	}
}
