package mcp

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/render"
)

// The bounds of the files that a session keeps. The oldest call's go first.
const (
	DefaultKeep  = 64 * envelope.MiB // bytes of all files
	maxFiles     = 256
	maxTextFile  = 1 << 20 // bytes of a file that is shown as text
	showResource = "callcell://file/"
	rawResource  = "callcell://raw/"
)

// store keeps the files that came out of the cells of one session.
type store struct {
	server *sdk.Server
	max    int64
	room   *Room // nil: there is no other bound
	reads  func(context.Context, http.Header, int64) error

	mu     sync.Mutex // guards what follows, and keeps the server's list in step with it
	files  []kept     // oldest first
	bytes  int64
	closed bool
}

// kept is one file. Its data is not changed.
type kept struct {
	call, name string
	data       []byte
}

// add keeps the outputs of a call and says where each can be read.
func (s *store) add(call string, outputs []envelope.File) (out []File) {
	for _, f := range outputs {
		made := File{Name: name(f.Name), Bytes: int64(len(f.Data))}
		if int64(len(f.Data)) <= s.max {
			k := kept{call, f.Name, f.Data}
			if s.keep(k) {
				made.URI, made.Raw = k.uri(showResource), k.uri(rawResource)
			}
		}
		out = append(out, made)
	}
	return out
}

// keep keeps a file, in place of the oldest ones, and reports whether there was
// room for it.
func (s *store) keep(k kept) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := int64(len(k.data))
	var gone []string
	for !s.closed && len(s.files) > 0 && (len(s.files) >= maxFiles || s.bytes+size > s.max) {
		gone = append(gone, s.dropLocked())
	}
	taken := !s.closed && s.room.take(size)
	for !taken && len(s.files) > 0 {
		gone = append(gone, s.dropLocked())
		taken = s.room.take(size)
	}
	if len(gone) > 0 {
		s.server.RemoveResources(gone...)
	}
	if !taken {
		return false
	}
	s.files = append(s.files, k)
	s.bytes += size
	s.server.AddResource(&sdk.Resource{
		URI: k.uri(showResource), Name: name(k.name), MIMEType: k.mime(), Size: int64(len(k.data)),
		Description: "Output of call " + k.call + ": data of an untrusted program.",
	}, s.read)
	return true
}

// dropLocked forgets the oldest file, and returns its address.
func (s *store) dropLocked() string {
	old := s.files[0]
	s.files = s.files[1:]
	s.bytes -= int64(len(old.data))
	s.room.give(int64(len(old.data)))
	return old.uri(showResource)
}

// close forgets every file, and keeps none any more.
func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for len(s.files) > 0 {
		s.dropLocked()
	}
}

// uri is the address of a file. The name is escaped in it, so that it is one.
func (k kept) uri(base string) string {
	parts := strings.Split(k.name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return base + k.call + "/" + strings.Join(parts, "/")
}

// text reports whether the file is shown as text.
func (k kept) text() bool {
	return len(k.data) <= maxTextFile && utf8.Valid(k.data) && !strings.ContainsRune(string(k.data), 0)
}

func (k kept) mime() string {
	if k.text() {
		return "text/plain"
	}
	return k.rawMIME()
}

// rawMIME goes by the name alone: what is inside is not looked into.
func (k kept) rawMIME() string {
	switch strings.ToLower(path.Ext(k.name)) {
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".pdf":
		return "application/pdf"
	case ".csv":
		return "text/csv"
	case ".json":
		return "application/json"
	}
	return "application/octet-stream"
}

// find returns the file at an address.
func (s *store) find(uri, base string) (kept, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.files {
		if k.uri(base) == uri {
			return k, true
		}
	}
	return kept{}, false
}

// read shows a file: text between marks, anything else as its bytes.
func (s *store) read(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := req.Params.URI
	k, ok := s.find(uri, showResource)
	if !ok {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	if err := s.reading(ctx, req, k, k.text()); err != nil {
		return nil, err
	}
	c := &sdk.ResourceContents{URI: uri, MIMEType: k.mime()}
	if k.text() {
		c.Text = render.Fence("file", "named "+name(k.name)+"\n\n"+string(k.data))
	} else {
		c.Blob = k.data
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}, nil
}

// reading tells how large a file may be as JSON: base64, or text of which a byte is
// eight at most when it is neutralised, and each of those two.
func (s *store) reading(ctx context.Context, req *sdk.ReadResourceRequest, k kept, text bool) error {
	if s.reads == nil || req.Extra == nil {
		return nil
	}
	size := int64(len(k.data))
	if text {
		return s.reads(ctx, req.Extra.Header, 16*size)
	}
	return s.reads(ctx, req.Extra.Header, (size+2)/3*4)
}

// readRaw gives the very bytes of a file.
func (s *store) readRaw(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := req.Params.URI
	k, ok := s.find(uri, rawResource)
	if !ok {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	if err := s.reading(ctx, req, k, false); err != nil {
		return nil, err
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: k.rawMIME(), Blob: k.data}}}, nil
}
