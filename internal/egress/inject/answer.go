package inject

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
)

// scratchBytes is how much of a body is read at a time.
const scratchBytes = 16 << 10

// Answer makes an answer ready to be passed on: values in it are masked, in
// headers now, in the body and the trailers as they are read. unpacked is told
// of bytes of a body that was compressed, before they are passed on; its error
// ends the body. An error says why the answer must not be passed on.
func (e *Edge) Answer(r *http.Response, unpacked func(n int64) error) error {
	switch r.StatusCode {
	case http.StatusSwitchingProtocols:
		return errors.New("the answer is in another protocol")
	case http.StatusPartialContent, http.StatusIMUsed:
		return errors.New("the answer is a part of a document, and the whole was asked for")
	}
	e.set.Header(r.Header)
	e.set.Header(r.Trailer) // so far there are the names alone
	if r.StatusCode < 200 || r.StatusCode == http.StatusNoContent || r.StatusCode == http.StatusNotModified {
		return nil
	}
	coding, err := codingOf(r.Header)
	if err != nil {
		return err
	}
	if r.Header["Accept-Ranges"] != nil {
		r.Header["Accept-Ranges"] = []string{"none"}
	}
	if coding != identity {
		recoded(r.Header)
	}
	if r.Body == nil || r.Body == http.NoBody && r.ContentLength == 0 || r.Request.Method == http.MethodHead {
		return nil // no body comes
	}
	r.Header.Del("Content-Length")
	r.ContentLength = -1
	b := &body{set: e.set, answer: r, below: r.Body, from: coding.reader(r.Body)}
	if coding != identity {
		b.unpacked = unpacked
	}
	b.mask = e.set.Writer(&b.out)
	r.Body = b
	return nil
}

// Header is Set.Header, for interim answers. A nil Edge masks nothing.
func (e *Edge) Header(h http.Header) {
	if e != nil {
		e.set.Header(h)
	}
}

// Text is Set.Text, for what is quoted of an answer. A nil Edge masks nothing.
func (e *Edge) Text(text string) string {
	if e == nil {
		return text
	}
	return e.set.Text(text)
}

// recoded makes a head one of a body that had a coding, and has none now.
func recoded(h http.Header) {
	for _, name := range []string{"Content-Encoding", "Content-Length", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest"} {
		h.Del(name)
	}
	for i, tag := range h["Etag"] {
		if !strings.HasPrefix(tag, "W/") {
			h["Etag"][i] = "W/" + tag
		}
	}
}

// body is the body of an answer, masked.
type body struct {
	set      *Set
	answer   *http.Response
	below    io.Closer
	from     io.Reader
	unpacked func(n int64) error
	mask     *Writer
	scratch  []byte
	out      bytes.Buffer // masked
	err      error        // comes when out is empty
}

// Read implements io.Reader. When it returns io.EOF, the answer's trailers have
// come and are masked.
func (b *body) Read(p []byte) (int, error) {
	for b.out.Len() == 0 && b.err == nil {
		b.more()
	}
	if b.out.Len() > 0 {
		return b.out.Read(p)
	}
	return 0, b.err
}

// more reads once.
func (b *body) more() {
	if b.scratch == nil {
		b.scratch = make([]byte, scratchBytes)
	}
	n, err := b.from.Read(b.scratch)
	if n > 0 && b.unpacked != nil {
		if over := b.unpacked(int64(n)); over != nil {
			n, err = 0, over
		}
	}
	if n > 0 {
		if _, failed := b.mask.Write(b.scratch[:n]); failed != nil {
			err = failed
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.end()
	default:
		b.mask.Abandon()
		b.err = err
	}
}

// end is the end of a whole body.
func (b *body) end() {
	b.err = io.EOF
	if err := b.mask.Close(); err != nil {
		b.err = err
		return
	}
	b.set.Header(b.answer.Trailer)
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.mask.Abandon()
	clear(b.scratch)
	return b.below.Close()
}
