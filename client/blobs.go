package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Blob is what is known of a blob that the team keeps.
type Blob struct {
	Digest string    `json:"digest"` // sha256:HEX
	Bytes  int64     `json:"bytes"`
	Put    time.Time `json:"put"`   // when it was last put
	Until  time.Time `json:"until"` // when it goes by itself; zero: never
}

// File makes a file of a call of it.
func (b *Blob) File(name string) envelope.File {
	return envelope.File{Name: name, Blob: b.Digest, Size: b.Bytes}
}

// PutBlob keeps what r has, to its end, for the team. It is held to what the
// daemon says that it has kept.
func (c *Client) PutBlob(ctx context.Context, r io.Reader) (*Blob, error) {
	h := sha256.New()
	resp, err := c.request(ctx, http.MethodPost, "/v1/blobs", io.TeeReader(r, h), contentType("application/octet-stream"))
	if err != nil {
		return nil, err
	}
	b := new(Blob)
	if err := answer(resp, b); err != nil {
		return nil, err
	}
	if digest := digestOf(h); b.Digest != digest {
		return nil, fmt.Errorf("%w: %s was sent, and %.80q is kept", ErrAnswer, digest, b.Digest)
	}
	return b, nil
}

func digestOf(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }

// GetBlob reads a blob of the team's. The caller closes it. Its bytes are
// digested on the way: reading to the end is an error where they are others.
func (c *Client) GetBlob(ctx context.Context, digest string) (io.ReadCloser, error) {
	resp, err := c.request(ctx, http.MethodGet, "/v1/blobs/"+url.PathEscape(digest), nil)
	if err != nil {
		return nil, err
	}
	return &verified{resp.Body, sha256.New(), digest}, nil
}

// verified digests what it reads.
type verified struct {
	body io.ReadCloser
	h    hash.Hash
	want string
}

// Read implements io.Reader.
func (v *verified) Read(p []byte) (int, error) {
	n, err := v.body.Read(p)
	v.h.Write(p[:n])
	if err == io.EOF && digestOf(v.h) != v.want {
		return n, fmt.Errorf("%w: its bytes are not those of %s", ErrAnswer, v.want)
	}
	return n, err
}

// Close implements io.Closer.
func (v *verified) Close() error { return v.body.Close() }

// HasBlob returns the size of a blob of the team's, in bytes, and whether the
// team keeps it.
func (c *Client) HasBlob(ctx context.Context, digest string) (size int64, kept bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, c.base+"/v1/blobs/"+url.PathEscape(digest), nil)
	if err != nil {
		return 0, false, fmt.Errorf("client: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return 0, false, fmt.Errorf("client: %w", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusOK && resp.ContentLength >= 0:
		return resp.ContentLength, true, nil
	case resp.StatusCode == http.StatusNotFound:
		return 0, false, nil
	}
	return 0, false, fmt.Errorf("%w: status %d", ErrAnswer, resp.StatusCode)
}

// DropBlob lets go of a blob.
func (c *Client) DropBlob(ctx context.Context, digest string) error {
	return c.do(ctx, http.MethodDelete, "/v1/blobs/"+url.PathEscape(digest), nil, nil)
}

// ListBlobs lists what the team keeps, by digest, after one; "" is from the
// beginning. next is the digest to go on after, "" at the end.
func (c *Client) ListBlobs(ctx context.Context, after string) (list []Blob, next string, err error) {
	path := "/v1/blobs"
	if after != "" {
		path += "?after=" + url.QueryEscape(after)
	}
	var page struct {
		Blobs []Blob `json:"blobs"`
		Next  string `json:"next"`
	}
	err = c.do(ctx, http.MethodGet, path, nil, &page)
	return page.Blobs, page.Next, err
}

// Part is a file of a call, which is read while it is sent.
type Part struct {
	Name string // of the input; not "call"
	Body io.Reader
}

// RunForm is Run with inputs that are read while they are sent. An input that
// the call names without bytes gets those of the part of its name: so it may be
// executable.
func (c *Client) RunForm(ctx context.Context, call *envelope.Call, parts []Part, options ...Option) (*envelope.Result, error) {
	text, err := json.Marshal(call)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		w.CloseWithError(writeForm(form, text, parts))
	}()
	resp, err := c.request(ctx, http.MethodPost, "/v1/calls", r, append(options, contentType(form.FormDataContentType()))...)
	r.CloseWithError(io.ErrClosedPipe) // of what was not read
	<-sent
	if err != nil {
		return nil, err
	}
	result := new(envelope.Result)
	if err := answer(resp, result); err != nil {
		return nil, err
	}
	return result, nil
}

func writeForm(form *multipart.Writer, call []byte, parts []Part) error {
	w, err := form.CreateFormField("call")
	if err == nil {
		_, err = w.Write(call)
	}
	for _, p := range parts {
		if err != nil {
			return err
		}
		if w, err = form.CreateFormField(p.Name); err == nil {
			_, err = io.Copy(w, p.Body)
		}
	}
	if err != nil {
		return err
	}
	return form.Close()
}
