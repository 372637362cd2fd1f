package assembly

import (
	"errors"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/audit/keyfile"
	"github.com/callcell/callcell/internal/store"
)

// ErrCgo means that a process cannot give up its privileges, because it was
// built with cgo: threads that C has started are out of Go's reach.
var ErrCgo = errors.New("this program was built with cgo and cannot give up its privileges")

// LogError is an audit log that cannot be opened. Without one nothing runs.
type LogError struct {
	State string // the directory it is in
	Err   error  // wraps a sentinel of package audit or store
}

// Error says what is the matter.
func (e *LogError) Error() string { return "the audit log cannot be opened: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *LogError) Unwrap() error { return e.Err }

// Refusal is what a call gets then.
func (e *LogError) Refusal() *envelope.Refusal {
	return &envelope.Refusal{
		Reason: envelope.ReasonSetup, Message: "the audit log cannot be opened, so nothing ran: " + e.Err.Error(),
		Hint: e.hint(), Retry: errors.Is(e.Err, audit.ErrBusy),
	}
}

func (e *LogError) hint() string {
	var insecure *store.InsecureError
	var key *keyfile.Error
	switch {
	case errors.As(e.Err, &key):
		return key.Hint
	case errors.As(e.Err, &insecure) && insecure.Foreign:
		return "it is another user's, as that of a daemon with serve.user is: copy the configuration with another line for state (state: " + e.State + "-own), and name the copy: --config FILE"
	case errors.As(e.Err, &insecure):
		return insecure.Hint
	case errors.Is(e.Err, store.ErrNewer):
		return "use the newer callcell, or another state directory"
	case errors.Is(e.Err, audit.ErrBusy):
		return "another process holds it: wait for that one"
	case errors.Is(e.Err, audit.ErrUnwritable):
		return "see that " + e.State + " can be written and has room, or name another directory: state, in the configuration"
	case errors.Is(e.Err, audit.ErrCorrupt):
		return "keep " + e.State + "/audit.db* for who looks into it, and move them away to begin a new log"
	}
	return ""
}
