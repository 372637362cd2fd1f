package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/credential"
	"github.com/callcell/callcell/internal/credential/redact"
	"github.com/callcell/callcell/internal/credential/secret"
)

// Credentials issues the secrets of calls. It is called concurrently.
// *credential.Issuer is one.
type Credentials interface {
	// Check says whether this host has every source, without asking it. An
	// error is a *credential.Error.
	Check(creds map[string]envelope.Credential) error
	// Issue gets all secrets of a call, or none. An error is a
	// *credential.Error.
	Issue(ctx context.Context, call string, creds map[string]envelope.Credential) (*credential.Lease, error)
}

// Held is a credential that a call uses and is not given.
type Held struct {
	Name   string
	Use    envelope.CredentialUse
	Secret secret.Secret
}

// issuable refuses what no source of this host has.
func (b *Broker) issuable(f *flight) error {
	if len(f.env.Credentials) == 0 {
		return nil
	}
	if b.credentials == nil {
		return &envelope.Refusal{Reason: envelope.ReasonUnsupported, Field: "credentials",
			Message: "there are no sources of credentials on this host", Hint: "leave the credentials out"}
	}
	return credentialRefusal(b.credentials.Check(f.env.Credentials))
}

func credentialRefusal(err error) error {
	var fault *credential.Error
	if errors.As(err, &fault) {
		return fault.Refusal()
	}
	return err
}

// issue gets the call's secrets and hands them to where they are used. It is
// the bottom of the undo stack: they are taken back last.
func (b *Broker) issue(ctx context.Context, f *flight) error {
	if len(f.env.Credentials) == 0 {
		return nil
	}
	span := f.trace.Begin(f.step, "issue")
	lease, err := b.credentials.Issue(ctx, f.result.ID, f.env.Credentials)
	span.End(err != nil)
	if err != nil {
		return credentialRefusal(err)
	}
	f.creds = lease
	f.undo.Add("credentials", f.revoke)
	for _, name := range lease.Names() {
		if err := f.give(name, f.env.Credentials[name].Use); err != nil {
			return err
		}
	}
	for _, text := range lease.Warnings() {
		f.warn(text)
	}
	f.redactStreams(lease.Redactor())
	f.said = withoutSecrets(f.call, lease.Redactor())
	for _, v := range lease.Values() {
		if f.env.Credentials[v.Name].Use.Header == "" {
			f.mask.values = append(f.mask.values, v)
		}
	}
	return nil
}

// give puts one secret where its use says. A fetch runs no program: it gets
// none but by the edge.
func (f *flight) give(name string, use envelope.CredentialUse) error {
	value, err := f.creds.Secret(name)
	if err != nil {
		return fmt.Errorf("credentials.%s: %w", name, err)
	}
	if use.Header != "" {
		f.held = append(f.held, Held{Name: name, Use: use, Secret: value})
		return nil
	}
	if f.call.Fetch != nil {
		return nil
	}
	there := value.Reveal(func(text []byte) {
		if use.File {
			f.cmd.Run = append(f.cmd.Run, cell.RunFile{Name: "credentials/" + name, Data: append([]byte(nil), text...), Mode: 0o400})
		} else {
			f.setenv(use.Env, string(text))
		}
	})
	if !there {
		return fmt.Errorf("credentials.%s: %w", name, credential.ErrRevoked)
	}
	return nil
}

// A mask is the redactor of one call, and what it counted.
type mask struct {
	redactor *redact.Redactor
	values   []redact.Value // those that the program was given
	counts   redact.Counts
	streams  []*redact.Writer
}

// redactStreams puts the redactor before what keeps the program's output.
func (f *flight) redactStreams(r *redact.Redactor) {
	f.mask = &mask{redactor: r, counts: redact.Counts{}}
	for _, stream := range []*io.Writer{&f.cmd.Stdout, &f.cmd.Stderr} {
		if *stream != nil {
			w := r.Writer(*stream)
			f.mask.streams = append(f.mask.streams, w)
			*stream = w
		}
	}
}

// withoutSecrets is a call as its row may show it: the values are masked in
// every text. What a row only digests stays as it is.
func withoutSecrets(call *envelope.Call, r *redact.Redactor) *envelope.Call {
	said := *call
	text := func(s string) string {
		out, _ := r.String(s)
		return out
	}
	said.Argv = slices.Clone(call.Argv)
	for i := range said.Argv {
		said.Argv[i] = text(said.Argv[i])
	}
	if call.Script != nil {
		script := *call.Script
		script.Code = text(script.Code)
		said.Script = &script
	}
	if call.Fetch != nil {
		fetch := *call.Fetch
		fetch.URL = text(fetch.URL)
		said.Fetch = &fetch
	}
	said.Inputs, said.Outputs = slices.Clone(call.Inputs), slices.Clone(call.Outputs)
	for i := range said.Inputs {
		said.Inputs[i].Name = text(said.Inputs[i].Name)
	}
	for i := range said.Outputs {
		said.Outputs[i] = text(said.Outputs[i])
	}
	return &said
}

// flush writes the last of the streams, after which nothing writes to them.
func (m *mask) flush() {
	if m == nil {
		return
	}
	for _, w := range m.streams {
		_ = w.Close() // what it writes to has refused, and said why
		m.counts.Add(w.Counts())
	}
	m.streams = nil
}

// bytes and text mask what did not come by a stream.
func (m *mask) bytes(b []byte) []byte {
	if m == nil {
		return b
	}
	out, counts := m.redactor.Bytes(b)
	m.counts.Add(counts)
	return out
}

func (m *mask) text(s *string) {
	if m == nil {
		return
	}
	out, counts := m.redactor.String(*s)
	m.counts.Add(counts)
	*s = out
}

// files masks the contents of outputs. A file whose name has a secret in it
// is not handed on.
func (m *mask) files(files []envelope.File, misses []envelope.Miss) ([]envelope.File, []envelope.Miss) {
	if m == nil {
		return files, misses
	}
	kept := files[:0]
	for _, f := range files {
		name := f.Name
		if m.text(&name); name != f.Name {
			misses = append(misses, envelope.Miss{Name: name, Why: "its name has a credential in it"})
			continue
		}
		f.Data = m.bytes(f.Data)
		kept = append(kept, f)
	}
	for i := range misses {
		m.text(&misses[i].Name)
	}
	return kept, misses
}

// fetched masks what was fetched.
func (m *mask) fetched(f *envelope.Fetched) {
	if m == nil {
		return
	}
	f.Body = m.bytes(f.Body)
	for _, text := range []*string{&f.URL, &f.Title, &f.Type, &f.Failure} {
		m.text(text)
	}
	for i := range f.Hops {
		m.text(&f.Hops[i])
	}
}

// egress masks what was tried: names are the program's words. They come in
// lower case and cut, so that a piece of a value is enough.
func (m *mask) egress(e *envelope.Egress) {
	if m == nil {
		return
	}
	for i := range e.Attempts {
		a := &e.Attempts[i]
		for _, text := range []*string{&a.Host, &a.Why} {
			m.text(text)
			if name := m.pieceIn(*text); name != "" {
				*text = "[redacted:" + name + "]"
				m.counts[name]++
			}
		}
	}
}

// pieceLength is how many characters of a value, in either case, are a piece;
// they are looked for in its first pieceRoom bytes.
const (
	pieceLength = 8
	pieceRoom   = 1024
)

// pieceIn returns the name of a value of which text has a piece, or "".
func (m *mask) pieceIn(text string) (name string) {
	lower := []byte(strings.ToLower(text))
	for _, v := range m.values {
		v.Secret.Reveal(func(value []byte) {
			if hasPiece(lower, value[:min(len(value), pieceRoom)]) {
				name = v.Name
			}
		})
	}
	return name
}

// hasPiece reports whether text, in lower case, has pieceLength bytes of value
// in a row, or all of a shorter one. It keeps no copy of value.
func hasPiece(text, value []byte) bool {
	n := min(len(value), pieceLength)
	for at := 0; at+n <= len(text); at++ {
		for from := 0; from+n <= len(value); from++ {
			if sameFold(text[at:at+n], value[from:from+n]) {
				return true
			}
		}
	}
	return false
}

// sameFold reports whether lower is value in lower case, of ASCII.
func sameFold(lower, value []byte) bool {
	for i, c := range value {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if lower[i] != c {
			return false
		}
	}
	return true
}

// maskWords masks what we ourselves say of the call: an error's text can repeat
// an argument.
func (f *flight) maskWords() {
	if f.mask == nil {
		return
	}
	text := func(s string) string {
		out, _ := f.mask.redactor.String(s)
		return out
	}
	all := func(list []string) []string {
		list = slices.Clone(list)
		for i := range list {
			list[i] = text(list[i])
		}
		return list
	}
	f.late, f.result.Warnings = all(f.late), all(f.result.Warnings)
	if r := f.result.Refusal; r != nil {
		said := *r
		said.Message, said.Field, said.Hint = text(r.Message), text(r.Field), text(r.Hint)
		f.result.Refusal = &said
	}
}

// revoke ends the call's credentials and overwrites what we had of them.
func (f *flight) revoke(ctx context.Context) error {
	for _, file := range f.cmd.Run {
		if file.Mode == 0o400 {
			clear(file.Data)
		}
	}
	f.maskWords()
	if f.mask != nil && f.mask.counts.Total() > 0 {
		f.result.Masked = map[string]int64{}
		for name, n := range f.mask.counts {
			f.result.Masked[name] = int64(n)
		}
	}
	check := f.creds.Revoke(ctx).Check()
	report := f.result.Teardown
	if report == nil {
		report = &envelope.Report{Complete: true}
	}
	f.result.Teardown = withCheck(report, &check)
	return nil
}
