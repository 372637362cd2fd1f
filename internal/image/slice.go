package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/launcher/template"
)

// Slice is what a snapshot of this host's slice was made of.
type Slice struct {
	Stamp   string   `json:"stamp"`             // of the host's files
	LeftOut []string `json:"leftOut,omitempty"` // directories that are in the slice and not in the snapshot
}

// LeftOut are directories of /usr that no program needs to run, and that are
// left out of a snapshot.
func LeftOut() []string {
	return []string{"/usr/src", "/usr/share/doc", "/usr/share/man", "/usr/share/info", "/usr/share/locale", "/usr/lib/debug"}
}

// HostPath is one path of this host that every cell sees.
type HostPath struct{ Path, Why string }

// HostPaths are all of them.
func HostPaths() []HostPath {
	var out []HostPath
	for _, e := range template.Slice() {
		out = append(out, HostPath{e.Path, e.Why})
	}
	return out
}

// Snapshot makes a tree of the slice of this host that every cell sees, for
// levels whose kernel cannot look into the host's own files.
func (m *Maker) Snapshot(ctx context.Context) (*Made, error) {
	unlock, err := m.Index.lock(ctx, false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	stamp, err := Stamp()
	if err != nil {
		return nil, &Error{Kind: KindSource, Name: envelope.ImageHost, Msg: "this host cannot be read", Err: err}
	}
	forms := Forms{EROFS: true, MountPoints: true}
	unpacked, staged, err := m.stream(ctx, envelope.ImageHost, forms, func(ctx context.Context, w io.Writer) error {
		return writeSlice(ctx, w, "/")
	})
	if err != nil {
		return nil, err
	}
	r := &Record{Name: envelope.ImageHost, Tree: unpacked.Digest, Slice: &Slice{Stamp: stamp, LeftOut: LeftOut()}}
	return &Made{Record: r}, m.keep(ctx, r, unpacked, staged)
}

// Stamp changes when programs are installed on this host, removed or replaced.
// It looks at the times of a few directories, not at every file.
func Stamp() (string, error) {
	sum := sha256.New()
	note := func(name string) error {
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			fmt.Fprintf(sum, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		}
		return err
	}
	names := []string{"/var/lib/dpkg/status", "/etc/ld.so.cache", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/lib"}
	for _, pattern := range []string{"/usr/lib/*", "/usr/local/lib/python3*/dist-packages", "/usr/lib/python3*/dist-packages", "/usr/local/lib/node_modules"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		names = append(names, found...)
	}
	for _, name := range names {
		if err := note(name); err != nil {
			return "", err
		}
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// writeSlice writes the slice of the host at root as a tar stream: what any
// user may read, regular files, links and directories, each where every cell
// sees it.
func writeSlice(ctx context.Context, w io.Writer, root string) error {
	s := &slicer{ctx: ctx, root: root, to: tar.NewWriter(w)}
	if err := s.ours(); err != nil {
		return err
	}
	for _, name := range template.Roots() {
		if err := s.top(name); err != nil {
			return err
		}
	}
	for _, e := range template.Slice() {
		if err := s.walk(e.Path); err != nil && (e.Required || !errors.Is(err, fs.ErrNotExist)) {
			return &Error{Kind: KindSource, Name: envelope.ImageHost, Msg: e.Path, Err: err}
		}
	}
	return s.to.Close()
}

type slicer struct {
	ctx  context.Context
	root string
	to   *tar.Writer
}

// ours are the files that are the same in every cell.
func (s *slicer) ours() error {
	for _, d := range template.Directories() {
		if err := s.to.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d + "/", Mode: 0o755}); err != nil {
			return err
		}
	}
	for _, f := range template.Files() {
		if err := s.to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Size: int64(len(f.Text)), Mode: 0o644}); err != nil {
			return err
		}
		if _, err := io.WriteString(s.to, f.Text); err != nil {
			return err
		}
	}
	for _, l := range template.Links() {
		if strings.HasPrefix(l.Name, "dev/") {
			continue
		}
		if err := s.to.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: l.Name, Linkname: l.Target, Mode: 0o777}); err != nil {
			return err
		}
	}
	return nil
}

// top is /bin and its like: a link into /usr, or a directory of its own.
func (s *slicer) top(name string) error {
	info, err := os.Lstat(path.Join(s.root, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return s.walk("/" + name)
	case info.Mode()&fs.ModeSymlink == 0:
		return nil
	}
	return s.entry("/"+name, info)
}

func (s *slicer) walk(name string) error {
	return filepath.WalkDir(path.Join(s.root, name), func(full string, d fs.DirEntry, err error) error {
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		rel := "/" + strings.TrimPrefix(strings.TrimPrefix(full, s.root), "/")
		if d != nil && d.IsDir() && slices.Contains(LeftOut(), rel) {
			return fs.SkipDir
		}
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it is gone meanwhile
		}
		if err != nil {
			return err
		}
		return s.entry(rel, info)
	})
}

// entry writes one entry. What is not readable by everybody is left out, and so
// is what is neither file, link nor directory.
func (s *slicer) entry(name string, info fs.FileInfo) error {
	h := &tar.Header{Name: name[1:], Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second), Format: tar.FormatPAX}
	full := path.Join(s.root, name)
	switch mode := info.Mode(); {
	case mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(full)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case mode.IsRegular() && mode.Perm()&0o004 != 0:
		return s.file(h, full)
	default:
		return nil
	}
	return s.to.WriteHeader(h)
}

func (s *slicer) file(h *tar.Header, full string) error {
	f, err := os.Open(full)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is another file than it was", full))
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := s.to.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.CopyN(s.to, f, h.Size); err != nil {
		return fmt.Errorf("%s: %w", full, err)
	}
	return nil
}
