package httpapi

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"

	"github.com/callcell/callcell/envelope"
)

// callPart is the part of a form that is the call. Every other is a file of it.
const callPart = "call"

// The bounds of the head of a part.
const (
	maxPartFields = 16
	maxPartHead   = 16 << 10 // bytes: a name has 4096 at most, and a client writes it thrice as long
)

// A form is a body of multipart/form-data: a call and files for it. What it has
// points into one buffer, so that no byte of a file is held twice.
type form struct {
	call   []byte
	files  []envelope.File
	digest [32]byte // of what is in it, whatever stands between the parts
	buf    []byte
}

// errForm is a form that cannot be read as one.
var errForm = errors.New("httpapi: not a form of a call")

// readForm reads a form of at most size bytes to its end. The parts come in any
// order; the name of a part is the name of its file, and a part's file name and
// type say nothing. An error wraps errForm, or is body's; then there is no form.
func readForm(body io.Reader, boundary string, size int64) (*form, error) {
	f := &form{buf: make([]byte, 0, size)}
	names := map[string]bool{}
	for parts := multipart.NewReader(body, boundary); ; {
		p, err := parts.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, formError(err)
		}
		name, err := partName(p)
		switch {
		case err != nil:
			return nil, err
		case names[name]:
			return nil, fmt.Errorf("%w: a part has a name that is there already", errForm)
		case len(names) > envelope.MaxInputs:
			return nil, fmt.Errorf("%w: it has more than %d parts", errForm, envelope.MaxInputs+1)
		}
		names[name] = true
		data, err := f.take(p)
		if err != nil {
			return nil, formError(err)
		}
		if name == callPart {
			f.call = data
			continue
		}
		f.files = append(f.files, envelope.File{Name: name, Data: data})
	}
	if !names[callPart] {
		return nil, fmt.Errorf("%w: it has no part %s", errForm, callPart)
	}
	f.sum()
	return f, nil
}

// partName is the name of a part. What is read of its head is the name alone, so
// that there is not much in it.
func partName(p *multipart.Part) (string, error) {
	size := 0
	for field, values := range p.Header {
		for _, value := range values {
			size += len(field) + len(value)
		}
	}
	name := p.FormName()
	switch {
	case len(p.Header) > maxPartFields || size > maxPartHead:
		return "", fmt.Errorf("%w: the head of a part has more than %d fields, or %d bytes", errForm, maxPartFields, maxPartHead)
	case len(p.Header.Values("Content-Disposition")) > 1:
		return "", fmt.Errorf("%w: a part has two names", errForm)
	case name == "":
		return "", fmt.Errorf("%w: a part has no name", errForm)
	case p.Header.Get("Content-Transfer-Encoding") != "":
		return "", fmt.Errorf("%w: a part has a Content-Transfer-Encoding", errForm)
	}
	return name, nil
}

// formError tells a form that is malformed from a body that does not come.
func formError(err error) error {
	var large *http.MaxBytesError
	var slow interface{ Timeout() bool }
	if errors.As(err, &large) || errors.As(err, &slow) {
		return err
	}
	return fmt.Errorf("%w: %w", errForm, err)
}

// take reads one part into the buffer.
func (f *form) take(r io.Reader) ([]byte, error) {
	start := len(f.buf)
	for {
		room := f.buf[len(f.buf):cap(f.buf)]
		if len(room) == 0 {
			room = make([]byte, 1) // to see the end of what has filled it
		}
		n, err := r.Read(room)
		if len(f.buf)+n > cap(f.buf) {
			return nil, &http.MaxBytesError{Limit: int64(cap(f.buf))}
		}
		f.buf = f.buf[:len(f.buf)+n]
		if err == io.EOF {
			return f.buf[start:len(f.buf):len(f.buf)], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// sum digests what is in the form. The same call with the same files in the same
// order has one digest, whatever boundary its client has thought of.
func (f *form) sum() {
	h := sha256.New()
	text := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	h.Write([]byte("callcell.form.v1\x00"))
	text(f.call)
	for _, file := range f.files {
		text([]byte(file.Name))
		text(file.Data)
	}
	f.digest = [32]byte(h.Sum(nil))
}

// decode reads the call strictly, and adds the files to its inputs. One that the
// call names already, without bytes of its own, gets them: so is said that it
// may be executed.
func (f *form) decode() (envelope.Call, error) {
	call, err := envelope.DecodeCall(f.call)
	if err != nil {
		return call, err
	}
	places := map[string]int{}
	for i, in := range call.Inputs {
		places[in.Name] = i
	}
	for _, file := range f.files {
		i, named := places[file.Name]
		if !named {
			call.Inputs = append(call.Inputs, file)
			continue
		}
		in := &call.Inputs[i]
		if len(in.Data) > 0 || in.Blob != "" {
			return envelope.Call{}, problem("request", fmt.Sprintf("%.80q has its bytes in the call and in a part", file.Name), "leave one of them out").at(fmt.Sprintf("inputs[%d]", i))
		}
		in.Data = file.Data
	}
	return call, nil
}
