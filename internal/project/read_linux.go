package project

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project/ignore"
)

// Read reads the tree in dir. It recovers what an Apply that was killed has
// left there, before that. The error is a *CapError, a *PathError, ErrBusy,
// ErrUnsupported, the context's or the system's.
func Read(ctx context.Context, dir string, o Options) (*Tree, error) {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := recoverIn(root, o.Journals); err != nil {
		return nil, err
	}
	w := &walk{ctx: ctx, root: root, o: o, tree: &Tree{Dir: dir}, left: o.Limits.Entries, meter: ignore.NewMeter(maxMatching)}
	w.exclude()
	var loading sync.WaitGroup
	loading.Go(o.Cache.load)
	err = w.visit(".", int(root.Fd()), 0)
	loading.Wait()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(w.found, func(a, b found) int { return strings.Compare(a.name, b.name) })
	if err := w.load(); err != nil {
		return nil, err
	}
	w.finish()
	return w.tree, nil
}

// A walk finds the files of a tree.
type walk struct {
	ctx  context.Context
	root *os.File
	o    Options
	tree *Tree
	left int // names that may be looked at still

	git, own ignore.Rules  // of .gitignore and of .callcellignore, which goes before it
	meter    *ignore.Meter // of both
	gitList  []envelope.Ignore
	ownList  []envelope.Ignore

	found []found
	bytes int64
}

// found is a regular file before it is read.
type found struct {
	name  string
	st    unix.Stat_t
	read  time.Time // when it was opened for that
	known bool      // by the cache
}

// maxRules bounds one file of ignore rules, maxMatching what all of them take:
// a user waits, and can end it.
const (
	maxRules    = envelope.MaxIgnoreBytes / 4
	maxMatching = 8 * ignore.Work
)

// exclude reads the rules that git keeps beside the tree.
func (w *walk) exclude() {
	if text := w.rules(int(w.root.Fd()), ".git/info/exclude"); text != "" {
		w.git.Add("", text)
		w.gitList = append(w.gitList, envelope.Ignore{Rules: text})
	}
}

// rules returns the text of a file of rules, "" where there is none that can
// be read.
func (w *walk) rules(dir int, name string) string {
	f, st, err := openRegular(dir, name)
	if err != nil || st.Size > maxRules {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRules))
	if err != nil {
		return ""
	}
	return string(text)
}

func (w *walk) visit(dir string, fd int, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	at := strings.TrimPrefix(dir, ".")
	if text := w.rules(fd, ".gitignore"); text != "" && !below(at, ".git") {
		w.git.Add(at, text)
		w.gitList = append(w.gitList, envelope.Ignore{Dir: at, Rules: text})
	}
	if text := w.rules(fd, ".callcellignore"); text != "" {
		w.own.Add(at, text)
		w.ownList = append(w.ownList, envelope.Ignore{Dir: at, Rules: text})
	}
	// A descriptor of its own for the reading: the walk keeps fd for opening.
	own, err := beneath(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return &PathError{"read", dir, err}
	}
	f := os.NewFile(uintptr(own), dir)
	defer f.Close()
	for {
		names, err := f.Readdirnames(512)
		for _, base := range names {
			if err := w.entry(fd, dir, base, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &PathError{"read", dir, err}
		}
	}
}

func below(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// entry takes one name of a directory.
func (w *walk) entry(fd int, dir, base string, depth int) error {
	name := path.Join(dir, base)
	if w.left--; w.left < 0 {
		return &CapError{What: fmt.Sprintf("more than %d names", w.o.Limits.Entries), Name: dir, Hint: capHint}
	}
	if ignore.Guarded(base) != "" && !(w.o.Git && name == ".git") {
		w.tree.Skips.add(name, SkipGit)
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		w.tree.Skips.add(name, SkipUnreadable) // or gone meanwhile
		return nil
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !below(name, ".git") && w.out(name, isDir) {
		w.tree.Ignored++
		return nil
	}
	if w.meter.Over() {
		return &CapError{What: "ignore rules that take too long to be held against its names", Name: name, Hint: "simpler rules, or fewer of them, in .gitignore and .callcellignore"}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return w.enter(fd, name, base, depth)
	case unix.S_IFREG:
		return w.take(name, st)
	}
	w.tree.Skips.add(name, kindWords(st.Mode))
	return nil
}

func kindWords(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return SkipLink
	case unix.S_IFIFO:
		return SkipFifo
	case unix.S_IFSOCK:
		return SkipSocket
	}
	return SkipDevice
}

// out reports whether the rules leave a name out. What .callcellignore says
// stands, either way.
func (w *walk) out(name string, dir bool) bool {
	if out, said := w.own.Says(name, dir, w.meter); said {
		return out
	}
	out, _ := w.git.Says(name, dir, w.meter)
	return out
}

func (w *walk) enter(fd int, name, base string, depth int) error {
	if depth+1 >= w.o.Limits.Depth {
		return &CapError{What: fmt.Sprintf("directories more than %d deep", w.o.Limits.Depth), Name: name, Hint: capHint}
	}
	sub, err := beneath(fd, base, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	switch {
	case errors.Is(err, unix.EXDEV):
		w.tree.Skips.add(name, SkipMount)
		return nil
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, ErrUnsupported):
		return err
	case err != nil:
		w.tree.Skips.add(name, SkipUnreadable)
		return nil
	}
	defer unix.Close(sub)
	return w.visit(name, sub, depth+1)
}

const capHint = "leave out what the call does not need: .callcellignore has the words of .gitignore"

func (w *walk) take(name string, st unix.Stat_t) error {
	limits := w.o.Limits
	switch {
	case envelope.CheckName(name) != nil:
		w.tree.Skips.add(name, SkipName)
		return nil
	case st.Size > limits.File:
		return &CapError{What: "a file of more than " + envelope.Size(limits.File).String(), Name: name, Hint: capHint}
	case len(w.found) >= limits.Files:
		return &CapError{What: fmt.Sprintf("more than %d files", limits.Files), Hint: capHint}
	}
	if w.bytes += st.Size; w.bytes > limits.Bytes {
		return &CapError{What: "more than " + envelope.Size(limits.Bytes).String(), Name: name, Hint: capHint}
	}
	w.found = append(w.found, found{name: name, st: st})
	return nil
}

// readers is how many files are read at once: most of it is waiting for the
// disk, the rest is digesting.
const readers = 4

// load reads the files.
func (w *walk) load() error {
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	files := make([]*File, len(w.found))
	done := make(chan int, readers)
	var workers sync.WaitGroup
	next := make(chan int)
	for range readers {
		workers.Go(func() {
			for i := range next {
				f, err := w.loadOne(&w.found[i])
				if err != nil {
					cancel(err)
					return
				}
				files[i] = f
				select {
				case done <- i:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	w.feed(ctx, next, done, files)
	close(next)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, f := range files {
		if f.Name != "" {
			w.tree.Files = append(w.tree.Files, *f)
			w.tree.Bytes += int64(len(f.Data))
		}
	}
	return nil
}

// feed hands out the files, and returns when each is done or ctx is.
func (w *walk) feed(ctx context.Context, next chan<- int, done <-chan int, files []*File) {
	var bytes int64
	for sent, ended := 0, 0; ended < len(files); {
		feeding := next
		if sent == len(files) {
			feeding = nil
		}
		select {
		case feeding <- sent:
			sent++
		case i := <-done:
			ended++
			bytes += int64(len(files[i].Data))
			if w.o.Progress != nil && ended%256 == 0 {
				w.o.Progress(ended, bytes)
			}
		case <-ctx.Done():
			return
		}
	}
}

// loadOne reads one file, unless it is known. One that has gone or that may not
// be read is a File without a name.
func (w *walk) loadOne(at *found) (*File, error) {
	if known, ok := w.o.Cache.find(&at.st); ok {
		at.known = true
		return &File{Name: at.name, Executable: at.st.Mode&0o100 != 0, Data: w.o.Cache.bytesOf(known), Sum: known.Sum}, nil
	}
	at.read = time.Now()
	fd, err := beneath(int(w.root.Fd()), at.name, unix.O_RDONLY, 0) // the walk has seen a regular file there
	if err != nil {
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.EIO) {
			return nil, &PathError{"read", at.name, err}
		}
		return &File{}, nil
	}
	defer unix.Close(fd)
	was := at.st.Size
	if err := unix.Fstat(fd, &at.st); err != nil {
		return nil, &PathError{"read", at.name, err}
	}
	if at.st.Mode&unix.S_IFMT != unix.S_IFREG || at.st.Size != was {
		return nil, &PathError{"read", at.name, ErrChanging}
	}
	data, err := readSized(fd, was)
	if err != nil {
		return nil, &PathError{"read", at.name, err}
	}
	return &File{Name: at.name, Executable: at.st.Mode&0o100 != 0, Data: data, Sum: sha256.Sum256(data)}, nil
}

// readSized reads a file that has size bytes, no fewer and no more.
func readSized(fd int, size int64) ([]byte, error) {
	data := make([]byte, size+1)
	n := 0
	for n < len(data) {
		got, err := unix.Read(fd, data[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		n += got
		if got == 0 || int64(n) == size { // the end: a file that has more gives more at once
			break
		}
	}
	if int64(n) != size {
		return nil, ErrChanging
	}
	return data[:n:n], nil
}

// finish says what is known when all is read.
func (w *walk) finish() {
	w.tree.Ignore = append(w.gitList, w.ownList...)
	names := make([]string, 0, len(w.tree.Files))
	for _, f := range w.tree.Files {
		names = append(names, f.Name)
	}
	w.tree.Twins = twins(names)
	for i := range w.found {
		if _, ok := w.tree.find(w.found[i].name); !ok {
			w.tree.Skips.add(w.found[i].name, SkipUnreadable)
		}
	}
	w.tree.Cached = w.o.Cache.learn(w.tree, w.found)
}
