package pull

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"syscall"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/callcell/callcell/internal/image/fstree"
)

// maxWindow is the memory that a stream of zstd may ask for; the format's
// own tools take no more without being told.
const maxWindow = 128 << 20

// step is after how many bytes people are told again.
const step = 16 << 20

// A blob is a layer that is being read: what it unpacks to, within what is left
// of all bytes. Its end is io.EOF only after all digests were right.
type blob struct {
	l     layer
	told  io.Writer
	raw   io.ReadCloser // in the registry's form
	plain io.Reader
	close func()
	left  *int64
	sum   hash.Hash
	got   int64 // of raw
	next  int64 // of raw, when people are told
	fault error // of raw
	again int   // how often it was asked for anew
}

// maxAnew is how often a layer is asked for anew when the way to it breaks.
const maxAnew = 3

// open begins to read a layer.
func (l layer) open(left *int64, told io.Writer) (*blob, error) {
	raw, err := l.Compressed()
	if err != nil {
		return nil, failed(l.name, err)
	}
	b := &blob{l: l, told: told, raw: raw, left: left, sum: sha256.New(), close: func() {}}
	if err := b.unpack(); err != nil {
		b.Close()
		return nil, b.failed(err)
	}
	return b, nil
}

// unpack chooses how the layer is read, by its first bytes: what the manifest
// says of them is often wrong.
func (b *blob) unpack() error {
	in := bufio.NewReaderSize(compressed{b}, 256<<10)
	first, err := in.Peek(4)
	switch {
	case err != nil && err != io.EOF:
		return err
	case bytes.HasPrefix(first, []byte("\x1f\x8b")):
		z, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		b.plain = z
	case bytes.Equal(first, []byte("\x28\xb5\x2f\xfd")):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxWindow))
		if err != nil {
			return err
		}
		b.plain, b.close = z, z.Close
	default:
		b.plain = in
	}
	return nil
}

// compressed reads the registry's form and tells people how far it is.
type compressed struct{ b *blob }

func (c compressed) Read(p []byte) (int, error) {
	b := c.b
	n, err := b.raw.Read(p)
	if b.got += int64(n); b.got >= b.next {
		b.next = b.got + step
		fmt.Fprintf(b.told, "%s: %d of %d KiB\n", b.l.name, b.got>>10, b.l.size>>10)
	}
	if err == nil || err == io.EOF || broken(err) && b.anew() {
		if err != io.EOF {
			err = nil
		}
		return n, err
	}
	b.fault = err
	return n, err
}

// anew asks for the layer once more, and goes on where it was. That the bytes
// before are those that came the first time is known at the end, of the digest
// of what the layer unpacks to.
func (b *blob) anew() bool {
	for ; b.again < maxAnew; b.again++ {
		fmt.Fprintf(b.told, "%s: the connection broke, once more\n", b.l.name)
		raw, err := b.l.Compressed()
		if err != nil {
			continue
		}
		if _, err := io.CopyN(io.Discard, raw, b.got); err != nil {
			raw.Close()
			continue
		}
		b.raw.Close()
		b.raw = raw
		b.again++
		return true
	}
	return false
}

// broken reports whether an error is of the way to the registry.
func broken(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET)
}

func (b *blob) Read(p []byte) (int, error) {
	if *b.left == 0 {
		return 0, fstree.Refuse(fstree.KindBytes, "", b.l.name+" unpacks to more than there may be")
	}
	n, err := b.plain.Read(p[:min(int64(len(p)), *b.left)])
	*b.left -= int64(n)
	b.sum.Write(p[:n])
	if err != nil && err != io.EOF {
		err = b.failed(err)
	}
	return n, err
}

// verify reads what is left, to the end, and compares.
func (b *blob) verify() error {
	if _, err := io.Copy(io.Discard, b); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, compressed{b}); err != nil { // nothing, but its digest
		return b.failed(err)
	}
	if got := hex.EncodeToString(b.sum.Sum(nil)); b.l.diff.Algorithm != "sha256" || got != b.l.diff.Hex {
		return fstree.Refuse(fstree.KindDigest, "", fmt.Sprintf("%s unpacks to sha256:%s, the configuration says %.80q", b.l.name, got, b.l.diff.String()))
	}
	return nil
}

// failed says what an error in reading a layer means. The registry library's
// reader compares size and digest, and has no type for what it finds.
func (b *blob) failed(err error) error {
	if e := (*fstree.Error)(nil); errors.As(err, &e) {
		return e
	}
	switch {
	case b.fault == nil:
		return fstree.Failed(fstree.KindMalformed, "", b.l.name, err)
	case broken(b.fault), errors.Is(b.fault, context.Canceled):
		return fstree.Failed(fstree.KindSource, "", b.l.name, b.fault)
	default:
		return fstree.Failed(fstree.KindDigest, "", b.l.name, b.fault)
	}
}

func (b *blob) Close() {
	b.close()
	b.raw.Close()
}
