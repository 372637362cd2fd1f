package fetch

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/callcell/callcell/internal/egress/fetch/page"
)

// take reads the body of the last hop and gives it on.
func (t *trip) take(ctx context.Context, x *exchange) {
	most := t.want.bytes
	if t.want.text {
		most = t.f.o.Limits.FetchBytes
	}
	wired := &capped{r: x.resp.Body, left: overhead(most)}
	var body [][]byte
	in, err := decoded(x.resp.Header, wired, most)
	if err == nil {
		body, err = t.read(ctx, x, in)
		t.out.Bytes = in.count
		t.out.Cut = t.out.Cut || in.cut
	}
	t.out.WireBytes = wired.count
	if wired.cut {
		err = errors.New("it is larger packed than unpacked")
	}
	if err != nil {
		t.out.Cut = true
		t.fail(ctx, "could not read the answer: ", err)
	}
	switch cache, now := t.f.cache, t.f.o.Now(); {
	case t.private:
	case err != nil:
		cache.drop(t.key)
	case body == nil || t.out.Failure != "":
		cache.drop(t.key)
	default:
		cache.put(&entry{key: t.key, answer: t.out.Fetched, body: body, hops: t.hops, expires: now.Add(t.storing.forTime)}, now)
	}
}

// overhead is how many packed bytes may be read for so many unpacked ones:
// more than any encoder of ours would make, so that empty pieces without end
// come to one.
func overhead(most int64) int64 { return most + most/8 + 64<<10 }

// decoded undoes the encoding of a body, up to most bytes and one to tell
// whether there are more.
func decoded(h http.Header, in io.Reader, most int64) (*capped, error) {
	switch encodings := words(h, "Content-Encoding"); {
	case len(encodings) == 0, len(encodings) == 1 && (encodings[0] == "identity" || encodings[0] == ""):
		return &capped{r: in, left: most}, nil
	case len(encodings) == 1 && (encodings[0] == "gzip" || encodings[0] == "x-gzip"):
		return &capped{r: &unzip{in: in}, left: most}, nil
	default:
		return nil, fmt.Errorf("it has the encoding %s, and gzip alone was asked for", quoted(strings.Join(encodings, ", ")))
	}
}

// unzip is a gzip.Reader that begins at the first Read. A body without a byte
// is empty.
type unzip struct {
	in io.Reader
	z  *gzip.Reader
}

func (u *unzip) Read(p []byte) (int, error) {
	if u.z == nil {
		z, err := gzip.NewReader(u.in)
		if err != nil {
			return 0, err // io.EOF where there is nothing
		}
		u.z = z
	}
	return u.z.Read(p)
}

// read gives on a decoded body. It returns it where it may be held.
func (t *trip) read(ctx context.Context, x *exchange, in *capped) ([][]byte, error) {
	start := bufio.NewReaderSize(in, 4<<10)
	head, err := start.Peek(headLen)
	if len(head) == 0 && err != nil && !errors.Is(err, io.EOF) {
		return nil, err // else it comes again, after the head
	}
	declared := x.resp.Header.Get("Content-Type")
	t.out.Type = mediaType(declared, head)
	if !textual(t.out.Type) {
		if t.want.text && len(head) > 0 {
			return nil, fmt.Errorf("%s has no text; its bytes come where text is not asked for", t.out.Type)
		}
		return t.give(x, in.whole, func(to *pieces) error { return copyTo(to, start, in, nil) })
	}
	set, err := charsetOf(t.out.Type, declared, head)
	if err != nil {
		return nil, err
	}
	t.out.Charset = set.name
	if _, err := start.Discard(set.mark); err != nil {
		return nil, err
	}
	if t.want.text && (t.out.Type == "text/html" || t.out.Type == "application/xhtml+xml") {
		return t.readPage(ctx, x, in.whole, func(to *pieces) error { return copyTo(to, start, in, set.decoder) })
	}
	return t.give(x, in.whole, func(to *pieces) error { return copyTo(to, start, in, set.decoder) })
}

// readPage gives on the readable text of a page.
func (t *trip) readPage(ctx context.Context, x *exchange, all func() bool, from func(*pieces) error) ([][]byte, error) {
	var whole []byte
	most := t.f.o.Limits.FetchBytes
	to := &pieces{left: most, chars: true, holds: -1, grant: t.grant, whole: all, emit: func(piece []byte) error {
		whole = append(whole, piece...)
		return nil
	}}
	if err := to.all(from); err != nil {
		return nil, err
	}
	select {
	case t.f.pages <- struct{}{}:
		defer func() { <-t.f.pages }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	text := page.Read(whole, int(t.readable()))
	t.out.Title = t.title(text.Title)
	t.out.Cut = to.cut || text.Cut
	if text.Body == "" && len(whole) > 0 {
		t.out.Failure = "the page has no text"
	}
	return t.give(x, func() bool { return !text.Cut }, func(to *pieces) error { return to.write([]byte(text.Body)) })
}

// readable returns how many bytes of a page's text are read. Where values are
// masked it is cut afterwards, or a part of one could be left at its end.
func (t *trip) readable() int64 {
	if t.grant != nil {
		return t.f.o.Limits.FetchBytes
	}
	return t.want.bytes
}

// title masks a page's title, which may have been cut.
func (t *trip) title(text string) string {
	const nearly = 280 // bytes; package page cuts at 300
	masked := t.grant.Text(text)
	if len(text) > nearly {
		masked = t.grant.Start(text)
	}
	t.private = t.private || masked != text
	return masked
}

// give hands a body to the caller. It returns it where it may be held. all says
// whether what was written is all there is.
func (t *trip) give(x *exchange, all func() bool, from func(*pieces) error) ([][]byte, error) {
	to := &pieces{left: t.want.bytes, chars: t.out.Charset != "", holds: -1, grant: t.grant, whole: all, emit: t.emit}
	if x.resp.StatusCode == http.StatusOK && !t.storing.no && !t.private {
		to.holds = t.f.cache.most()
	}
	err := to.all(from)
	t.out.Cut = t.out.Cut || to.cut
	return to.held, err
}

// mediaType returns the type of a body without parameters, as it is declared,
// else as it looks; "" of none.
func mediaType(declared string, head []byte) string {
	name, _, err := mime.ParseMediaType(declared)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || len(name) > 127 || !strings.Contains(name, "/") {
		name = ""
	}
	if name == "" && len(head) > 0 {
		name, _, _ = mime.ParseMediaType(http.DetectContentType(head))
	}
	return name
}

// textual reports whether the bodies of a type are text.
func textual(name string) bool {
	if strings.HasPrefix(name, "text/") || strings.HasSuffix(name, "+json") || strings.HasSuffix(name, "+xml") || strings.HasSuffix(name, "+yaml") {
		return true
	}
	switch strings.TrimPrefix(name, "application/") {
	case "json", "xml", "yaml", "x-yaml", "toml", "javascript", "x-javascript", "ecmascript", "x-ndjson", "jsonl", "sql", "x-sh", "x-www-form-urlencoded",
		"xml-dtd", "graphql", "x-tex", "x-subrip", "x-httpd-php":
		return true
	}
	return false
}

// replay answers from the cache.
func (t *trip) replay(e *entry) {
	t.out.Fetched = e.answer
	t.out.Cached = true
	for _, piece := range e.body {
		if err := t.emit(piece); err != nil {
			t.out.Failure = neutral("could not hand on the answer: "+err.Error(), maxFailure)
			return
		}
	}
}
