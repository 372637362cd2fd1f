package vm

// A Suite is one package's tests.
type Suite struct {
	Package string   // below the module's root
	Args    []string // of the test binary
	Skips   []string // tests that may be skipped in the guest, each with its reason behind a colon
}

// Suites are the tests that run in the guest: what makes control groups. Cells
// are built and run there too (internal/runtime/container can be named), but
// the guest's /usr lacks Python yet, without which most of their tests fail.
func Suites() []Suite {
	return []Suite{
		{Package: "internal/launcher/cgroup", Skips: []string{
			"TestOOMEventWakesOnRemove: there is no version 1 here",
		}},
	}
}

// A Plan is what init reads: what to run, and with which environment.
type Plan struct {
	Suites []Step
	Env    []string
}

// A Step is one program of the plan.
type Step struct {
	Name string
	Dir  string
	Argv []string
}

// PlanFile is where the plan is in the guest.
const PlanFile = "/test/plan.json"

// The words with which lines of init begin.
const (
	WordBoot   = "VM-BOOT"   // kernel
	WordRun    = "VM-RUN"    // suite
	WordResult = "VM-RESULT" // suite, exit status, seconds
	WordFault  = "VM-FAULT"  // why init could not go on
	WordEnd    = "VM-END"
)
