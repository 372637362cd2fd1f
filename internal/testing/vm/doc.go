// Package vm runs tests on another kernel than this host's: on one with control
// groups of version 2, without Landlock, and older.
//
//	host                                    guest
//	----                                    -----
//	build test binaries, helpers, init
//	one initramfs: those, and what of
//	this host's /usr the cells need
//	QEMU, kernel, initramfs      ------->   init: mounts, loopback
//	                             <-------   VM-BOOT kernel
//	                             <-------   VM-RUN suite
//	                             <-------   what the tests print
//	                             <-------   VM-RESULT suite status seconds
//	                             <-------   VM-END, power off
//	judge: every suite has a result, it is 0, tests ran, none was skipped
//	that should not be
//
// There are several boots, each with some of the suites and an initramfs of its
// own; two guests run beside each other where the host has the room. An emulated
// guest is told how fast the host's time stamp counter counts: what its kernel
// measures beside other work has been wrong by a factor of twenty, and then every
// bound of a test is over at once.
//
// The guest has no disk and no network. What the tests print comes by the
// second serial port; the first is the kernel's. The machine is the tests' own:
// one that has CALLCELL_TEST_MACHINE set may change its settings.
//
// Cells with a kernel of their own run in it too, with the runsc that is shipped
// and an image of what their tests need: gVisor's platform works under emulation,
// and takes seconds for what is a thirtieth of one elsewhere. So of their tests a
// part is run (plan.go).
//
// Nothing here isolates anything: without KVM the guest is emulated, ten times
// slower and no boundary at all.
package vm
