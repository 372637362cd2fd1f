// Package e2e holds tests of the whole product: the real command, real cells,
// ordinary programs in them, and a small Internet of the tests' own around it
// (internal/testing/world).
//
// They run callcell in the world's near namespace, as a user would, with a
// configuration file, and look at three things: what the program in the cell
// saw, what the result says, and what reached the world. The last one decides:
// a test of a denial ends with the world's word that nothing came.
//
// Calls run at the container level; TestOwnKernel plays what decides at userkernel
// too, in an image of this host's programs. With CALLCELL_TEST_LEVEL=userkernel the
// calls of most tests run there, in a snapshot of the whole host.
//
// They need root, and what scripts/setup installs: curl, git, node, npm, a
// JDK, PostgreSQL. A tool that is missing fails its test.
package e2e
