package pull

import (
	"archive/tar"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/callcell/callcell/internal/image/fstree"
)

// A flattener makes one stream of layers, the topmost first.
type flattener struct {
	out     *tar.Writer
	o       Options
	root    seen
	entries int64
	left    int64 // bytes that layers may still unpack to
	buf     []byte

	// Hard links whose contents have not come yet: by the name that has them,
	// the names that want them, and the other way round.
	waiting map[string][]string
	wants   map[string]string
}

func newFlattener(out *tar.Writer, o Options) *flattener {
	return &flattener{out: out, o: o, left: o.Bytes, buf: make([]byte, 256<<10), waiting: map[string][]string{}, wants: map[string]string{}}
}

// A pass is one layer that is being read.
type pass struct {
	index   int
	name    string
	covers  []cover
	unseen  map[string]bool // what is hidden and may be what a hard link wants
	again   bool            // it was read before: only what is wanted matters
	members *tar.Reader
}

// layer reads a layer, and once more where a hard link of it needs contents
// that were skipped.
func (f *flattener) layer(index int, l layer) error {
	p := &pass{index: index, name: l.name, unseen: map[string]bool{}}
	if err := f.read(p, l); err != nil {
		return err
	}
	f.root.apply(p.covers)
	p.again = true
	for range maxAgain {
		if !f.waitsFor(p.unseen) {
			return nil
		}
		if err := f.read(p, l); err != nil {
			return err
		}
	}
	return nil
}

// maxAgain is how often a layer is read again: once more for each hard link to
// a hard link, of which archivers make none.
const maxAgain = 4

func (f *flattener) waitsFor(paths map[string]bool) bool {
	for path := range f.waiting {
		if paths[path] {
			return true
		}
	}
	return false
}

func (f *flattener) read(p *pass, l layer) error {
	b, err := l.open(&f.left, f.o.Told)
	if err != nil {
		return err
	}
	defer b.Close()
	p.members = tar.NewReader(b)
	for {
		hdr, err := p.members.Next()
		if err == io.EOF {
			return b.verify()
		}
		if err == nil || errors.Is(err, tar.ErrInsecurePath) {
			err = f.member(p, hdr)
		}
		if err != nil {
			return named(p, err)
		}
	}
}

// named says in which layer something is wrong.
func named(p *pass, err error) error {
	if e := (*fstree.Error)(nil); errors.As(err, &e) {
		if strings.HasPrefix(e.Msg, p.name) {
			return e
		}
		return &fstree.Error{Kind: e.Kind, Entry: e.Entry, Msg: p.name + ": " + e.Msg, Err: e.Err}
	}
	return fstree.Failed(fstree.KindMalformed, "", p.name, err)
}

func (f *flattener) member(p *pass, hdr *tar.Header) error {
	if f.entries++; f.entries > f.o.Entries {
		return fstree.Refuse(fstree.KindEntries, hdr.Name, "there are more entries than there may be")
	}
	if hdr.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	path, err := fstree.Clean(relative(hdr.Name))
	if err != nil {
		return err
	}
	if p.again {
		return f.wanted(p, path, hdr, false)
	}
	c, is, ignore, err := coverOf(path)
	switch {
	case err != nil:
		return err
	case ignore:
		return nil
	case is:
		p.covers = append(p.covers, c)
		return nil
	case path == "":
		return f.top(hdr)
	}
	return f.place(p, path, hdr)
}

// relative takes away what some builders put before names.
func relative(name string) string {
	if trimmed := strings.TrimLeft(name, "/"); trimmed != "" || name == "" {
		return trimmed
	}
	return "."
}

// top takes the root's own member; the topmost layer's counts.
func (f *flattener) top(hdr *tar.Header) error {
	if hdr.Typeflag != tar.TypeDir {
		return fstree.Refuse(fstree.KindName, hdr.Name, "the root is a directory")
	}
	if f.root.form == directory {
		return nil
	}
	f.root.form = directory
	return f.emit("./", hdr)
}

func (f *flattener) place(p *pass, path string, hdr *tar.Header) error {
	dir := hdr.Typeflag == tar.TypeDir
	switch f.root.look(path, dir, p.index) {
	case hidden:
		if !dir {
			p.unseen[path] = true
			if s := f.root.find(path); s != nil && s.form == directory { // and one further below was gone here
				p.covers = append(p.covers, cover{path, true})
			}
		}
		return errors.Join(f.parents(p, path), f.wanted(p, path, hdr, false))
	case blocked:
		return fstree.Refuse(fstree.KindForm, path, "a layer above puts something below it, or this layer below something else, and it is no directory")
	}
	f.forgo(path)
	s := f.root.at(path)
	s.layer, s.form = p.index, other
	if dir {
		s.form = directory
		return f.emit(path+"/", hdr)
	}
	if hdr.Typeflag == tar.TypeLink {
		return f.link(p, path, hdr)
	}
	if err := f.copy(p, path, hdr); err != nil {
		return err
	}
	return f.wanted(p, path, hdr, true)
}

// parents makes the directories of a member that is hidden, where they are not.
func (f *flattener) parents(p *pass, path string) error {
	for {
		if path, _ = fstree.Split(path); path == "" {
			return nil
		}
		if f.root.look(path, true, p.index) != shown {
			continue
		}
		s := f.root.at(path)
		if s.form != onTheWay || s.made {
			return nil
		}
		s.made = true
		return f.emit(path+"/", &tar.Header{Typeflag: tar.TypeDir})
	}
}

// link takes a hard link. What it names is in the stream, or still to come.
func (f *flattener) link(p *pass, path string, hdr *tar.Header) error {
	to, err := fstree.Clean(relative(hdr.Linkname))
	if err != nil {
		return err
	}
	if first, ok := f.wants[to]; ok {
		to = first // which waits itself
	}
	if path == to {
		return fstree.Refuse(fstree.KindLink, path, "it is a hard link to itself")
	}
	if s := f.root.find(to); s != nil && s.form == other && s.layer == p.index && f.wants[to] == "" {
		return f.linkTo(path, to, hdr)
	}
	f.waiting[to] = append(f.waiting[to], path)
	f.wants[path] = to
	f.handOn(path, to)
	return nil
}

// handOn makes what waits for a name that is itself a hard link wait for what
// that is a link to.
func (f *flattener) handOn(path, to string) {
	for _, w := range f.waiting[path] {
		f.waiting[to] = append(f.waiting[to], w)
		f.wants[w] = to
	}
	delete(f.waiting, path)
}

// forgo makes a name wait for nothing: something else has taken its place.
func (f *flattener) forgo(path string) {
	to, ok := f.wants[path]
	if !ok {
		return
	}
	delete(f.wants, path)
	f.waiting[to] = slices.DeleteFunc(f.waiting[to], func(w string) bool { return w == path })
	if len(f.waiting[to]) == 0 {
		delete(f.waiting, to)
	}
}

func (f *flattener) linkTo(path, to string, hdr *tar.Header) error {
	if err := f.emit(path, &tar.Header{Typeflag: tar.TypeLink, Linkname: to, ModTime: hdr.ModTime, Mode: hdr.Mode}); err != nil {
		return err
	}
	return f.give(path, to, hdr)
}

// wanted gives the contents of a member to the hard links that wait for them.
// Where it is in the stream itself, they are links to it.
func (f *flattener) wanted(p *pass, path string, hdr *tar.Header, there bool) error {
	if len(f.waiting[path]) == 0 {
		return nil
	}
	switch hdr.Typeflag {
	case tar.TypeDir:
		return nil
	case tar.TypeLink:
		return f.wantedHidden(p, path, hdr)
	}
	first := path
	if !there {
		first = f.waiting[path][0]
		f.waiting[path] = f.waiting[path][1:]
		delete(f.wants, first)
		if err := f.copy(p, first, hdr); err != nil {
			return err
		}
	}
	return f.give(path, first, hdr)
}

// wantedHidden is wanted of a hard link that is not in the stream.
func (f *flattener) wantedHidden(p *pass, path string, hdr *tar.Header) error {
	to, err := fstree.Clean(relative(hdr.Linkname))
	if err != nil {
		return err
	}
	if s := f.root.find(to); s != nil && s.form == other && s.layer == p.index && f.wants[to] == "" {
		return f.give(path, to, hdr)
	}
	if first, ok := f.wants[to]; ok {
		to = first
	}
	if to == path {
		return fstree.Refuse(fstree.KindLink, path, "it is a hard link to itself")
	}
	f.handOn(path, to)
	return nil
}

// give makes all that wait for path links to first.
func (f *flattener) give(path, first string, hdr *tar.Header) error {
	waiting := f.waiting[path]
	delete(f.waiting, path)
	for _, w := range waiting {
		delete(f.wants, w)
		if err := f.emit(w, &tar.Header{Typeflag: tar.TypeLink, Linkname: first, ModTime: hdr.ModTime, Mode: hdr.Mode}); err != nil {
			return err
		}
	}
	return nil
}

// copy writes a member with its contents.
func (f *flattener) copy(p *pass, path string, hdr *tar.Header) error {
	if err := f.emit(path, hdr); err != nil {
		return err
	}
	if hdr.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{f.out}, struct{ io.Reader }{p.members}, f.buf)
	if e := (*fstree.Error)(nil); errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, &e) { // the archive's own end
		return fstree.Refuse(fstree.KindTruncated, path, "the layer ends within it")
	}
	return err
}

// emit writes a header of a member: its name, what it is, and its time, which
// is rounded down.
func (f *flattener) emit(path string, hdr *tar.Header) error {
	if hdr.Typeflag == tar.TypeCont || hdr.Typeflag == tar.TypeGNUSparse {
		hdr.Typeflag = tar.TypeReg // its reader gives all its bytes
	}
	out := tar.Header{Typeflag: hdr.Typeflag, Name: path, Linkname: hdr.Linkname, Mode: hdr.Mode & 0o7777}
	n := fstree.Node{}
	n.SetTime(hdr.ModTime.Unix(), 0)
	out.ModTime = time.Unix(n.Sec, 0)
	switch hdr.Typeflag {
	case tar.TypeReg:
		out.Size, out.Linkname = hdr.Size, ""
	case tar.TypeDir, tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		out.Linkname = ""
	case tar.TypeSymlink:
		if err := fstree.CheckTarget(path, hdr.Linkname); err != nil {
			return err
		}
	case tar.TypeLink:
	default:
		return fstree.Refuse(fstree.KindForm, path, "it is of a type that no tree has")
	}
	if err := f.out.WriteHeader(&out); err != nil {
		return fstree.Failed(fstree.KindDisk, path, "write the stream", err)
	}
	return nil
}

// end ends the stream.
func (f *flattener) end() error {
	for to, paths := range f.waiting {
		return fstree.Refuse(fstree.KindLink, paths[0], "it is a hard link to "+(&fstree.Error{Entry: to}).Shown()+", which no layer has")
	}
	if err := f.out.Close(); err != nil {
		return fstree.Failed(fstree.KindDisk, "", "end the stream", err)
	}
	return nil
}
