package redact

import "io"

// pieceBytes is how much of one Write is worked on at a time.
const pieceBytes = 32 << 10

// Writer masks a stream on its way to another writer. It is not for use by
// many goroutines at once.
type Writer struct {
	s      *scan
	hold   []byte // what buf is a part of
	to     io.Writer
	err    error // what ended it
	closed bool
}

// Writer returns a Writer to w. Close writes the last of it; it does not close
// w.
func (r *Redactor) Writer(w io.Writer) *Writer { return &Writer{s: newScan(r), to: w} }

// Write masks p and writes what can be written. It holds back what may be the
// beginning of a value until more comes, or Close. An error is w's, and stays,
// or wraps ErrGone where the Redactor was destroyed, or is ErrClosed.
func (w *Writer) Write(p []byte) (int, error) {
	if w.closed {
		return 0, ErrClosed
	}
	if w.err == nil && w.s.r.idle() {
		return w.to.Write(p)
	}
	written := 0
	for w.err == nil && len(p) > 0 {
		piece := p[:min(len(p), pieceBytes)]
		p = p[len(piece):]
		w.take(piece)
		w.work(false)
		if w.err == nil {
			written += len(piece)
		}
	}
	return written, w.err
}

// take appends to what is held back.
func (w *Writer) take(piece []byte) {
	if held := w.s.buf; len(held)+len(piece) > cap(w.hold) {
		grown := make([]byte, len(held), max(2*cap(w.hold), len(held)+len(piece)))
		copy(grown, held)
		clear(w.hold[:cap(w.hold)])
		w.hold = grown
	} else {
		w.hold = w.hold[:copy(w.hold[:cap(w.hold)], held)]
	}
	w.hold = append(w.hold, piece...)
	w.s.buf = w.hold
}

// work masks and writes what it can.
func (w *Writer) work(last bool) {
	s := w.s
	if !s.r.arena.Reveal(func(arena []byte) { s.run(arena, last) }) {
		w.err = &Error{Err: ErrGone}
		return
	}
	s.out = s.out[:0]
	s.emit(last)
	if len(s.out) > 0 {
		_, w.err = w.to.Write(s.out)
	}
}

// Close writes what was held back. It returns the error that ended the Writer,
// if one did. To close again does nothing.
func (w *Writer) Close() error {
	if w.closed {
		return w.err
	}
	w.closed = true
	if w.err == nil && !w.s.r.idle() {
		w.work(true)
	}
	clear(w.hold[:cap(w.hold)])
	w.s.buf, w.hold = nil, nil
	return w.err
}

// Held is how many bytes are held back now.
func (w *Writer) Held() int { return len(w.s.buf) }

// Counts returns the masks written so far, by name.
func (w *Writer) Counts() Counts { return w.s.counts() }
