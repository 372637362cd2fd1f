// Package tree has no code. Its tests are about the tree itself: the walls
// between the packages, their docs, the size of files and functions, state at
// package level, seeds of fuzz targets, links, and what must not be in any
// file. Each check is a pure function with a test of its own that shows it
// going red.
//
// An exception stands in the list beside its check, with the reason.
package tree
