package erofs

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/image/fstree"
)

// A sample is a tree with its files' bytes.
type sample struct {
	root  *fstree.Node
	bytes map[*fstree.Node][]byte
}

func newSample() *sample {
	return &sample{root: fstree.NewDir(), bytes: map[*fstree.Node][]byte{}}
}

// put places a node, and makes the directories above it.
func (s *sample) put(path string, n *fstree.Node) *fstree.Node {
	dir := s.root
	names := strings.Split(path, "/")
	for _, name := range names[:len(names)-1] {
		if dir.Entries[name] == nil {
			dir.Entries[name] = fstree.NewDir()
			dir.Entries[name].SetTime(int64(len(path)), len(name))
		}
		dir = dir.Entries[name]
	}
	dir.Entries[names[len(names)-1]] = n
	return n
}

func (s *sample) file(path, data string) *fstree.Node {
	n := s.put(path, &fstree.Node{Kind: fstree.File, Links: 1, Size: int64(len(data)), Sum: sha256.Sum256([]byte(data))})
	n.SetTime(1_700_000_000+int64(len(path)), 123_456_789)
	n.Exec = len(data)%2 == 1
	s.bytes[n] = []byte(data)
	return n
}

func (s *sample) symlink(path, target string) {
	s.put(path, &fstree.Node{Kind: fstree.Symlink, Links: 1, Target: target, Sec: 1<<31 + 5})
}

// files calls f for each file of a tree, once, in the order of their names.
func files(dir *fstree.Node, seen map[*fstree.Node]bool, f func(*fstree.Node) error) error {
	for _, name := range dir.Names() {
		n := dir.Entries[name]
		var err error
		switch {
		case n.Kind == fstree.Dir:
			err = files(n, seen, f)
		case n.Kind == fstree.File && !seen[n]:
			seen[n] = true
			err = f(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write makes an image of a sample.
func (s *sample) write(f File) error {
	w := NewWriter(f)
	err := files(s.root, map[*fstree.Node]bool{}, func(n *fstree.Node) error {
		n.Block = w.Block()
		for data := s.bytes[n]; len(data) > 0; {
			part := data[:min(len(data), 1000)]
			if _, err := w.Write(part); err != nil {
				return err
			}
			data = data[len(part):]
		}
		return w.Pad()
	})
	if err != nil {
		return err
	}
	return w.Finish(s.root)
}

// image writes a sample into a file.
func (s *sample) image(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.write(f); err != nil {
		t.Fatal(err)
	}
	return name
}

// lines are what a reader should find, as the one of gVisor is made to print it.
func (s *sample) lines() (all []string) {
	var walk func(n *fstree.Node, path string)
	walk = func(n *fstree.Node, path string) {
		mode, size, links, what := 0o100644, n.Size, int(n.Links), fmt.Sprintf("%x", n.Sum)
		switch {
		case n.Kind == fstree.Dir:
			mode, size, links, what = 0o40755, dirSize(n), 2, ""
			for _, child := range n.Entries {
				if child.Kind == fstree.Dir {
					links++
				}
			}
		case n.Kind == fstree.Symlink:
			mode, size, what = 0o120777, int64(len(n.Target)), n.Target
		case n.Exec:
			mode = 0o100755
		}
		all = append(all, fmt.Sprintf("%q %o %d %d.%09d %d %q", path, mode, size, n.Sec, n.Nsec, links, what))
		for _, name := range n.Names() {
			walk(n.Entries[name], path+"/"+name)
		}
	}
	walk(s.root, "")
	return all
}

// samples are trees at every edge of the format.
func samples() map[string]*sample {
	all := map[string]*sample{}
	add := func(name string, fill func(s *sample)) {
		all[name] = newSample()
		fill(all[name])
	}
	add("nothing", func(*sample) {})
	add("sizes of files", func(s *sample) {
		for _, n := range []int{0, 1, 4095, 4096, 4097, 8192, 1<<20 + 1} {
			s.file(fmt.Sprintf("f%d", n), strings.Repeat("x", n))
		}
	})
	add("lengths of links", func(s *sample) {
		for _, n := range []int{1, 100, 4031, 4032, 4033, 4095} {
			s.symlink(fmt.Sprintf("l%d", n), strings.Repeat("t", n))
		}
	})
	add("names before the dot, of bytes, and twins", func(s *sample) {
		for _, name := range []string{"!", "-", "+", "..a", "...", ".a", "\x01", "\xff\xfe", "A", "a", "\u00e9", "e\u0301", "\n"} {
			s.file(name, name)
		}
	})
	add("hard links", func(s *sample) {
		n := s.file("a/b", "text")
		n.Links = 3
		s.put("c", n)
		s.put("a/d", n)
	})
	add("deep", func(s *sample) { s.file(strings.Repeat("d/", fstree.MaxDepth-1)+"f", "1") })
	add("long names", func(s *sample) {
		for i := range 40 {
			s.file(fmt.Sprintf("%s%03d", strings.Repeat("n", 252), i), "1")
		}
	})
	add("many names", func(s *sample) {
		for i := range 3000 {
			s.file(fmt.Sprintf("d/%s%d", strings.Repeat("n", i%50), i), "")
		}
	})
	add("directories of every size about a block", func(s *sample) {
		const dots = 2*direntSize + 3
		for size := blockSize - 80; size < blockSize+40; size++ {
			dir, rest := fmt.Sprintf("d%d/", size), size-dots
			for i := 0; rest > 0; i++ { // each of at most 267 bytes, none below 20
				n := min(rest, 200)
				if rest-n > 0 && rest-n < 20 {
					n -= 20
				}
				s.symlink(fmt.Sprintf("%s%s%03d", dir, strings.Repeat("n", n-direntSize-3), i), "x")
				rest -= n
			}
		}
	})
	return all
}
