package helpers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/callcell/callcell/internal/launcher/template"
)

// Runsc builds callcell-runsc into dir; it is kept outside the tree from build
// to build.
func Runsc(dir string) error {
	c := exec.Command("scripts/build-runsc")
	c.Dir, c.Env = Root(), append(os.Environ(), "RUNSC_OUT="+filepath.Join(dir, "callcell-runsc"))
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build callcell-runsc: %w\n%s", err, out)
	}
	return nil
}

// Guest builds callcell-guest-probe, which plays the first process of a sandbox
// in the launcher's tests, into dir.
func Guest(dir string) error {
	c := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "callcell-guest-probe"), "./internal/launcher/testdata/guest")
	c.Dir, c.Env = Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build callcell-guest-probe: %w\n%s", err, out)
	}
	return nil
}

// Image makes an EROFS image of what a cell's root is mounted on, with these
// programs of this host, what they are linked with, these directories, and the
// files of our own that a snapshot of this host has, at
// path/root.erofs. Programs are looked for where a cell looks for them; libraries
// are named by their paths.
func Image(path string, programs, dirs []string) (image string, err error) {
	bin := filepath.Join(path, "callcell-image")
	build := exec.Command("go", "build", "-trimpath", "-o", bin, "./cmd/callcell-image")
	build.Dir, build.Env = Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build callcell-image: %w\n%s", err, out)
	}
	names := []string{"usr/lib"} // or the archive is empty
	for _, root := range []string{"bin", "sbin", "lib", "lib64"} {
		if _, err := os.Lstat("/" + root); err == nil {
			names = append(names, root)
		}
	}
	for _, program := range programs {
		more, err := closure(program)
		if err != nil {
			return "", err
		}
		names = append(names, more...)
	}
	for _, dir := range dirs {
		names = append(names, strings.TrimPrefix(dir, "/"))
	}
	if err := pack(bin, path, names[1:]); err != nil {
		return "", err
	}
	return filepath.Join(path, "root.erofs"), nil
}

// closure are a program and what it is linked with, links on the way too, as
// names below the root.
func closure(program string) (names []string, err error) {
	dirs := []string{"/usr/local/bin", "/usr/bin", "/usr/sbin"}
	if filepath.IsAbs(program) {
		dirs = []string{"/"}
	}
	for _, dir := range dirs {
		if names, err = chain(filepath.Join(dir, program)); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	out, err := exec.Command("ldd", "/"+names[len(names)-1]).CombinedOutput()
	if err != nil {
		return names, nil // not linked with anything
	}
	for line := range strings.Lines(string(out)) {
		for field := range strings.FieldsSeq(line) {
			if strings.HasPrefix(field, "/") {
				more, err := chain(field)
				if err != nil {
					return nil, err
				}
				names = append(names, more...)
			}
		}
	}
	return names, nil
}

// chain are a file and all that links lead to from it, each where its directory
// really is.
func chain(path string) (names []string, err error) {
	for range 8 {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dir, filepath.Base(path))
		info, err := os.Lstat(path)
		if err != nil {
			return nil, err
		}
		names = append(names, path[1:])
		if info.Mode().Type() != os.ModeSymlink {
			return names, nil
		}
		to, err := os.Readlink(path)
		if err != nil {
			return nil, err
		}
		if path = to; !filepath.IsAbs(to) {
			path = filepath.Join(dir, to)
		}
	}
	return nil, errors.New(path + ": too many links")
}

// pack makes the image of an archive of those names.
func pack(bin, path string, names []string) error {
	args := append([]string{"-C", "/", "--exclude=__pycache__", "--exclude=usr/lib/python3*/test", "-cf", "-"}, names...)
	own := filepath.Join(path, "own")
	for _, f := range template.Files() {
		name := filepath.Join(own, f.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(f.Text), 0o644)); err != nil {
			return err
		}
	}
	archive := exec.Command("tar", append(args, "-C", own, "etc")...)
	answer, err := os.Create(filepath.Join(path, "answer"))
	if err != nil {
		return err
	}
	defer answer.Close()
	unpack := exec.Command(bin, "unpack", "-at", path, "-dir=false", "-erofs=true", "-mountpoints=true", "-bytes", "2000000000", "-entries", "100000")
	unpack.ExtraFiles = []*os.File{answer}
	if unpack.Stdin, err = archive.StdoutPipe(); err != nil {
		return err
	}
	if err := archive.Start(); err != nil {
		return err
	}
	out, err := unpack.CombinedOutput()
	if err := errors.Join(err, archive.Wait()); err != nil {
		said, _ := os.ReadFile(answer.Name()) // beside the error that there is
		return fmt.Errorf("make an image: %w: %.500s%.500s", err, out, said)
	}
	return os.Chmod(filepath.Join(path, "root.erofs"), 0o644)
}
