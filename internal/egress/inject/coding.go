package inject

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// coding is how a body is encoded.
type coding int

const (
	identity coding = iota
	zipped
	deflated
)

// codingOf returns the one coding that a head names.
func codingOf(h http.Header) (coding, error) {
	var named []string
	for _, line := range h["Content-Encoding"] {
		for word := range strings.SplitSeq(strings.ToLower(line), ",") {
			if word = strings.TrimSpace(word); word != "" && word != "identity" {
				named = append(named, word)
			}
		}
	}
	switch {
	case len(named) == 0:
		return identity, nil
	case len(named) > 1:
		return 0, errors.New("the answer is encoded more than once, and cannot be looked into")
	case named[0] == "gzip", named[0] == "x-gzip":
		return zipped, nil
	case named[0] == "deflate":
		return deflated, nil
	}
	return 0, fmt.Errorf("the answer has the encoding %s, which was not asked for and cannot be looked into", strconv.QuoteToASCII(named[0][:min(len(named[0]), 32)]))
}

// reader undoes a coding.
func (c coding) reader(in io.Reader) io.Reader {
	switch c {
	case zipped:
		return &opened{in: bufio.NewReader(in), open: func(in *bufio.Reader) (io.Reader, error) { return gzip.NewReader(in) }}
	case deflated:
		return &opened{in: bufio.NewReader(in), open: inflate}
	}
	return in
}

// inflate is for what is meant by deflate, and for what some servers take it
// to be: without the head of zlib.
func inflate(in *bufio.Reader) (io.Reader, error) {
	head, err := in.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(in)
	}
	return flate.NewReader(in), nil
}

// opened is a decoder that begins with the first Read: the head of an answer
// does not wait for its body. A body without a byte is empty.
type opened struct {
	in   *bufio.Reader
	open func(*bufio.Reader) (io.Reader, error)
	from io.Reader
	err  error
}

func (o *opened) Read(p []byte) (int, error) {
	if o.from == nil && o.err == nil {
		if _, o.err = o.in.Peek(1); o.err == nil {
			o.from, o.err = o.open(o.in)
		}
	}
	if o.err != nil {
		return 0, o.err
	}
	return o.from.Read(p)
}
