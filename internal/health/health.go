// Package health runs the checks by which a daemon says that it is ready, and
// keeps what they found for some seconds, so that whoever asks without a key
// costs nothing.
//
// A check does what it claims: it writes to the store, asks the launcher, looks
// at the disk and at the clock. What it says to strangers is a word of a closed
// set and nothing else; what stands behind it is for the log.
package health

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The words of Result.Reason. They never change their meaning.
const (
	StoreUnwritable = "store.unwritable" // a write was refused or not answered in time
	LauncherGone    = "launcher.gone"    // no launcher lives, or none answers
	LauncherRefuses = "launcher.refuses" // it lives, and can build no cell on this host
	DiskFull        = "disk.full"        // less room than health.disk
	DiskInodes      = "disk.inodes"      // fewer files than health.inodes
	DiskReadOnly    = "disk.readonly"    // the file system of the state is mounted read-only
	DiskUnknown     = "disk.unknown"     // the file system does not say
	ClockStepped    = "clock.stepped"    // the time of day jumped, less than a lease ago
	AnchorBehind    = "anchor.behind"    // a checkpoint waits for longer than health.anchorLag
	Unknown         = "unknown"          // a check that failed without a word of this list
)

// Error is what a check found wrong.
type Error struct {
	Reason string // one of the words above
	Err    error  // for the log
}

// Error says what stands behind the reason.
func (e *Error) Error() string { return e.Reason + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Check is one thing that must hold. Run honours its context, and is called by
// one goroutine at a time.
type Check struct {
	Name string
	Soft bool // the daemon is ready without it
	Run  func(context.Context) error
}

// Result is what one check found.
type Result struct {
	Name   string `json:"name" doc:"Of the check"`
	OK     bool   `json:"ok" doc:"Whether it is well"`
	Soft   bool   `json:"soft,omitempty" doc:"The daemon is ready without it"`
	Reason string `json:"reason,omitempty" doc:"A word of a closed list, where it is not well"`

	Err error `json:"-"` // for the log
}

// Report is what all of them found.
type Report struct {
	Ready  bool
	Checks []Result
}

// Checker runs checks. Its methods may be called concurrently.
type Checker struct {
	checks []Check
	keep   time.Duration
	most   time.Duration
	now    func() time.Time

	mu   sync.Mutex // guards what follows; held while checks run
	at   time.Time  // zero: they were never run
	last Report
}

// The bounds of a run.
const (
	keepFor  = 2 * time.Second // of what was found
	mostTime = 5 * time.Second // of one check
)

// New returns a Checker. now is the clock; nil: this host's.
func New(checks []Check, now func() time.Time) *Checker {
	if now == nil {
		now = time.Now
	}
	return &Checker{checks: checks, keep: keepFor, most: mostTime, now: now}
}

// Report returns what was found, at most two seconds ago. It is bounded by five
// seconds for all checks together: they run side by side.
func (c *Checker) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if age := now.Sub(c.at); !c.at.IsZero() && age >= 0 && age < c.keep {
		return c.last
	}
	c.last = c.run()
	c.at = c.now()
	return c.last
}

func (c *Checker) run() Report {
	ctx, cancel := context.WithTimeout(context.Background(), c.most)
	defer cancel()
	r := Report{Ready: true, Checks: make([]Result, len(c.checks))}
	var all sync.WaitGroup
	for i, check := range c.checks {
		all.Go(func() { r.Checks[i] = result(check, check.Run(ctx)) })
	}
	all.Wait()
	for _, one := range r.Checks {
		r.Ready = r.Ready && (one.OK || one.Soft)
	}
	return r
}

func result(c Check, err error) Result {
	r := Result{Name: c.Name, OK: err == nil, Soft: c.Soft, Err: err}
	if err == nil {
		return r
	}
	r.Reason = Unknown
	var known *Error
	if errors.As(err, &known) {
		r.Reason = known.Reason
	}
	return r
}
