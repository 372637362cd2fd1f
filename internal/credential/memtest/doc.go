// Package memtest looks for bytes in the memory of this process, for tests of
// what must not be left there. It does so on Linux alone.
package memtest
