package helpers

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
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
	if files[path[1:]] != "" {
		return nil
	}
	files[path[1:]] = path
	f, err := elf.Open(path)
	var noELF *elf.FormatError
	if errors.As(err, &noELF) {
		return nil // a script
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if s := f.Section(".interp"); s != nil {
		linker, err := s.Data()
		if err != nil {
			return err
		}
		if err := addProgram(files, strings.TrimRight(string(linker), "\x00")); err != nil {
			return err
		}
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, name := range needed {
		lib, err := library(name)
		if err != nil {
			return err
		}
		if err := addProgram(files, lib); err != nil {
			return err
		}
	}
	return nil
}

// library finds a library where the dynamic linker does without being told.
func library(name string) (string, error) {
	for _, pattern := range []string{"/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*", "/lib64", "/usr/lib64", "/lib", "/usr/lib"} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, dir := range dirs {
			file := filepath.Join(dir, name)
			if _, err := os.Stat(file); err == nil {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("helpers: no library %s", name)
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
