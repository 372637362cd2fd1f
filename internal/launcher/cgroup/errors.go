package cgroup

import (
	"errors"
	"strings"
)

var (
	// ErrUnavailable: there is no cgroup hierarchy at or below the root.
	ErrUnavailable = errors.New("no cgroup hierarchy")
	// ErrController: a controller that must be enforced is not at hand. The
	// error is a *ControllerError.
	ErrController = errors.New("cgroup controller not enforceable")
	// ErrOccupied: a version 2 group that has to share out controllers holds
	// processes, which the kernel does not allow together.
	ErrOccupied = errors.New("cgroup holds processes")
	// ErrName: a name that no group or parent may have.
	ErrName = errors.New("bad cgroup name")
	// ErrLimits: limits that cannot be asked for.
	ErrLimits = errors.New("bad cgroup limits")
	// ErrNotEnforced: the kernel did not take a setting as it was asked for.
	// The error is a *SettingError.
	ErrNotEnforced = errors.New("cgroup setting did not take")
	// ErrExists: a group of that name is there already.
	ErrExists = errors.New("cgroup exists")
	// ErrNotEmpty: members outlived Kill.
	ErrNotEmpty = errors.New("cgroup not empty")
	// ErrRemains: directories outlived Remove. The error is a *RemainsError.
	ErrRemains = errors.New("cgroup remains")
	// ErrClosed: the Group's descriptors have been given back.
	ErrClosed = errors.New("cgroup closed")
	// ErrClaimed: the parent is claimed for another owner.
	ErrClaimed = errors.New("cgroup parent is claimed by another")
	// ErrText: the kernel's text is not what is documented, or too long.
	ErrText = errors.New("unexpected cgroup text")
)

// ControllerError names the controller that cannot be enforced, and why.
type ControllerError struct {
	Controller string
	Err        error // may be nil: it is simply not there
}

func (e *ControllerError) Error() string {
	s := ErrController.Error() + ": " + e.Controller
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *ControllerError) Is(target error) bool { return target == ErrController }
func (e *ControllerError) Unwrap() error        { return e.Err }

// SettingError names the file that did not take its value.
type SettingError struct {
	File, Want string
	Got        string // what was read back, if it came to that
	Err        error  // what the kernel answered otherwise
}

func (e *SettingError) Error() string {
	s := ErrNotEnforced.Error() + ": " + e.File + " = " + e.Want
	if e.Err != nil {
		return s + ": " + e.Err.Error()
	}
	return s + ": reads " + e.Got
}

func (e *SettingError) Is(target error) bool { return target == ErrNotEnforced }
func (e *SettingError) Unwrap() error        { return e.Err }

// RemainsError names the hierarchies in which a group is still there.
type RemainsError struct {
	Name  string
	Where []string // controllers of each hierarchy, as "memory" or "cpu,cpuacct"
	Err   error    // the last answer of the kernel
}

func (e *RemainsError) Error() string {
	return ErrRemains.Error() + ": " + e.Name + " in " + strings.Join(e.Where, " ") + ": " + e.Err.Error()
}

func (e *RemainsError) Is(target error) bool { return target == ErrRemains }
func (e *RemainsError) Unwrap() error        { return e.Err }
