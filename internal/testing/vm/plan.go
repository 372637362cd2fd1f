package vm

// A Suite is one package's tests.
type Suite struct {
	Package string   // below the module's root
	Args    []string // of the test binary
	Skips   []string // tests that may be skipped in the guest, each with its reason behind a colon
}

// Suites are the tests that run in the guest: what makes control groups, asks
// the kernel, or builds and attacks cells.
func Suites() []Suite {
	return []Suite{
		{Package: "internal/launcher/cgroup", Skips: []string{
			"TestOOMEventWakesOnRemove: version 2 kills the group as one",
		}},
		{Package: "internal/launcher/seccomp", Args: []string{"-test.run=^(TestKernel|TestOrdinary)"}},
		{Package: "internal/launcher", Args: []string{"-test.skip=" + kernelless()}},
		{Package: "internal/runtime/container"},
	}
}

// kernelless are the tests of the launcher that no kernel makes a difference
// to: callcell-init alone, and what is done with malformed messages. They are
// its slowest.
func kernelless() string {
	return "^(TestInit|FuzzInit|TestProgramStartsClean|TestHostileMessages|TestMutatedMessages|TestMalformedPackets|TestMemoryStaysBounded)"
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
