package celltest

// Kind is what a program of the suite does. Its arguments are given with it.
type Kind string

// The programs.
const (
	// Print ARG... writes each argument and a NUL to stdout.
	Print Kind = "print"
	// Exit N exits with N.
	Exit Kind = "exit"
	// Signal N ends itself by signal N.
	Signal Kind = "signal"
	// Cat copies stdin to stdout.
	Cat Kind = "cat"
	// Env writes each NAME=value of its environment and a NUL to stdout.
	Env Kind = "env"
	// Home writes the working directory and a newline, changes to $HOME,
	// writes a file there, and writes that directory and a newline.
	Home Kind = "home"
	// Streams A B copies file A to stdout and file B to stderr.
	Streams Kind = "streams"
	// Runnable FILE exits with 0 where FILE may be executed and 1 where not.
	Runnable Kind = "runnable"
	// List writes the names in the working directory, in /tmp and in
	// /dev/shm, a line each.
	List Kind = "list"
	// Litter TEXT writes TEXT to a file in each of the places that List
	// lists.
	Litter Kind = "litter"
	// Zeros N writes N zero bytes to stdout.
	Zeros Kind = "zeros"
	// Hang writes "ready" to stdout and then waits for ever, deaf to TERM.
	Hang Kind = "hang"
	// Flood writes to stdout for ever.
	Flood Kind = "flood"
	// FloodErr writes to stderr for ever.
	FloodErr Kind = "flooderr"
	// Orphans MARK leaves two processes behind, with MARK in their
	// arguments, which append to the files ticks and tocks for ever: one
	// holds stdout and writes to it, the other is in a session of its own.
	// When both have begun it writes "done" to stdout and exits with 0.
	Orphans Kind = "orphans"
	// Zoo makes one of everything that can be asked for: the files plain
	// ("plain") and empty, the directory void, the links link (to plain),
	// away (to /etc/passwd), nowhere (dangling) and dirlink (to dir), the
	// FIFO fifo, and in dir the files a ("a"), b ("bb"), sub/c ("ccc"), the
	// link link and the FIFO fifo.
	Zoo Kind = "zoo"
	// Many N BYTES makes N files of BYTES bytes: many/f0, many/f1, ...
	Many Kind = "many"
	// Sparse N makes the file sparse of N bytes, without writing any.
	Sparse Kind = "sparse"
)

// Kinds returns every kind.
func Kinds() []Kind {
	return []Kind{Print, Exit, Signal, Cat, Env, Home, Streams, Runnable, List, Litter, Zeros, Hang,
		Flood, FloodErr, Orphans, Zoo, Many, Sparse}
}

// Dialect writes programs as the command line of one kind of cell.
type Dialect interface {
	// Script returns the argv of a program of kind, or nil where it has
	// none; the harness then has to say so in Lacks.
	Script(kind Kind, args ...string) []string
}

// Shell is the dialect of every level with a POSIX shell, and the usual small
// programs of a Linux system beside it.
type Shell struct{}

// Script implements Dialect.
func (Shell) Script(kind Kind, args ...string) []string {
	switch kind {
	case Cat:
		return []string{"/bin/cat"}
	case Env:
		return []string{"/usr/bin/env", "-0"}
	}
	text, ok := shellText()[kind]
	if !ok {
		return nil
	}
	return append([]string{"/bin/sh", "-c", text, "sh"}, args...)
}

func shellText() map[Kind]string {
	return map[Kind]string{
		Sparse:   `truncate -s "$1" sparse`,
		Print:    `printf '%s\0' "$@"`,
		Exit:     `exit "$1"`,
		Signal:   `kill -"$1" $$`,
		Home:     `pwd && cd && : >home-is-writable && pwd`,
		Streams:  `cat "$1" && cat "$2" >&2`,
		Runnable: `test -x "$1"`,
		List:     `ls -A . && ls -A /tmp && ls -A /dev/shm`,
		Litter:   `printf %s "$1" >litter-work && printf %s "$1" >/tmp/litter-tmp && printf %s "$1" >/dev/shm/litter-shm`,
		Zeros:    `exec head -c "$1" /dev/zero`,
		Hang:     `trap '' TERM INT HUP; printf ready; while :; do sleep 60; done`,
		Flood:    `exec yes flood`,
		FloodErr: `exec yes flood >&2`,
		Orphans: `
sh -c 'while :; do echo tick >>ticks; echo late; sleep 0.02; done' "$1" &
setsid sh -c 'while :; do echo tock >>tocks; sleep 0.02; done' "$1" </dev/null >/dev/null 2>&1 &
until test -s ticks && test -s tocks; do sleep 0.01; done
printf done`,
		Zoo: `
set -e
mkdir -p dir/sub void
printf plain >plain; : >empty
ln -s plain link; ln -s /etc/passwd away; ln -s no/such nowhere; ln -s dir dirlink
mkfifo fifo dir/fifo
printf a >dir/a; printf bb >dir/b; printf ccc >dir/sub/c; ln -s a dir/link`,
		Many: `mkdir many; i=0; while test $i -lt "$1"; do head -c "$2" /dev/zero >many/f$i; i=$((i+1)); done`,
	}
}
