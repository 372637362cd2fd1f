package envelope

import "time"

// Result is the answer to a call. Everything that came out of the cell
// (Stdout, Stderr, Outputs) is data of an untrusted program.
//
// Exactly one of Refusal and Outcome is set.
type Result struct {
	ID      string   `json:"id"`                // UUIDv7 of the call, and of its row
	Task    string   `json:"task,omitempty"`    // as the call has it
	Refusal *Refusal `json:"refusal,omitempty"` // why nothing ran
	Outcome Outcome  `json:"outcome,omitzero"`  // how what ran has ended

	Exit    Exit   `json:"exit,omitzero"`     // how the program ended
	Stdout  Stream `json:"stdout,omitzero"`   // of the program
	Stderr  Stream `json:"stderr,omitzero"`   // of the program
	Outputs []File `json:"outputs,omitempty"` // files that were asked for and are there
	Missing []Miss `json:"missing,omitempty"` // outputs that were asked for and not taken

	Changes   *Changes      `json:"changes,omitempty"`   // of the call's tree
	Workspace *WorkspaceUse `json:"workspace,omitempty"` // of the call's workspace

	Events []Event `json:"events,omitempty"` // ceilings that were met, whether or not they ended the call, and signs of a try to get out of the cell

	Egress  *Egress  `json:"egress,omitempty"`  // what it tried to reach; nil where it had no network
	Fetched *Fetched `json:"fetched,omitempty"` // the answer to a fetch

	// Masked is how many times a value of a credential was masked in what
	// came out, by the name of its entry; what was masked on the way in from
	// a host is in Egress.
	Masked map[string]int64 `json:"masked,omitempty"`

	Level    Level    `json:"level,omitzero"`     // at which it ran; never auto
	Why      []string `json:"why,omitempty"`      // reasons for and against the levels
	Warnings []string `json:"warnings,omitempty"` // what of the envelope widens the surface

	Image          string    `json:"image,omitempty"`          // of the root, sha256:HEX; empty for the host's own slice
	Envelope       *Envelope `json:"envelope,omitempty"`       // as it was in force, without what the operator alone sees
	EnvelopeDigest string    `json:"envelopeDigest,omitempty"` // of the envelope in force, sources included, sha256:HEX
	EnforcedDigest string    `json:"enforcedDigest,omitempty"` // of what was enforced: spec, filter, mounts

	Usage    Usage    `json:"usage,omitzero"`     // what it used
	Teardown *Report  `json:"teardown,omitempty"` // what of it was looked for when it was destroyed
	Receipt  *Receipt `json:"receipt,omitempty"`  // to hold against the audit log later
}

// Ran reports whether something of the call may have run: it was not refused.
func (r *Result) Ran() bool { return r.Refusal == nil }

// OK reports whether the program exited by itself with code 0. Whether its
// output can be believed is another question.
func (r *Result) OK() bool { return r.Ran() && r.Outcome == OutcomeCompleted && r.Exit.Code == 0 }

// Refusal says that nothing ran, and why.
type Refusal struct {
	Reason  Reason `json:"reason"`          // its kind
	Message string `json:"message"`         // what is wrong
	Field   string `json:"field,omitempty"` // the field to mend, dotted
	Hint    string `json:"hint,omitempty"`  // how
	Retry   bool   `json:"retry"`           // whether trying again can help
	// RetryAfter is the time before which trying again cannot help; 0: nobody
	// knows.
	RetryAfter Duration `json:"retryAfter,omitzero"`
}

// Error implements error, so that a step can return a refusal as what it is.
func (r *Refusal) Error() string {
	text := r.Reason.String() + ": "
	if r.Field != "" {
		text += r.Field + ": "
	}
	return text + r.Message
}

// Exit is how the program ended. Code and Signal are apart, and each says who
// read it.
type Exit struct {
	Code   int    `json:"code"`             // -1 where a signal ended it or nobody knows
	Signal string `json:"signal,omitempty"` // SIGKILL
	Cause  string `json:"cause,omitempty"`  // what made us end it: wall, memory, output, cancel
	Source string `json:"source,omitempty"` // who says so: host (the host's kernel or launcher has read it) or guest (reported from inside)
}

// Stream is what was kept of stdout or stderr: head and tail, at most
// resources.output.keep bytes together.
type Stream struct {
	Head      Data  `json:"head"`           // the first bytes: all, or half of what is kept of them
	Tail      Data  `json:"tail,omitempty"` // the last ones; set only where the stream is truncated
	Total     int64 `json:"total"`          // bytes that were written
	Truncated bool  `json:"truncated"`      // whether bytes between the two are left out
}

// Miss is an output that was asked for and not taken.
type Miss struct {
	Name string `json:"name"` // as it was asked for
	Why  string `json:"why"`  // "not there", "not a regular file", "over the cap of 32Mi", ...
}

// Event is a ceiling that was met, or the sign of a try to get out of the cell.
type Event struct {
	Kind   string `json:"kind"`             // the word of the outcome that the ceiling would be: memory, processes, disk, ...; or a sign: address, syscall, guest, output, tree
	Count  int64  `json:"count"`            // how often
	Source string `json:"source"`           // who saw it: host or guest
	Detail string `json:"detail,omitempty"` // more of it, in words
}

// Usage is what the call used, read by the host where Exit.Source is host.
type Usage struct {
	Wall       time.Duration `json:"wallNs"`       // of the program
	Setup      time.Duration `json:"setupNs"`      // from the call to the program's first instruction
	Total      time.Duration `json:"totalNs"`      // of the whole call, teardown included
	CPU        time.Duration `json:"cpuNs"`        // user and system, of every process of the cell
	MemoryPeak int64         `json:"memoryPeak"`   // bytes, of the whole cell; -1 unknown
	PidsPeak   int64         `json:"pidsPeak"`     // -1 unknown
	Scratch    int64         `json:"scratchInUse"` // bytes at the end; -1 unknown

	ArgumentTokens int64 `json:"argumentTokens,omitempty"` // of what the model wrote, where the call was metered
	ResultTokens   int64 `json:"resultTokens,omitempty"`   // of what it reads, where the call was metered
}

// Report is the teardown report: what of the call was looked for, and found
// gone.
type Report struct {
	Complete bool    `json:"complete"` // whether all of it is gone
	Checks   []Check `json:"checks"`   // what was looked for
}

// Check is one line of a Report.
type Check struct {
	What string `json:"what"`           // processes, cgroup, mounts, files, uid, credentials
	Gone bool   `json:"gone"`           // whether it was found gone
	Note string `json:"note,omitempty"` // what is left, or why it is not known
}

// Receipt is what the caller can hold against the audit log later: the head of
// its chain when the row was completed, signed by the one who keeps the log.
type Receipt struct {
	Chain     string `json:"chain"`               // name of the log's chain
	Instance  string `json:"instance,omitempty"`  // that completed the row
	Seq       int64  `json:"seq"`                 // number of the event that completed the row
	Head      string `json:"head"`                // hash of the event that completed the row, HEX
	Key       string `json:"key,omitempty"`       // short name of the public key, HEX
	Signature string `json:"signature,omitempty"` // Ed25519, base64; "" where the log has no key
}
