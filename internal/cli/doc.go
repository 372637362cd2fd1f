// Package cli is the command line: it translates flags and files into a Call,
// hands it to the broker, and shows the Result. It decides nothing.
//
// What a program of a cell wrote goes to a terminal only through package
// render. To a pipe or a file it goes as the bytes it is.
package cli
