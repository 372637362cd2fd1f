package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/callcell/callcell/envelope"
)

// ArgumentMode says what is kept of a call's arguments. The zero value is
// invalid, except in [Options], where it means ArgumentsKept.
type ArgumentMode uint8

// The modes, from most to least.
const (
	// ArgumentsKept keeps argv, the script's text or the address up to a cap, and a digest
	// of the whole.
	ArgumentsKept ArgumentMode = iota + 1
	// ArgumentsDigested keeps digests, sizes and names, no text. A digest
	// lets anybody who guesses the text confirm it.
	ArgumentsDigested
	// ArgumentsDropped keeps sizes and numbers only: no text, no name, no
	// digest.
	ArgumentsDropped
)

// String returns the mode's word.
func (m ArgumentMode) String() string {
	switch m {
	case ArgumentsKept:
		return "kept"
	case ArgumentsDigested:
		return "digested"
	case ArgumentsDropped:
		return "dropped"
	}
	return "invalid"
}

// The caps of kept argument bytes: argv and the script's text together.
const (
	DefaultKeep = 64 << 10
	MaxKeep     = 128 << 10
)

// maxNeeds bounds the declared needs of a call that was not valid.
const maxNeeds = 32

// argCost is what an element of argv counts against the cap beside its bytes.
const argCost = 8

// heldMode is the mode of arguments that are recorded with the ending: they
// may have secrets in them that are not known yet.
const heldMode = "held"

// Arguments is what is kept of what a call was given.
type Arguments struct {
	Mode      string        `json:"mode"`                // kept, digested, dropped, or held: the ending has them
	Argv      []string      `json:"argv,omitempty"`      // a program and its arguments
	Lang      string        `json:"lang,omitempty"`      // of a script
	Code      string        `json:"code,omitempty"`      // of a script
	URL       string        `json:"url,omitempty"`       // of a fetch
	Bytes     int64         `json:"bytes"`               // of argv, of the script's text or of the address
	SHA256    string        `json:"sha256,omitempty"`    // of all of them
	Truncated bool          `json:"truncated,omitempty"` // whether argv or code is only a beginning
	Lossy     bool          `json:"lossy,omitempty"`     // whether what is kept was not UTF-8 and is not exact
	Env       []Secret      `json:"env,omitempty"`       // variables, without their values
	Stdin     *Blob         `json:"stdin,omitempty"`     // of its standard input
	Inputs    []Blob        `json:"inputs,omitempty"`    // files that went in
	Tree      *Tree         `json:"tree,omitempty"`      // that went in
	Workspace *Workspace    `json:"workspace,omitempty"` // that was named
	Outputs   []string      `json:"outputs,omitempty"`   // names that are asked for
	Needs     []string      `json:"needs,omitempty"`     // that the call declared
	Counts    *ArgumentSums `json:"counts,omitempty"`    // where names are dropped
	cut       []Cut
}

// ArgumentSums are the numbers that stay where names are dropped.
type ArgumentSums struct {
	Argv       int   `json:"argv"`       // arguments
	Env        int   `json:"env"`        // variables
	Inputs     int   `json:"inputs"`     // files that went in
	Outputs    int   `json:"outputs"`    // names that were asked for
	InputBytes int64 `json:"inputBytes"` // of the files
}

// Secret is an environment variable of the call: never its value. SHA256 is
// salted with the call's id and the name, so that equal values in two rows do
// not show; whoever has the value can still prove it was this one, and whoever
// can guess it, too.
type Secret struct {
	Name   string `json:"name"`             // of the variable
	Bytes  int64  `json:"bytes"`            // of its value
	SHA256 string `json:"sha256,omitempty"` // of its value
}

// Blob is data that is not kept: its size, and the plain SHA-256 of its
// bytes.
type Blob struct {
	Name   string `json:"name,omitempty"`   // of the file; "" where it is none
	Bytes  int64  `json:"bytes"`            // of it
	SHA256 string `json:"sha256,omitempty"` // of its bytes
}

// argumentsOf reduces the arguments of a call by the log's mode. Contents are
// digested only where they are about to run: a refused call may be large, and
// many.
func (l *scribe) argumentsOf(id string, call *envelope.Call, digest bool) (*Arguments, error) {
	a := &Arguments{Mode: l.mode.String(), Bytes: argumentBytes(call)}
	for _, need := range call.Needs[:min(len(call.Needs), maxNeeds)] {
		a.Needs = append(a.Needs, need.String())
	}
	if l.mode == ArgumentsDropped {
		a.Counts, a.Tree = sumsOf(call), treeOf(call.Tree, false)
		return a, nil
	}
	a.SHA256 = digestArguments(call)
	return a, l.list(a, id, call, digest)
}

// held is what is recorded of arguments whose texts come with the ending.
func (l *scribe) held(call *envelope.Call) *Arguments {
	a := &Arguments{Mode: heldMode, Bytes: argumentBytes(call), Counts: sumsOf(call)}
	if l.mode == ArgumentsDropped {
		a.Mode = l.mode.String()
	} else {
		a.SHA256 = digestArguments(call)
	}
	return a
}

// said is what an ending records of arguments that its intent has held back.
// The digest of the whole is the intent's: this call's secrets are masked.
func (l *scribe) said(id string, call *envelope.Call) (*Arguments, error) {
	if call == nil || l.mode == ArgumentsDropped {
		return nil, nil
	}
	a := &Arguments{Mode: l.mode.String(), Bytes: argumentBytes(call)}
	return a, l.list(a, id, call, true)
}

// list adds the texts and names of a call, as far as the mode keeps them.
func (l *scribe) list(a *Arguments, id string, call *envelope.Call, digest bool) error {
	a.Tree, a.Workspace = treeOf(call.Tree, digest), workspaceOf(call.Workspace)
	if l.mode == ArgumentsKept {
		l.keepText(a, call)
	}
	if len(call.Stdin) > 0 {
		stdin := blobOf("", call.Stdin, digest)
		a.Stdin = &stdin
	}
	var errs [3]error
	env := make([]Secret, 0, len(call.Env))
	for _, name := range sortedNames(call.Env) {
		env = append(env, secretOf(id, name, call.Env[name]))
	}
	a.Env, errs[0] = fit(env, func(s Secret) Secret { return s }, "arguments.env", &a.cut)
	inputs := make([]Blob, 0, len(call.Inputs))
	for _, f := range call.Inputs {
		inputs = append(inputs, fileOf(l.text(f.Name), &f, digest))
	}
	a.Inputs, errs[1] = fit(inputs, func(b Blob) Blob { return b }, "arguments.inputs", &a.cut)
	a.Outputs, errs[2] = fit(call.Outputs, l.text, "arguments.outputs", &a.cut)
	return errors.Join(errs[:]...)
}

// keepText keeps argv or the script up to the cap.
func (l *scribe) keepText(a *Arguments, call *envelope.Call) {
	left := l.keep
	for _, arg := range call.Argv {
		if left <= argCost {
			a.Truncated = true
			break
		}
		kept := l.keepOne(a, arg, left-argCost)
		a.Argv = append(a.Argv, kept)
		left -= len(kept) + argCost
	}
	if call.Script != nil {
		a.Lang = clean(call.Script.Lang, maxText)
		a.Code = l.keepOne(a, call.Script.Code, left)
	}
	if call.Fetch != nil {
		a.URL = l.keepOne(a, call.Fetch.URL, left)
	}
}

func (l *scribe) keepOne(a *Arguments, text string, most int) string {
	if !utf8.ValidString(text) {
		a.Lossy = true
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	text = l.redact(text)
	if cut := cutText(text, most); len(cut) < len(text) {
		a.Truncated = true
		text = cut
	}
	return text
}

func argumentBytes(call *envelope.Call) int64 {
	var n int64
	for _, arg := range call.Argv {
		n += int64(len(arg))
	}
	if call.Script != nil {
		n += int64(len(call.Script.Code))
	}
	if call.Fetch != nil {
		n += int64(len(call.Fetch.URL))
	}
	return n
}

func sumsOf(call *envelope.Call) *ArgumentSums {
	s := &ArgumentSums{Argv: len(call.Argv), Env: len(call.Env), Inputs: len(call.Inputs), Outputs: len(call.Outputs)}
	for _, f := range call.Inputs {
		s.InputBytes += int64(len(f.Data))
	}
	return s
}

// digestArguments is the SHA-256 of "callcell.audit.arguments.v1", a NUL, the
// number of argv's elements and each of them, and, where there is a script,
// its language and text, or the address of a fetch. Numbers and lengths are 8
// bytes, big-endian.
func digestArguments(call *envelope.Call) string {
	h := sha256.New()
	b := []byte("callcell.audit.arguments.v1\x00")
	b = binary.BigEndian.AppendUint64(b, uint64(len(call.Argv)))
	for _, arg := range call.Argv {
		b = appendText(b, arg)
		h.Write(b)
		b = b[:0]
	}
	if call.Script != nil {
		b = appendText(appendText(b, call.Script.Lang), call.Script.Code)
	}
	if call.Fetch != nil {
		b = appendText(appendText(b, "fetch"), call.Fetch.URL)
	}
	h.Write(b)
	return digestText(h.Sum(nil))
}

func secretOf(id, name, value string) Secret {
	b := appendText(appendText(appendText([]byte("callcell.audit.env.v1\x00"), id), name), value)
	sum := sha256.Sum256(b)
	return Secret{Name: clean(name, maxText), Bytes: int64(len(value)), SHA256: digestText(sum[:])}
}

func blobOf(name string, data []byte, digest bool) Blob {
	b := Blob{Name: name, Bytes: int64(len(data))}
	if digest {
		sum := sha256.Sum256(data)
		b.SHA256 = digestText(sum[:])
	}
	return b
}

// fileOf is what is kept of a file, whose bytes may be in a blob.
func fileOf(name string, f *envelope.File, digest bool) Blob {
	if f.Blob != "" {
		return Blob{Name: name, Bytes: f.Size, SHA256: clean(f.Blob, maxName)}
	}
	return blobOf(name, f.Data, digest)
}

func digestText(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

func sortedNames(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
