// Package hook speaks with an assistant that asks before it runs its own shell:
// a JSON document of an event on standard input, and one with the answer on
// standard output. Claude Code and Codex have the same words for both.
//
// It is pure. A command is rewritten, so that the assistant's shell starts a
// call, or denied. What is in an event was chosen by a model: the command goes
// through Quote and is never a part of our own command line.
//
// A client that runs a tool although its hook failed fails open, and so does
// one that drops a rewriting: docs/mcp.md says which do. Whoever must not rely
// on that takes the answer instead: the call is run by the hook, and the client
// is told to run nothing.
package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxEvent bounds the document of an event, in bytes.
const MaxEvent = 4 << 20

// Event is a tool that is about to be used.
type Event struct {
	Session string // of the client; letters, digits and - alone
	Dir     string // working directory of the client; absolute, or ""
	Tool    string
	Command string        // of the shell; "" for another tool
	Timeout time.Duration // that the model asked for; 0: none

	input map[string]json.RawMessage
}

// Shell is the tool whose commands are run in cells.
const Shell = "Bash"

// The errors of Parse.
var (
	ErrEvent = errors.New("hook: not an event before the use of a tool")
	ErrShell = errors.New("hook: not a command for a shell")
)

// Parse reads an event. What a newer client adds is kept and handed on. An
// error wraps ErrEvent, or ErrShell where the shell is to be used in a way that
// is not known: then nothing may run.
func Parse(data []byte) (*Event, error) {
	if len(data) > MaxEvent || !utf8.Valid(data) {
		return nil, fmt.Errorf("%w: more than 4 MiB, or not UTF-8", ErrEvent)
	}
	var doc struct {
		Session string                     `json:"session_id"`
		Dir     string                     `json:"cwd"`
		Name    string                     `json:"hook_event_name"`
		Tool    string                     `json:"tool_name"`
		Input   map[string]json.RawMessage `json:"tool_input"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	if doc.Name != "PreToolUse" || doc.Tool == "" {
		return nil, fmt.Errorf("%w: event %.40q, tool %.40q", ErrEvent, doc.Name, doc.Tool)
	}
	e := &Event{Session: plain(doc.Session), Tool: doc.Tool, input: doc.Input}
	if filepath.IsAbs(doc.Dir) && !strings.ContainsRune(doc.Dir, 0) {
		e.Dir = filepath.Clean(doc.Dir)
	}
	if e.Tool != Shell {
		return e, nil
	}
	return e, e.shell()
}

// shell reads what the shell is to do.
func (e *Event) shell() error {
	if err := json.Unmarshal(e.input["command"], &e.Command); err != nil || e.Command == "" {
		return fmt.Errorf("%w: command is no text", ErrShell)
	}
	if strings.ContainsRune(e.Command, 0) {
		return fmt.Errorf("%w: the command has a NUL", ErrShell)
	}
	if raw, given := e.input["timeout"]; given {
		var ms float64
		if err := json.Unmarshal(raw, &ms); err != nil || ms < 0 || ms > float64(24*time.Hour/time.Millisecond) {
			return fmt.Errorf("%w: timeout is no time", ErrShell)
		}
		e.Timeout = time.Duration(ms * float64(time.Millisecond))
	}
	return nil
}

const maxSession = 64

// plain keeps of a text what may stand in the name of a task.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, text)
	return text[:min(len(text), maxSession)]
}

// decision is the part of the answer that decides.
type decision struct {
	Event    string                     `json:"hookEventName"`
	Decision string                     `json:"permissionDecision,omitempty"` // "": the client's own rules
	Reason   string                     `json:"permissionDecisionReason,omitempty"`
	Input    map[string]json.RawMessage `json:"updatedInput,omitempty"`
}

func answer(d decision) ([]byte, error) {
	d.Event = "PreToolUse"
	data, err := json.Marshal(struct {
		Output decision `json:"hookSpecificOutput"`
	}{d})
	return append(data, '\n'), err
}

// Rewrite is the answer that has the client run another command in the place of
// the event's. Whatever else the model asked for stays: clients take the input
// as a whole. With allow the client does not ask its user; without, its own
// rules judge the command that it is given.
func (e *Event) Rewrite(command string, allow bool) ([]byte, error) {
	text, err := json.Marshal(command)
	if err != nil {
		return nil, err
	}
	input := map[string]json.RawMessage{}
	for name, value := range e.input {
		input[name] = value
	}
	input["command"] = text
	d := decision{Input: input}
	if allow {
		d.Decision = "allow"
	}
	return answer(d)
}

// Deny is the answer that has the client run nothing, and tells its model why.
// The reason is not empty.
func Deny(reason string) ([]byte, error) {
	return answer(decision{Decision: "deny", Reason: reason})
}

// Quote makes one line for a POSIX shell of a program and its arguments, which
// the shell hands on as they are.
func Quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// Place says over which directory a command runs, and where below it: the
// project, and in it the client's working directory where that is within. What
// is beside the project never goes into a cell because a client went there.
// Where nobody names a project, it is the working directory.
func Place(project, dir string) (root, below string) {
	if dir == "" {
		return project, "."
	}
	if project == "" {
		return dir, "."
	}
	rel, err := filepath.Rel(project, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return project, "."
	}
	return project, rel
}

// Program is what runs the command of a shell in a cell, in a directory below
// the one that the cell begins in. One that is empty in the project is not in
// its copy, so it is made.
func Program(shell, below, command string) []string {
	if below == "." || below == "" {
		return []string{shell, "-c", command}
	}
	return []string{shell, "-c", `mkdir -p -- "$1" && cd -- "$1" && exec "$0" -c "$2"`, shell, below, command}
}
