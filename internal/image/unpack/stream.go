package unpack

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"

	"github.com/callcell/callcell/internal/image/fstree"
)

const (
	endMark = 1024 // zeros
	// headroom is what a member may have in the stream besides its contents:
	// headers, long names, and the padding.
	headroom = 16 << 10
)

// errTooMuch is the end of a stream that is longer than what may be in it.
var errTooMuch = errors.New("the stream is longer than all that it may hold")

// A counter reads a stream within a bound, and knows how much was read and how
// many zeros it ended with so far.
type counter struct {
	r     io.Reader
	left  int64
	read  int64
	zeros int64
	err   error // of r
}

func (c *counter) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errTooMuch
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.read += int64(n)
	rest := n
	for rest > 0 && p[rest-1] == 0 {
		rest--
	}
	if rest > 0 {
		c.zeros = 0
	}
	c.zeros += int64(n - rest)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// members reads the stream to its end.
func (u *unpacker) members(in io.Reader) error {
	c := &counter{r: bufio.NewReaderSize(in, 1<<20), left: bound(u.o)}
	tr := tar.NewReader(c)
	for {
		before := c.read
		hdr, err := tr.Next()
		switch {
		case err == io.EOF:
			return c.end(before)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath): // names are judged here
			return c.fault("", err)
		}
		if err := u.member(hdr, tr); err != nil {
			if e := (*fstree.Error)(nil); errors.As(err, &e) {
				return err
			}
			return c.fault(hdr.Name, err)
		}
	}
}

// bound is how long a stream may be.
func bound(o Options) int64 {
	const most = 1 << 60
	if o.Bytes > most/2 || o.Entries > most/2/headroom {
		return most
	}
	return o.Bytes + o.Entries*headroom + headroom
}

// fault says what an error in reading the stream means.
func (c *counter) fault(entry string, err error) error {
	switch {
	case c.err != nil:
		return fstree.Failed(fstree.KindSource, entry, "read the stream", c.err)
	case errors.Is(err, errTooMuch):
		return fstree.Refuse(fstree.KindBytes, entry, errTooMuch.Error())
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fstree.Refuse(fstree.KindTruncated, entry, "the stream ends within a member")
	default:
		return fstree.Failed(fstree.KindMalformed, entry, "no tar stream", err)
	}
}

// end looks at the stream's end, of which everything since before was read at
// once: the padding of the last member, less than a block, and the end mark.
// Without the mark the stream may have been cut.
func (c *counter) end(before int64) error {
	if c.read-before < endMark || c.zeros < endMark {
		return fstree.Refuse(fstree.KindTruncated, "", "the stream has no end mark")
	}
	buf := make([]byte, 32<<10)
	for {
		at := c.read
		_, err := c.Read(buf)
		if c.zeros < endMark+c.read-at {
			return fstree.Refuse(fstree.KindTrailing, "", "the stream goes on after its end mark")
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return c.fault("", err)
		}
	}
}
