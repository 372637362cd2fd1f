package audit

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/callcell/callcell/envelope"
)

// Intent is what is known of a call before it runs. What the call points to
// is only read, and only until the method that takes it returns.
type Intent struct {
	ID             string             // UUIDv7, see NewID
	Caller         string             // who asks: the key, or the local user
	Team           string             // whose key it is; "" where there are no teams
	Call           *envelope.Call     // may be nil in a refusal
	Envelope       *envelope.Envelope // as in force; may be nil in a refusal
	EnvelopeText   json.RawMessage    // of Envelope, by EncodeEnvelope; nil: it is made here
	EnvelopeDigest string             // of Envelope, sha256:HEX
	ImageDigest    string             // of the root, sha256:HEX; may be empty
	Level          envelope.Level     // that was chosen; may be zero in a refusal
	Why            []string           // reasons for and against the levels
	Warnings       []string
	// Trace is somebody else's trace that the call belongs to, 32 HEX digits; ""
	// is none.
	Trace string
	// Hold keeps every text of the arguments out of the record: the call's
	// secrets are not known yet, and may be in them. The ending has what is
	// kept, as Said.
	Hold bool
	// Redact takes this call's secrets out of a text, beside Options.Redact.
	// nil: there are none.
	Redact func(string) string
}

// IntentOf gathers an Intent.
func IntentOf(id, caller string, call *envelope.Call, env *envelope.Envelope,
	level envelope.Level, why, warnings []string) Intent {
	return Intent{ID: id, Caller: caller, Call: call, Envelope: env, Level: level, Why: why, Warnings: warnings}
}

// IntentRecord is the body of an intent.
type IntentRecord struct {
	Task           string          `json:"task,omitempty"`           // as the caller names it
	Trace          string          `json:"trace,omitempty"`          // the caller's, of W3C Trace Context
	Caller         string          `json:"caller,omitempty"`         // who asked
	Team           string          `json:"team,omitempty"`           // whose key it was
	Tool           string          `json:"tool,omitempty"`           // as the caller calls it
	Profile        string          `json:"profile,omitempty"`        // that was named; "" is the default one
	Image          string          `json:"image,omitempty"`          // of the cell
	ImageDigest    string          `json:"imageDigest,omitempty"`    // of the root, sha256:HEX
	Level          envelope.Level  `json:"level,omitzero"`           // that was chosen
	Why            []string        `json:"why,omitempty"`            // reasons for and against the levels
	Warnings       []string        `json:"warnings,omitempty"`       // what of the envelope widens the surface
	Envelope       json.RawMessage `json:"envelope,omitempty"`       // that was in force
	EnvelopeDigest string          `json:"envelopeDigest,omitempty"` // of it, its sources included, sha256:HEX
	Arguments      *Arguments      `json:"arguments,omitempty"`      // what was to be done, as far as the log keeps it
	Cut            []Cut           `json:"cut,omitempty"`            // what the record leaves out
}

// intentRecord makes the record of in.
func (l *scribe) intentRecord(in *Intent, args *Arguments) (r *IntentRecord, err error) {
	r = &IntentRecord{Trace: clean(in.Trace, maxName), Caller: clean(in.Caller, maxName), Team: clean(in.Team, maxName), Level: in.Level,
		EnvelopeDigest: clean(in.EnvelopeDigest, maxName), ImageDigest: clean(in.ImageDigest, maxName)}
	if c := in.Call; c != nil {
		r.Task, r.Tool, r.Profile = clean(c.Task, maxName), clean(c.Tool, maxName), clean(c.Profile, maxName)
	}
	if r.Why, err = fit(in.Why, l.text, "why", &r.Cut); err != nil {
		return nil, err
	}
	if r.Warnings, err = fit(in.Warnings, l.text, "warnings", &r.Cut); err != nil {
		return nil, err
	}
	if in.Envelope != nil {
		if err := r.envelope(in.Envelope, in.EnvelopeText); err != nil {
			return nil, err
		}
	}
	if args != nil {
		r.Arguments = args
		r.Cut = append(r.Cut, args.cut...)
	}
	return r, nil
}

// EncodeEnvelope returns an envelope as a row has it. An error wraps ErrInvalid.
func EncodeEnvelope(env *envelope.Envelope) (json.RawMessage, error) { return encode(env) }

// envelope keeps the envelope, or its digest where it is large.
func (r *IntentRecord) envelope(env *envelope.Envelope, text json.RawMessage) (err error) {
	if text == nil {
		if text, err = encode(env); err != nil {
			return fmt.Errorf("envelope: %w", err)
		}
	}
	r.Image = clean(env.Image, maxName)
	if len(text) <= maxEnvelope {
		r.Envelope = text
		return nil
	}
	sum := sha256.Sum256(append(slices.Clip(text), '\n'))
	r.Cut = append(r.Cut, Cut{List: "envelope", More: 1, SHA256: digestText(sum[:])})
	return nil
}

// Refused is a call that is refused. Where it comes after an intent, the
// intent's fields but ID are not looked at: the record refers to it.
type Refused struct {
	Intent
	Refusal  envelope.Refusal
	Teardown *envelope.Report // of what had been built, if anything had
	Said     *envelope.Call   // as in Ending
}

// RefusedRecord is the body of a refusal. After an intent it says which, and
// repeats nothing of it; of IntentRecord it has at most the arguments that the
// intent held back.
type RefusedRecord struct {
	IntentRecord
	After    int64            `json:"after,omitempty"`    // sequence number of the intent; 0: there is none
	Refusal  envelope.Refusal `json:"refusal"`            // why nothing ran
	Teardown *envelope.Report `json:"teardown,omitempty"` // of what had been built, if anything had
}

func (l *scribe) refusedRecord(ref *Refused, after int64, args *Arguments) (*RefusedRecord, error) {
	in := &IntentRecord{}
	var err error
	if after == 0 {
		in, err = l.intentRecord(&ref.Intent, args)
	} else if args != nil {
		in.Arguments, in.Cut = args, args.cut
	}
	if err != nil {
		return nil, err
	}
	r := &RefusedRecord{IntentRecord: *in, After: after, Refusal: ref.Refusal}
	r.Refusal.Message = l.text(r.Refusal.Message)
	r.Refusal.Field = l.text(r.Refusal.Field)
	r.Refusal.Hint = l.text(r.Refusal.Hint)
	r.Teardown, err = l.report(ref.Teardown, &r.Cut)
	return r, err
}

// Ending is how a call that ran has ended, and the body of an outcome.
type Ending struct {
	ID             string                 `json:"-"`
	Outcome        envelope.Outcome       `json:"outcome"`                  // how it ended
	Exit           envelope.Exit          `json:"exit"`                     // how the program ended
	Events         []envelope.Event       `json:"events,omitempty"`         // ceilings that were met
	Usage          envelope.Usage         `json:"usage"`                    // what it used
	Stdout         Output                 `json:"stdout"`                   // of the program
	Stderr         Output                 `json:"stderr"`                   // of the program
	Outputs        []Blob                 `json:"outputs,omitempty"`        // files that were collected
	Missing        []envelope.Miss        `json:"missing,omitempty"`        // outputs that were asked for and not taken
	Changes        *Changes               `json:"changes,omitempty"`        // what became of its tree
	Workspace      *envelope.WorkspaceUse `json:"workspace,omitempty"`      // what became of its workspace
	Egress         *envelope.Egress       `json:"egress,omitempty"`         // what it tried to reach
	Fetched        *Fetched               `json:"fetched,omitempty"`        // what a fetch got
	Masked         map[string]int64       `json:"masked,omitempty"`         // values of credentials in what came out
	Warnings       []string               `json:"warnings,omitempty"`       // that the intent did not have
	EnforcedDigest string                 `json:"enforcedDigest,omitempty"` // of what was enforced: spec, filter, mounts
	Teardown       *envelope.Report       `json:"teardown,omitempty"`       // what was looked for when it was destroyed
	// Arguments are those that the intent held back, made of Said.
	Arguments *Arguments `json:"arguments,omitempty"`
	Cut       []Cut      `json:"cut,omitempty"` // what the record leaves out

	// Said is the call, its secrets masked, where the intent had Hold.
	Said *envelope.Call `json:"-"`
	// Redact is as in Intent.
	Redact func(string) string `json:"-"`
}

// Fetched is what is recorded of a fetch's answer: never the bytes.
type Fetched struct {
	envelope.Fetched        // without Body
	Answer           Output `json:"answer"` // of its body
}

// Output is what is recorded of stdout or stderr: never the bytes.
type Output struct {
	Total     int64  `json:"total"`               // bytes that were written
	Kept      int64  `json:"kept"`                // bytes that the caller got
	Truncated bool   `json:"truncated,omitempty"` // whether bytes were left out
	SHA256    string `json:"sha256,omitempty"`    // of the kept bytes, head and tail together; "" where there are none
}

// EndingOf makes an Ending of a result whose Outcome is set. It digests the
// kept output and the output files.
func EndingOf(res *envelope.Result) Ending {
	e := Ending{
		ID: res.ID, Outcome: res.Outcome, Exit: res.Exit, Events: res.Events, Usage: res.Usage,
		Stdout: outputOf(&res.Stdout), Stderr: outputOf(&res.Stderr), Missing: res.Missing,
		EnforcedDigest: res.EnforcedDigest, Teardown: res.Teardown, Egress: res.Egress, Masked: res.Masked,
		Changes: changesOf(res.Changes), Workspace: res.Workspace,
	}
	if res.Fetched != nil {
		e.Fetched = &Fetched{Fetched: *res.Fetched, Answer: outputOf(&envelope.Stream{
			Head: res.Fetched.Body, Total: res.Fetched.Bytes, Truncated: res.Fetched.Cut,
		})}
		e.Fetched.Body = nil
	}
	for _, f := range res.Outputs {
		e.Outputs = append(e.Outputs, fileOf(f.Name, &f, true))
	}
	return e
}

func outputOf(s *envelope.Stream) Output {
	o := Output{Total: s.Total, Kept: int64(len(s.Head) + len(s.Tail)), Truncated: s.Truncated}
	if o.Kept > 0 {
		h := sha256.New()
		h.Write(s.Head)
		h.Write(s.Tail)
		o.SHA256 = digestText(h.Sum(nil))
	}
	return o
}

// endingRecord makes e fit for a body.
func (l *scribe) endingRecord(e *Ending) (*Ending, error) {
	r := *e
	r.Cut, r.Said, r.Redact = nil, nil, nil
	r.Exit.Signal, r.Exit.Cause, r.Exit.Source = l.text(e.Exit.Signal), l.text(e.Exit.Cause), l.text(e.Exit.Source)
	r.EnforcedDigest = clean(e.EnforcedDigest, maxName)
	var errs [9]error
	r.Changes, errs[7] = l.changes(e.Changes, &r.Cut)
	r.Workspace = l.workspace(e.Workspace)
	if r.Arguments, errs[8] = l.said(e.ID, e.Said); r.Arguments != nil {
		r.Cut = append(r.Cut, r.Arguments.cut...)
	}
	r.Egress, errs[5] = l.egress(e.Egress, &r.Cut)
	r.Fetched, errs[6] = l.fetched(e.Fetched, &r.Cut)
	r.Warnings, errs[0] = fit(e.Warnings, l.text, "warnings", &r.Cut)
	r.Events, errs[1] = fit(e.Events, func(v envelope.Event) envelope.Event {
		v.Kind, v.Source, v.Detail = l.text(v.Kind), l.text(v.Source), l.text(v.Detail)
		return v
	}, "events", &r.Cut)
	r.Outputs, errs[2] = fit(e.Outputs, func(v Blob) Blob {
		v.Name, v.SHA256 = l.text(v.Name), clean(v.SHA256, maxName)
		return v
	}, "outputs", &r.Cut)
	r.Missing, errs[3] = fit(e.Missing, func(v envelope.Miss) envelope.Miss {
		v.Name, v.Why = l.text(v.Name), l.text(v.Why)
		return v
	}, "missing", &r.Cut)
	r.Teardown, errs[4] = l.report(e.Teardown, &r.Cut)
	return &r, errors.Join(errs[:]...)
}

func (l *scribe) report(rep *envelope.Report, cuts *[]Cut) (*envelope.Report, error) {
	if rep == nil {
		return nil, nil
	}
	checks, err := fit(rep.Checks, func(c envelope.Check) envelope.Check {
		c.What, c.Note = l.text(c.What), l.text(c.Note)
		return c
	}, "teardown.checks", cuts)
	return &envelope.Report{Complete: rep.Complete, Checks: checks}, err
}

// egress makes what a call tried to reach fit for a body: the names in it are
// the program's words.
func (l *scribe) egress(seen *envelope.Egress, cuts *[]Cut) (*envelope.Egress, error) {
	if seen == nil {
		return nil, nil
	}
	r := *seen
	var err error
	r.Attempts, err = fit(seen.Attempts, func(a envelope.Attempt) envelope.Attempt {
		for _, text := range []*string{&a.Host, &a.Protocol, &a.Why, &a.Address, &a.Blocked, &a.Unchecked} {
			*text = clean(l.redact(*text), maxName)
		}
		return a
	}, "egress.attempts", cuts)
	return &r, err
}

func (l *scribe) fetched(f *Fetched, cuts *[]Cut) (*Fetched, error) {
	if f == nil {
		return nil, nil
	}
	r := *f
	r.Body = nil
	for _, text := range []*string{&r.URL, &r.Type, &r.Charset, &r.Title, &r.Failure} {
		*text = l.text(*text)
	}
	var err error
	r.Hops, err = fit(f.Hops, l.text, "fetched.hops", cuts)
	return &r, err
}
