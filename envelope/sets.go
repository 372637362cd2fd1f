package envelope

import "fmt"

// A set is a closed set of words: the index is the value, the zero value is
// invalid and has no word. A value that is not a member cannot be written; a
// word that is not one is a *ValueError and leaves the zero value.
type set struct {
	kind  string // what the set is called in errors
	words []string
}

func (s set) text(v uint8) string {
	if v == 0 || int(v) >= len(s.words) {
		return fmt.Sprintf("invalid %s (%d)", s.kind, v)
	}
	return s.words[v]
}

func (s set) valid(v uint8) bool { return v != 0 && int(v) < len(s.words) }

func (s set) marshal(v uint8) ([]byte, error) {
	if !s.valid(v) {
		return nil, &ValueError{Kind: s.kind, Value: fmt.Sprint(v), Want: s.list()}
	}
	return []byte(s.words[v]), nil
}

func (s set) parse(text string) (uint8, error) {
	for i, w := range s.words {
		if i > 0 && w == text {
			return uint8(i), nil
		}
	}
	return 0, &ValueError{Kind: s.kind, Value: text, Want: s.list(), Hint: didYouMean(text, s.list())}
}

func (s set) list() []string { return append([]string(nil), s.words[1:]...) }

// Level is a class of isolation. The zero value is invalid.
type Level uint8

// The levels, weakest first. LevelAuto asks for the cheapest that satisfies
// the call; a Result never carries it. LevelNone is what a fetch runs at:
// nothing of a stranger is executed.
const (
	LevelAuto Level = iota + 1
	LevelNone
	LevelLanguage
	LevelContainer
	LevelUserKernel
	LevelMicroVM
)

func levels() set {
	return set{"level", []string{"", "auto", "none", "language", "container", "userkernel", "microvm"}}
}

// String returns the level's word.
func (l Level) String() string { return levels().text(uint8(l)) }

// Valid reports whether l is a member of the set.
func (l Level) Valid() bool { return levels().valid(uint8(l)) }

// MarshalText implements encoding.TextMarshaler.
func (l Level) MarshalText() ([]byte, error) { return levels().marshal(uint8(l)) }

// UnmarshalText implements encoding.TextUnmarshaler. It takes the aliases
// wasm (language) and gvisor (userkernel).
func (l *Level) UnmarshalText(b []byte) error {
	word := string(b)
	switch word {
	case "wasm":
		word = "language"
	case "gvisor":
		word = "userkernel"
	}
	v, err := levels().parse(word)
	*l = Level(v)
	return err
}

// Levels returns every level at which code can run, weakest first.
func Levels() []Level {
	return []Level{LevelLanguage, LevelContainer, LevelUserKernel, LevelMicroVM}
}

// Trust says who wrote the code of a call. The zero value is invalid; a
// larger value is trusted less.
type Trust uint8

// The members of Trust.
const (
	TrustReviewed Trust = iota + 1
	TrustModel
	TrustThirdParty
	TrustHostile
)

func trusts() set {
	return set{"trust", []string{"", "reviewed", "model", "thirdparty", "hostile"}}
}

// String returns the word of t.
func (t Trust) String() string { return trusts().text(uint8(t)) }

// Valid reports whether t is a member of the set.
func (t Trust) Valid() bool { return trusts().valid(uint8(t)) }

// MarshalText implements encoding.TextMarshaler.
func (t Trust) MarshalText() ([]byte, error) { return trusts().marshal(uint8(t)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Trust) UnmarshalText(b []byte) error {
	v, err := trusts().parse(string(b))
	*t = Trust(v)
	return err
}

// Outcome says how a call that ran has ended. It is a result, not an error.
// The zero value is invalid: such a call was refused.
type Outcome uint8

// The members of Outcome.
const (
	OutcomeCompleted Outcome = iota + 1 // the program exited, with any code
	OutcomeSignalled                    // a signal ended the program
	OutcomeWallTime                     // resources.wall
	OutcomeCPUTime                      // resources.cpuTime
	OutcomeMemory                       // resources.memory: the kernel killed the cell
	OutcomeProcesses                    // resources.pids ended the program
	OutcomeOutput                       // resources.output.total
	OutcomeFileSize                     // resources.fileSize ended the program
	OutcomeDisk                         // files.scratch ended the program
	OutcomeCancelled                    // the caller went away or asked for it
	OutcomeBroken                       // the cell's own machinery died
	OutcomeLost                         // the daemon died; written by its successor
)

func outcomes() set {
	return set{"outcome", []string{"", "completed", "signalled", "wall_time", "cpu_time", "memory",
		"processes", "output", "file_size", "disk", "cancelled", "broken", "lost"}}
}

// String returns the word of o.
func (o Outcome) String() string { return outcomes().text(uint8(o)) }

// Valid reports whether o is a member of the set.
func (o Outcome) Valid() bool { return outcomes().valid(uint8(o)) }

// MarshalText implements encoding.TextMarshaler.
func (o Outcome) MarshalText() ([]byte, error) { return outcomes().marshal(uint8(o)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Outcome) UnmarshalText(b []byte) error {
	v, err := outcomes().parse(string(b))
	*o = Outcome(v)
	return err
}

// Reason says why a call was refused. What was refused has not run. The
// zero value is invalid.
type Reason uint8

// The members of Reason.
const (
	ReasonRequest     Reason = iota + 1 // the call itself is malformed
	ReasonPermission                    // the caller may not
	ReasonPolicy                        // wider than the profile
	ReasonIsolation                     // no level here satisfies the floor
	ReasonUnsupported                   // not to be had at that level, or not built
	ReasonRate                          // too many calls a minute
	ReasonBudget                        // tokens or a task ceiling
	ReasonCapacity                      // no room now; try again
	ReasonSetup                         // the cell could not be built
)

func reasons() set {
	return set{"refusal", []string{"", "request", "permission", "policy", "isolation", "unsupported",
		"rate", "budget", "capacity", "setup"}}
}

// String returns the word of r.
func (r Reason) String() string { return reasons().text(uint8(r)) }

// Valid reports whether r is a member of the set.
func (r Reason) Valid() bool { return reasons().valid(uint8(r)) }

// MarshalText implements encoding.TextMarshaler.
func (r Reason) MarshalText() ([]byte, error) { return reasons().marshal(uint8(r)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Reason) UnmarshalText(b []byte) error {
	v, err := reasons().parse(string(b))
	*r = Reason(v)
	return err
}
