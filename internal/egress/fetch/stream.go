package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"golang.org/x/text/transform"

	"github.com/callcell/callcell/internal/egress/inject"
	"github.com/callcell/callcell/internal/egress/wire"
)

// A capped reader ends after so many bytes, and knows whether there was more.
type capped struct {
	r     io.Reader
	left  int64
	count int64 // bytes that were read
	cut   bool  // there was at least one more
	err   error // that it ended with
}

func (c *capped) Read(p []byte) (n int, err error) {
	if c.err != nil || len(p) == 0 {
		return 0, c.err
	}
	if c.left <= 0 {
		var one [1]byte
		if n, err = io.ReadFull(c.r, one[:]); n > 0 {
			c.cut, err = true, io.EOF
		}
		c.err = err
		return 0, err
	}
	n, c.err = c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.count += int64(n)
	return n, c.err
}

// whole reports whether all there was has been read so far.
func (c *capped) whole() bool { return !c.cut }

// pieces makes pieces of at most wire.MaxBody bytes of what is written to it.
type pieces struct {
	emit  func([]byte) error
	left  int64       // bytes that may still be written
	chars bool        // they are UTF-8: a cut is between characters
	holds int64       // bytes that may still be held; negative: none are
	grant *inject.Set // values to mask, before anything is cut; nil: none
	whole func() bool // what was written is all there is

	mask *inject.Writer // nil where nothing is masked
	part []byte         // of a character, that the mask has cut
	buf  []byte
	held [][]byte // the pieces; not nil where all of them are held
	cut  bool     // there was more than fits
}

// all writes what from writes, and gives on the last piece too. Where from
// fails, what it wrote is given on before.
func (p *pieces) all(from func(*pieces) error) error {
	if p.holds >= 0 {
		p.held = [][]byte{}
	}
	if p.grant != nil {
		p.mask = p.grant.Writer(maskedTo{p})
	}
	err := from(p)
	if p.mask != nil {
		err = p.unmask(err)
	}
	if flushed := p.flush(); err == nil {
		err = flushed
	}
	return err
}

// unmask ends the mask. What it holds back, and may be the beginning of a
// value, is given on only where nothing is missing behind it.
func (p *pieces) unmask(err error) error {
	switch {
	case err != nil || !p.whole():
		p.mask.Abandon()
	default:
		if err = p.mask.Close(); err == nil {
			err = p.put(p.part)
		}
	}
	if p.mask.Masked() > 0 {
		p.holds = -1 // it is not what others would get
		p.held = nil
	}
	return err
}

// maskedTo takes what comes out of the mask.
type maskedTo struct{ p *pieces }

// Write implements io.Writer. The mask cuts anywhere.
func (m maskedTo) Write(b []byte) (int, error) {
	p, n := m.p, len(b)
	if p.chars {
		b = append(p.part, b...)
		end := len(whole(b))
		p.part = bytes.Clone(b[end:])
		b = b[:end]
	}
	return n, p.put(b)
}

// write takes whole characters, where chars is set.
func (p *pieces) write(b []byte) error {
	if p.mask == nil {
		return p.put(b)
	}
	if p.cut {
		return nil
	}
	_, err := p.mask.Write(b)
	return err
}

// put takes what is written, masked.
func (p *pieces) put(b []byte) error {
	if p.cut {
		return nil
	}
	if int64(len(b)) > p.left {
		end := int(p.left)
		for p.chars && end > 0 && !utf8.RuneStart(b[end]) {
			end--
		}
		b, p.cut = b[:end], true
	}
	p.left -= int64(len(b))
	for len(b) > 0 {
		if p.buf == nil {
			p.buf = make([]byte, 0, wire.MaxBody)
		}
		n := min(len(b), wire.MaxBody-len(p.buf))
		p.buf = append(p.buf, b[:n]...)
		b = b[n:]
		if len(p.buf) == wire.MaxBody {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pieces) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	piece := p.buf
	if p.holds -= int64(len(piece)); p.holds < 0 {
		p.held, p.buf = nil, p.buf[:0]
	} else {
		if len(piece) < cap(piece) {
			piece = bytes.Clone(piece)
		}
		p.held, p.buf = append(p.held, piece), nil
	}
	if err := p.emit(piece); err != nil {
		return fmt.Errorf("it could not be handed on: %w", err)
	}
	return nil
}

// copyTo writes what in has to to, through t where that is not nil. Where
// below, which in reads from, was cut, a character that was cut through is
// left out.
func copyTo(to *pieces, in io.Reader, below *capped, t transform.Transformer) error {
	src, dst := make([]byte, 16<<10), make([]byte, 48<<10)
	have := 0
	for !to.cut {
		n, err := in.Read(src[have:])
		have += n
		ended := errors.Is(err, io.EOF)
		used := have
		if t == nil {
			if werr := to.write(src[:have]); werr != nil {
				return werr
			}
		} else {
			var werr error
			if used, werr = convert(to, t, src[:have], dst, ended && !below.cut); werr != nil {
				return werr
			}
		}
		have = copy(src, src[used:have])
		if ended {
			return nil
		}
		if err != nil {
			return err
		}
		if have == len(src) {
			return errors.New("its charset cannot be undone")
		}
	}
	return nil
}

// convert writes what t makes of src. It returns how much of src it took.
func convert(to *pieces, t transform.Transformer, src, dst []byte, ended bool) (used int, err error) {
	for {
		made, took, err := t.Transform(dst, src[used:], ended)
		used += took
		if werr := to.write(dst[:made]); werr != nil {
			return used, werr
		}
		switch {
		case errors.Is(err, transform.ErrShortDst) && made+took > 0:
		case err == nil, errors.Is(err, transform.ErrShortSrc):
			return used, nil
		default:
			return used, fmt.Errorf("its charset cannot be undone: %w", err)
		}
	}
}
