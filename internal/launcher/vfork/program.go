//go:build linux

package vfork

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reg names a register of the child's program: a place for the result of one
// step that a later one uses. The zero value is no register.
type Reg uint8

// registers is how many there are, Reg 0 included.
const registers = 16

// A step is one system call.
type step struct {
	nr     uintptr
	args   [6]uintptr
	from   [6]Reg // argument i comes from this register
	to     Reg    // the result goes there
	ignore bool
	name   string
	why    string
}

// Program is a list of system calls, and after the last the exec. A Program
// is built by one goroutine, started as often as wanted by one after another,
// and then released. What differs from start to start is in registers.
type Program struct {
	steps  []step
	pinner runtime.Pinner
	regs   [registers]uintptr
	failed int // index of the step that failed; -1
	errno  uintptr
}

// New returns an empty program.
func New() *Program { return &Program{failed: -1, steps: make([]step, 0, usualSteps)} }

// usualSteps is about how many steps a program has: one allocation for all.
const usualSteps = 192

// Line is one step as it is shown to people.
type Line struct {
	Name string // "mount proc on /proc"
	Why  string
}

// Lines returns the program as people read it.
func (p *Program) Lines() []Line {
	lines := make([]Line, len(p.steps))
	for i, s := range p.steps {
		lines[i] = Line{Name: s.name, Why: s.why}
	}
	return lines
}

// Set gives a register its value for the next start.
func (p *Program) Set(r Reg, value int) { p.regs[r&(registers-1)] = uintptr(value) }

// Option changes one step.
type Option func(*step)

// From takes argument number arg (from 0) out of a register.
func From(arg int, r Reg) Option { return func(s *step) { s.from[arg] = r } }

// To keeps the result in a register.
func To(r Reg) Option { return func(s *step) { s.to = r } }

// Why says what the step is for.
func Why(why string) Option { return func(s *step) { s.why = why } }

// Ignore goes on when the step fails. Only a step whose failure leaves
// nothing weaker may carry it.
func Ignore() Option { return func(s *step) { s.ignore = true } }

// Arg is an argument: an integer, or one of Str, Bytes and Ptr.
type Arg any

// Call appends the system call nr. The name is what an error will say.
func (p *Program) Call(name string, nr uintptr, args []Arg, opts ...Option) {
	s := step{nr: nr, name: name}
	for i, a := range args {
		s.args[i] = p.word(a)
	}
	for _, o := range opts {
		o(&s)
	}
	p.steps = append(p.steps, s)
}

// Ptr is an argument that points to v, which must hold no Go pointers that
// are not pinned themselves.
type Ptr struct{ P unsafe.Pointer }

func (p *Program) word(a Arg) uintptr {
	switch v := a.(type) {
	case nil:
		return 0
	case int:
		return uintptr(v)
	case int64:
		return uintptr(v)
	case uint64:
		return uintptr(v)
	case uintptr:
		return v
	case string:
		return uintptr(unsafe.Pointer(p.cstring(v)))
	case []byte:
		p.pinner.Pin(&v[0])
		return uintptr(unsafe.Pointer(&v[0]))
	case Ptr:
		p.pinner.Pin(v.P)
		return uintptr(v.P)
	}
	panic(fmt.Sprintf("vfork: argument of type %T", a))
}

// cstring returns s with a NUL behind it. A NUL inside is a fault of ours:
// no caller's string is ever in a program.
func (p *Program) cstring(s string) *byte {
	b, err := syscall.BytePtrFromString(s)
	if err != nil {
		panic("vfork: NUL in " + s)
	}
	p.pinner.Pin(b)
	return b
}

// Exec appends the exec that ends the program.
func (p *Program) Exec(path string, argv, env []string) {
	p.Call("exec "+path, syscall.SYS_EXECVE, []Arg{path, p.vector(argv), p.vector(env)},
		Why("the cell's init takes over; everything above is sealed"))
}

// ExecFD appends the exec that ends the program, of a file that is open as fd.
// No path leads to it, so there need be none.
func (p *Program) ExecFD(fd int, name string, argv, env []string) {
	p.Call("exec "+name, unix.SYS_EXECVEAT, []Arg{fd, "", p.vector(argv), p.vector(env), unix.AT_EMPTY_PATH},
		Why("the process takes over; everything above is sealed"))
}

func (p *Program) vector(list []string) Ptr {
	v := make([]*byte, len(list)+1)
	for i, s := range list {
		v[i] = p.cstring(s)
	}
	return Ptr{unsafe.Pointer(&v[0])}
}

// Release unpins what the program pointed to. The program is useless after.
func (p *Program) Release() { p.pinner.Unpin() }

// StepError is a step that failed in the child; the program has not run.
type StepError struct {
	Index int
	Name  string
	Errno syscall.Errno
}

// Error names the step.
func (e *StepError) Error() string { return fmt.Sprintf("step %d (%s): %v", e.Index, e.Name, e.Errno) }

// Unwrap returns the errno.
func (e *StepError) Unwrap() error { return e.Errno }

// Pin keeps a Go object that the list points to indirectly where it is.
func (p *Program) Pin(o unsafe.Pointer) { p.pinner.Pin(o) }
