package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Blobs keeps bytes for teams, which do not see each other's. It is called
// concurrently. An error wraps ErrNoBlob where the team keeps no such blob,
// whoever else does.
type Blobs interface {
	// Size returns how many bytes a blob of the team's has. A digest is
	// sha256:HEX.
	Size(ctx context.Context, team, digest string) (int64, error)
	// Get returns a blob of the team's, of at most max bytes.
	Get(ctx context.Context, team, digest string, max int64) ([]byte, error)
	// Keep keeps data for the team and returns the digests, in order. Without
	// an error all of it is durable.
	Keep(ctx context.Context, team string, data [][]byte) ([]string, error)
}

// shelveTime bounds the keeping of outputs.
const shelveTime = 60 * time.Second

// bring puts the bytes of blobs that the call names in their places. It comes
// when the call has its turn, so that nothing is held for calls that wait, and
// asks for sizes first: what the envelope has no room for is not read.
func (b *Broker) bring(ctx context.Context, f *flight) error {
	if (b.blobs == nil || f.who.Team == "") && (f.call.NamesBlobs() || f.call.InlineOutputs != nil) {
		return &envelope.Refusal{Reason: envelope.ReasonUnsupported, Field: "inputs", Message: "there are no blobs here, or the caller has no team that keeps any",
			Hint: "hand the bytes over in data, and leave inlineOutputs out"}
	}
	if !f.call.NamesBlobs() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	call := *f.call
	call.Inputs = slices.Clone(call.Inputs)
	lists := []named{{"inputs", call.Inputs}}
	if call.Tree != nil {
		call.Tree = call.Tree.Clone()
		lists = append(lists, named{"tree.files", call.Tree.Files})
	}
	if err := b.measure(ctx, f, lists); err != nil {
		return err
	}
	for _, l := range lists {
		if err := b.fillIn(ctx, f, l); err != nil {
			return err
		}
	}
	f.files = append(slices.Clip(call.Inputs), f.files[len(f.call.Inputs):]...)
	f.call = &call
	return errors.Join(f.call.Validate(), f.env.Admits(f.call), fits(&f.env, f.call))
}

// named are files of a call, and the field that they stand in.
type named struct {
	field string
	files []envelope.File
}

// measure asks how much there is to be read.
func (b *Broker) measure(ctx context.Context, f *flight, lists []named) error {
	var total envelope.Size
	for _, l := range lists {
		for i := range l.files {
			file := &l.files[i]
			if file.Blob == "" {
				continue
			}
			size, err := b.blobs.Size(ctx, f.who.Team, file.Blob)
			if err == nil && file.Size > 0 && file.Size != size {
				err = &envelope.FieldError{Reason: envelope.ReasonRequest, Field: fmt.Sprintf("%s[%d].size", l.field, i),
					Msg: fmt.Sprintf("the blob has %d bytes", size), Hint: "leave it out, or name the blob that was meant"}
			}
			if err != nil {
				return blobError(err, l.field, i, file.Blob)
			}
			file.Size = size
			if total += envelope.Size(size); total > f.env.Files.Scratch {
				return &envelope.FieldError{Reason: envelope.ReasonPolicy, Field: l.field,
					Msg: "have more than files.scratch, which is " + f.env.Files.Scratch.String(), Hint: "name less, or choose a profile with more scratch"}
			}
		}
	}
	return nil
}

// fillIn reads the blobs of a list of files, which are its own.
func (b *Broker) fillIn(ctx context.Context, f *flight, l named) error {
	for i := range l.files {
		file := &l.files[i]
		if file.Blob == "" {
			continue
		}
		data, err := b.blobs.Get(ctx, f.who.Team, file.Blob, file.Size)
		if err != nil {
			return blobError(err, l.field, i, file.Blob)
		}
		file.Data, file.Blob, file.Size = data, "", 0
	}
	return nil
}

// blobError is the refusal for a blob that cannot be had.
func blobError(err error, field string, i int, digest string) error {
	if !errors.Is(err, ErrNoBlob) {
		return err
	}
	return &envelope.Refusal{Reason: envelope.ReasonRequest, Field: fmt.Sprintf("%s[%d].blob", field, i),
		Message: "there is no blob " + digest, Hint: "put it first: POST /v1/blobs"}
}

// shelves reports whether outputs of the call may become blobs.
func (f *flight) shelves() bool {
	return f.call != nil && f.call.InlineOutputs != nil && len(f.result.Outputs) > 0
}

// shelve keeps the outputs that are too large for the result as blobs of the
// caller's team. Where they cannot be kept, the result says so.
func (b *Broker) shelve(ctx context.Context, f *flight) {
	ctx, cancel := detach(ctx, shelveTime)
	defer cancel()
	var large []int
	var data [][]byte
	for i, file := range f.result.Outputs {
		if envelope.Size(len(file.Data)) > *f.call.InlineOutputs {
			large, data = append(large, i), append(data, file.Data)
		}
	}
	if len(large) == 0 {
		return
	}
	var digests []string
	err := b.guard(f, "shelve", func() (err error) {
		digests, err = b.blobs.Keep(ctx, f.who.Team, data)
		return err
	})
	if err == nil && len(digests) != len(large) {
		err = errAssembly
	}
	if err != nil {
		f.unshelved(large, err)
		return
	}
	for k, i := range large {
		file := &f.result.Outputs[i]
		file.Data, file.Blob, file.Size = envelope.Data{}, digests[k], int64(len(data[k]))
	}
}

// unshelved takes outputs that could not be kept out of the result.
func (f *flight) unshelved(large []int, err error) {
	f.warn("outputs: they could not be kept as blobs: " + err.Error())
	kept := f.result.Outputs[:0]
	for i, file := range f.result.Outputs {
		if slices.Contains(large, i) {
			f.result.Missing = append(f.result.Missing, envelope.Miss{Name: file.Name, Why: "it could not be kept as a blob: " + err.Error()})
			continue
		}
		kept = append(kept, file)
	}
	f.result.Outputs = kept
}
