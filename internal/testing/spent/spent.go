// Package spent tells tests what this process has cost. A test that holds its
// subject to a time measures that: what the clock says hangs on what else the
// host has to do.
//
//	before := spent.CPU()
//	...
//	if took := spent.CPU() - before; took > 5*time.Second {
package spent
