package vm

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/callcell/callcell/internal/testing/helpers"
)

// programs are those that the tests' own scripts, in cells or not, call.
func programs() []string {
	return strings.Fields(`sh bash env cat head tail yes sleep timeout printf echo true false test ls cp mv rm ln mkdir mkfifo mknod rmdir
		touch truncate chmod chown stat wc sort tr cut seq id hostname pwd tee uname date dd du df readlink realpath
		paste printenv nohup find grep sed awk setsid flock mount umount unshare chroot getent kill su python3`)
}

// libraries are those that programs load by name while they run.
func libraries() []string { return []string{"librt.so.1", "libgcc_s.so.1", "libc.so.6"} }

// settings are what a cell's image has of /etc, and the tests' own kernel needs
// of the rest; what is not there is done without.
func settings() []string {
	return []string{"/etc/ld.so.cache", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/protocols", "/etc/services",
		"/etc/ssl/openssl.cnf", "/usr/lib/os-release", "/usr/lib/locale/C.utf8"}
}

// Sandbox makes the image that cells with a kernel of their own have for a root,
// beside their helpers: what its tests run in one, and no more.
func Sandbox(bin string) error {
	names := strings.Fields("sh bash cat env yes head ls printf sleep setsid truncate mkdir mkfifo ln test true false id uname rm dd seq wc sort grep sed timeout touch stat uniq chmod tr cut python3")
	libraries, err := filepath.Glob("/usr/lib/python3*/lib-dynload/*.so")
	if err != nil {
		return err
	}
	python, err := filepath.Glob("/usr/lib/python3*")
	if err != nil {
		return err
	}
	_, err = helpers.Image(bin, append(names, libraries...), append(python, "/usr/lib/locale/C.utf8", "/etc/ld.so.cache"))
	return err
}

// An Image is the archive with files of this host in it, each where it is on
// the host, with the links that lead there and the libraries it needs.
type Image struct{ *Archive }

// Programs adds programs, their libraries, and Python's own.
func (i Image) Programs() error {
	for _, name := range programs() {
		file, err := program(name)
		if err != nil {
			return err
		}
		if err := i.Take(file); err != nil {
			return err
		}
	}
	for _, name := range libraries() {
		if err := i.library(name, nil); err != nil {
			return err
		}
	}
	for _, name := range append(settings(), "/bin", "/sbin", "/lib", "/lib64") {
		if err := i.Take(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return i.python()
}

// program finds a program where a cell finds it, not where this user does.
func program(name string) (string, error) {
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"} {
		if file, err := exec.LookPath(path.Join(dir, name)); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("the tests call %s, which is not in /usr/bin of this host", name)
}

// python adds the standard library, but for what no program of a test imports.
func (i Image) python() error {
	const where = `import sysconfig; print(sysconfig.get_path("stdlib")); print(sysconfig.get_path("platstdlib"))`
	out, err := exec.Command("/usr/bin/python3", "-I", "-c", where).Output()
	if err != nil {
		return fmt.Errorf("ask python3 for its library: %w", err)
	}
	for _, dir := range strings.Fields(string(out)) {
		if err := i.Tree(dir, dir, func(name string) bool {
			return slices.ContainsFunc(strings.Fields("test idlelib lib2to3 pydoc_data ensurepip distutils tkinter turtledemo config-* site-packages dist-packages"),
				func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok })
		}); err != nil {
			return err
		}
	}
	return nil
}

// Tree adds a directory of the host under a name of its own. Entries at its
// top are left out where skip says so.
func (i Image) Tree(dir, as string, skip func(name string) bool) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
		if rel != "" && !strings.Contains(rel, "/") && skip != nil && skip(rel) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		switch {
		case d.IsDir():
			i.Dir(path.Join(as, rel), 0o755)
			return nil
		case as == dir:
			return i.Take(name)
		}
		return i.Copy(name, path.Join(as, rel))
	})
}

// Copy adds one regular file of the host under another name.
func (i Image) Copy(name, as string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	i.File(as, uint32(info.Mode().Perm()), data)
	return nil
}

// Take adds a file, a directory without what is in it, or a link and what it
// leads to.
func (i Image) Take(name string) error { return i.take(name, 32) }

func (i Image) take(name string, links int) error {
	at, rest := "/", strings.Split(strings.Trim(path.Clean(name), "/"), "/")
	for k, part := range rest {
		at = path.Join(at, part)
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		target, err := os.Readlink(at)
		if err != nil {
			return err
		}
		if links == 0 {
			return fmt.Errorf("%s: too many links", name)
		}
		i.Link(at, target)
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(at), target)
		}
		return i.take(path.Join(append([]string{target}, rest[k+1:]...)...), links-1)
	}
	return i.plain(at)
}

// plain adds what no link leads to.
func (i Image) plain(name string) error {
	info, err := os.Stat(name)
	if err != nil || i.Has(name) {
		return err
	}
	if info.IsDir() {
		i.Dir(name, 0o755)
		return nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	i.File(name, uint32(info.Mode().Perm()), data)
	if !bytes.HasPrefix(data, []byte(elf.ELFMAG)) {
		return nil
	}
	return i.needs(name, data)
}

// needs adds the dynamic linker of a program or library, and the libraries
// that it names.
func (i Image) needs(name string, data []byte) error {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		linker := make([]byte, p.Filesz)
		if _, err := p.ReadAt(linker, 0); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := i.Take(strings.TrimRight(string(linker), "\x00")); err != nil {
			return err
		}
	}
	own, err := f.DynString(elf.DT_RUNPATH)
	if err != nil {
		return nil // static
	}
	libs, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, lib := range libs {
		if err := i.library(lib, own); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// library finds a library where the dynamic linker looks for it.
func (i Image) library(name string, own []string) error {
	usual := []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}
	for _, dir := range append(own, usual...) {
		file := path.Join(dir, name)
		if _, err := os.Stat(file); err == nil {
			return i.Take(file)
		}
	}
	return fmt.Errorf("the library %s is not to be found", name)
}
