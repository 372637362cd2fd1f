package vm

import "strings"

// A Boot is one start of the guest.
type Boot struct {
	Name   string
	Append string // to the kernel's command line
	Check  func(kernel string) string
	Suites []Suite
}

// A Suite is one package's tests.
type Suite struct {
	Package string   // below the module's root
	Args    []string // of the test binary
	Skips   []string // tests that may be skipped in the guest, each with its reason behind a colon
}

// Boots are the tests that run in the guest: what makes control groups, asks
// the kernel, or builds and attacks cells. What takes long under emulation and
// is the same on every kernel is left to the host. All have control groups of
// version 2, and Landlock as the kernel has it where nothing else is said; they
// run beside each other, so the longest is first.
func Boots() []Boot {
	return []Boot{
		{Name: "container", Suites: []Suite{
			{Package: "internal/runtime/container", Args: skip(hostContainer())},
		}},
		{Name: "launcher", Suites: []Suite{
			{Package: "internal/launcher/cgroup", Skips: []string{
				"TestOOMEventWakesOnRemove: version 2 kills the group as one",
			}},
			{Package: "internal/launcher/seccomp", Args: []string{"-test.run=^TestKernel"}},
			{Package: "internal/launcher", Args: skip(hostLauncher())},
		}},
		{Name: "userkernel", Suites: []Suite{
			{Package: "internal/runtime/userkernel", Args: []string{"-test.run=" + sandboxes()}},
		}},
		{Name: "no Landlock", Append: "lsm=capability", Check: withoutLandlock, Suites: []Suite{
			{Package: "internal/runtime/container", Args: []string{"-test.run=^(TestFeatures|TestPosture|TestNothingOfTheHost|TestSockets|TestOutputs)$"}},
		}},
	}
}

func withoutLandlock(kernel string) string {
	if !strings.HasSuffix(kernel, "landlock 0") {
		return "Landlock was to be off"
	}
	return ""
}

func skip(tests []string) []string { return []string{"-test.skip=" + strings.Join(tests, "|")} }

// hostLauncher are the tests of the launcher that are not run in the guest:
// callcell-init by itself, what is done with malformed messages, sandboxes that
// do not come to life, long listings, hammers, and what waits for time to pass.
// Of a sandbox on the host's network, of what crosses a gate first, and of trees
// in their forms, namespaces and mounts make the difference, not groups; a tail is
// ended by the count of CPU time that TestSandboxCeilings is about.
func hostLauncher() []string {
	return []string{
		"^TestInit", "^FuzzInit", "^TestProgramStartsClean", "^TestHostileMessages", "^TestMutatedMessages", "^TestMalformedPackets",
		"^TestMemoryStaysBounded", "^TestManyCellsWithANetwork", "^TestDroppedWhileChecked", "^TestScratchList", "^TestServerHammer", "^TestManyTinyCells", "^TestLauncherIsKilledAtAnyMoment",
		"^TestReaperKillsALauncherThatHangs", "^TestReaperCountsWhatItCannotRemove", "^TestQuarantine", "^TestWallTime",
		"^TestLeastCell$/^cpu", "^TestSandboxLoses", "^TestSandboxBootFails",
		"^TestAddedTree", "^TestTreeWithNoPlace", "^TestMounts", "^TestRemoveRespectsCells", "^TestCellsOfATreeEnd", "^TestKilledWhileStoring",
		"^TestTemplatesAreKept", "^TestSparesOfATree", "^TestHammerTrees", "^TestUnpackerThatWasTakenOver", "^TestUnpackerEnds", "^TestUnpackedAndLeft",
		"^TestSandboxTailIsBounded", "^TestSpareThatNobodyWants", "^TestSandboxOnTheHostsNetwork", "^TestFirstInstructionAsksForAName", "^TestEgressHammer",
		"^TestTreeIsTheRoot", "^TestTreeInAnotherForm", "^TestNetworkInATree", "^TestKeptUnderItsDigest",
		"^TestUnpackInOneForm", "^TestUnpackRefusesAStream", "^TestUnpackFileSize", "^TestStoreThatOthersCouldChange", "^TestTwoLaunchersShareAStore",
	}
}

// hostContainer are those of the container level: what ordinary programs do,
// what becomes of files, the soak, ways out and gates, launchers that come, go and
// recycle, and of each group of cases those in which no control group has a part;
// what plays all of them once more in sandboxes, of which sandboxes has its own.
// The boot without Landlock has the walls. Of TestCeilings memory and processes are left, which
// groups count; the rest are mounts, rlimits and the filter.
func hostContainer() []string {
	return []string{
		"^TestCasesAtUserkernel", "^TestEverydayCases", "^TestFilesCases", "^TestOutputCases", "^TestPrivilegeCases", "^TestManyCalls",
		"^TestKillsAmongSeveralLaunchers", "^TestRecycling", "^TestStuckLauncher", "^TestProcessThatCannotDie", "LeavesOneBehind$",
		"^TestNothingOfTheHost", "^TestSockets", "^TestOutputs",
		"^TestApart", "^TestEgress", "^TestOneShotWithEgress", "^TestGate", "^TestThroughTheGate", "^TestMoreNetworkThanACellHas", "^TestRunFiles", "^TestOpenWithANetworkThatNobodyAwaits",
		"^TestLaunchersAreStartedAsTheyAreOfUse", "^TestRetiringLauncher", "^TestSparesUnderCancellation", "^TestPostureWithANetwork", "^TestMountsAsTheEnvelopeHasThem", "^TestImageWithoutATree",
		"^TestCeilings$/^(scratch|inodes|wall|stopped|grace|file_size|open_files|waiting_connections|netlink|message_queues)$",
		"^TestProcessCases$/^10[2-5]", "^TestProcessCases$/^10[7-9]", "^TestDeathCases$/^86",
		"^TestCeilingCases$/^(7[45]|8[19])_", "^TestCeilingCases$/^78_[^C]", "^TestCleanupCases$/^(8[79]|90)_",
		"^TestConformance$/^conformance$/^a_directory_over",
		"^TestConformanceOfATree", "^TestPackagesThatRunAtStart", "^TestTreeIsSealed", "^TestTrees$", "^TestUnpackIsCancelled", "^TestFaultOfAStreamIsSaid", "^TestStagedTree",
	}
}

// sandboxes are the tests of cells with a kernel of their own that are run in the
// guest: one each of what control groups have a part in, since a sandbox takes
// seconds to boot there; and what Yama does.
func sandboxes() string {
	tests := "TestConformance|TestCeilings|TestPosture.*|TestDeaths|TestYama"
	parts := strings.Join([]string{
		"conformance", "the_sentry",
		"more_processes_than_it_may_have", "files_of_the_scratch", "deaf_to_every_signal.*", "CPU_time.*", "a_full_scratch",
	}, "|")
	cases := strings.Join([]string{
		"features_say.*", "usage_is_counted.*", "the_wall_time_ends.*", "a_cancelled_context_ends.*", "Close_ends.*", "those_left_behind.*",
		"regular_files_come_out.*", "Close_under_a_cancelled_context.*",
	}, "|")
	return "^(" + tests + ")$/^(" + parts + ")$/^(" + cases + ")$"
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
	WordBoot   = "VM-BOOT"   // kernel, Landlock's ABI
	WordRun    = "VM-RUN"    // suite
	WordResult = "VM-RESULT" // suite, exit status, seconds
	WordFault  = "VM-FAULT"  // why init could not go on
	WordEnd    = "VM-END"
)
