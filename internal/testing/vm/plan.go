package vm

// A Suite is one package's tests.
type Suite struct {
	Package string   // below the module's root
	Args    []string // of the test binary
	Skips   []string // tests that may be skipped in the guest, each with its reason behind a colon
}

// Suites are the tests that run in the guest: all that make control groups,
// start cells, or ask the kernel. The rest of the tree is the same on every
// kernel.
func Suites() []Suite {
	return []Suite{
		{Package: "internal/launcher/cgroup", Skips: []string{
			"TestOOMEventOfV1: there is no version 1 here",
		}},
		{Package: "internal/launcher/seccomp"},
		{Package: "internal/launcher"},
		{Package: "internal/runtime/container"},
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
