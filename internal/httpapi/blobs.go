package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/callcell/callcell/internal/blob"
	"github.com/callcell/callcell/internal/gateway"
)

// octets is the type of bytes of which we know nothing.
const octets = "application/octet-stream"

// BlobInfo is what is known of a blob that the team keeps.
type BlobInfo struct {
	Digest string    `json:"digest" doc:"sha256:HEX"`
	Bytes  int64     `json:"bytes" doc:"That it has"`
	Put    time.Time `json:"put" doc:"When it was last put"`
	Until  time.Time `json:"until,omitzero" doc:"When it goes by itself; absent: never"`
}

func infoOf(k blob.Kept) BlobInfo {
	i := BlobInfo{Digest: k.Digest.Name(), Bytes: k.Bytes, Put: k.At.UTC()}
	if !k.Until.IsZero() {
		i.Until = k.Until.UTC()
	}
	return i
}

// BlobList is the answer to GET /v1/blobs.
type BlobList struct {
	Blobs []BlobInfo `json:"blobs" doc:"By digest"`
	Next  string     `json:"next,omitempty" doc:"The parameter after of the next page; absent where there is none"`
}

// mostBlobs is how many a page has.
const mostBlobs = 1000

// putBlob is POST /v1/blobs.
func putBlob(a *API, req *request) (any, error) {
	if err := a.Gateway.Good(req.key.ID); err != nil {
		return nil, err
	}
	leave, err := a.uploads.enter(req.key.Team)
	if err != nil {
		return nil, err
	}
	defer leave()
	secret, _ := bearer(req.r)
	ctx, cancel := a.Gateway.While(req.ctx(), req.key.ID, secret)
	defer cancel()
	body := a.pace(ctx, req)
	defer context.AfterFunc(ctx, body.cut)()
	k, err := a.Blobs.Take(ctx, req.key.Team, body, int64(a.Serve.Blob))
	switch {
	case err != nil && errors.Is(context.Cause(ctx), gateway.ErrRevoked):
		return nil, problem("key", "the key is no longer good", "")
	case body.err != nil: // its time stays: who answers it reads what is left, too
		return nil, bodyProblem(body.err, "serve.blob")
	case err != nil:
		return nil, err
	}
	body.rest()
	return infoOf(k), nil
}

// paced is the body of a request that may be larger than others. It has as much
// time for every part of that size as those have for all.
type paced struct {
	ctx        context.Context // nothing is read after its end
	r          io.Reader
	control    *http.ResponseController
	each, left int64
	time       time.Duration
	err        error // of the body, but its end
}

func (a *API) pace(ctx context.Context, req *request) *paced {
	p := &paced{ctx: ctx, r: req.r.Body, control: http.NewResponseController(req.w), each: int64(a.Serve.Body), time: a.Serve.Read.Std()}
	p.left = p.each
	_ = p.control.SetReadDeadline(time.Now().Add(p.time)) // a recorder in tests has none
	return p
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	if p.err = context.Cause(p.ctx); p.err != nil {
		return 0, p.err
	}
	n, err := p.r.Read(b)
	if p.left -= int64(n); p.left <= 0 {
		p.left = p.each
		_ = p.control.SetReadDeadline(time.Now().Add(p.time))
	}
	if err != nil && err != io.EOF {
		p.err = err
	}
	return n, err
}

// cut ends a Read that waits. What Read does at the same time may give it more
// time; the next one ends.
func (p *paced) cut() { _ = p.control.SetReadDeadline(time.Now()) }

// rest ends the time for the body.
func (p *paced) rest() { _ = p.control.SetReadDeadline(time.Time{}) }

// The bounds of blobs that are received at once: what comes has room on the disk
// before it is counted.
const (
	teamUploads = 8
	allUploads  = 64
)

// uploads counts what is received.
type uploads struct {
	mu  sync.Mutex // guards what follows
	all int
	of  map[string]int // by team
}

// enter takes a place, which leave gives back.
func (u *uploads) enter(team string) (leave func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all >= allUploads || u.of[team] >= teamUploads {
		p := problem("capacity", "too many blobs are being received", fmt.Sprintf("wait until one is there: a team may send %d at once", teamUploads))
		p.Retry = true
		return nil, p
	}
	if u.of == nil {
		u.of = map[string]int{}
	}
	u.all++
	u.of[team]++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.all--
		if u.of[team]--; u.of[team] == 0 {
			delete(u.of, team)
		}
	}, nil
}

// digestOf is the digest in an address.
func digestOf(text, field string) (blob.Digest, error) {
	d, err := blob.Parse(text)
	if err != nil {
		return d, problem("request", "not the digest of a blob", "write sha256: and 64 hexadecimal digits in lower case").at(field)
	}
	return d, nil
}

// getBlob is GET and HEAD /v1/blobs/{digest}. Another team's blob is not told
// from none.
func getBlob(a *API, req *request) (any, error) {
	d, err := digestOf(req.r.PathValue("digest"), "digest")
	if err != nil {
		return nil, err
	}
	r, k, err := a.Blobs.OpenKept(req.key.Team, d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if !k.Until.IsZero() {
		req.w.Header().Set("Expires", k.Until.UTC().Format(http.TimeFormat))
	}
	a.sendBlob(req, r, d)
	return answered{}, nil
}

// sendBlob answers with the bytes of a blob. It breaks the answer off where they
// are not those that were put: nobody has all of them then.
func (a *API) sendBlob(req *request, r *blob.Reader, d blob.Digest) {
	h := req.w.Header()
	h.Set("ETag", `"`+d.Name()+`"`)
	h.Set("Content-Length", strconv.FormatInt(r.Size(), 10))
	a.sendBytes(req, octets, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
}

// sendBytes answers with what write writes, as a file and never as a page. An
// error of write breaks the answer off, and so does the end of the key.
func (a *API) sendBytes(req *request, kind string, write func(io.Writer) error) {
	h := req.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", "attachment")
	w, _, stop := a.events(req)
	defer stop()
	w.WriteHeader(http.StatusOK)
	if req.r.Method == http.MethodHead {
		return
	}
	told := &told{w: w}
	err := write(told)
	if err == nil {
		return
	}
	if told.err == nil { // it is not the client, who is gone
		a.Log.Error("an answer was broken off", "path", cut(req.r.URL.Path, 256), "error", err.Error())
	}
	panic(http.ErrAbortHandler)
}

// told notes whether the client could be told.
type told struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (t *told) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	if err != nil {
		t.err = err
	}
	return n, err
}

// listBlobs is GET /v1/blobs.
func listBlobs(a *API, req *request) (any, error) {
	var after blob.Digest
	if text := req.r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = digestOf(text, "?after"); err != nil {
			return nil, err
		}
	}
	list, err := a.Blobs.Kept(req.key.Team, after, mostBlobs+1)
	if err != nil {
		return nil, err
	}
	out := BlobList{Blobs: []BlobInfo{}}
	for _, k := range list[:min(len(list), mostBlobs)] {
		out.Blobs = append(out.Blobs, infoOf(k))
	}
	if len(list) > mostBlobs {
		out.Next = out.Blobs[mostBlobs-1].Digest
	}
	return out, nil
}

// dropBlob is DELETE /v1/blobs/{digest}.
func dropBlob(a *API, req *request) (any, error) {
	d, err := digestOf(req.r.PathValue("digest"), "digest")
	if err != nil {
		return nil, err
	}
	k, err := a.Blobs.LetGo(req.key.Team, d)
	if err != nil {
		return nil, err
	}
	a.freed()
	return infoOf(k), nil
}

// freed says that there is something to collect.
func (a *API) freed() {
	if a.Freed != nil {
		a.Freed()
	}
}

// blobProblem is what is said of an error of blobs, or nil.
func blobProblem(err error) *Problem {
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return problem("not_found", "there is no such blob", "")
	case errors.Is(err, blob.ErrQuota):
		return problem("quota", "the team would keep more than it may", "let go of blobs, remove workspaces or old versions of them, and wait for the next collection")
	case errors.Is(err, blob.ErrBusy):
		p := problem("capacity", "the store of blobs is in use", "try again")
		p.Retry = true
		return p
	}
	return nil
}
