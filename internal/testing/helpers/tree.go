package helpers

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Tree returns a tar stream of programs of this host, with the libraries that
// they need, and of whole directories: what a small root is made of. more are
// files of its own, by name; a text that begins with "-> " is a link.
func Tree(programs, dirs []string, more map[string]string) ([]byte, error) {
	files := map[string]string{} // name in the tree: path
	for _, p := range programs {
		if err := addProgram(files, p); err != nil {
			return nil, err
		}
	}
	for _, d := range dirs {
		err := filepath.WalkDir(d, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				files[path[1:]] = path
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(files[name])
		if err != nil {
			return nil, err
		}
		if err := addFile(w, name, text, 0o755); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		if err := addFile(w, name, []byte(more[name]), 0o644); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// addProgram adds a program and its libraries, where the dynamic linker looks
// for them.
func addProgram(files map[string]string, path string) error {
	files[path[1:]] = path
	out, err := exec.Command("ldd", path).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "not a dynamic executable") {
		return fmt.Errorf("ldd %s: %w\n%s", path, err, out)
	}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			files[strings.TrimSuffix(word, ":")[1:]] = word
		}
	}
	return nil
}

func addFile(w *tar.Writer, name string, text []byte, mode int64) error {
	h := &tar.Header{Name: name, Mode: mode, Size: int64(len(text)), Typeflag: tar.TypeReg}
	if target, ok := strings.CutPrefix(string(text), "-> "); ok && mode == 0o644 {
		h.Typeflag, h.Linkname, h.Size, text = tar.TypeSymlink, target, 0, nil
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}
