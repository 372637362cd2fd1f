package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeKernel plays a cgroup file system in a plain directory: a new directory
// is born with the files of its version, and rmdir takes them along. Limits are
// stored, nothing is enforced.
type fakeKernel struct {
	cgroupfs
	files map[string]string // of a new directory

	mu     sync.Mutex
	writes []string          // guarded by mu; "file=value" in order
	fail   map[string]error  // fixed; answer to a write ("file=value" or "file"), mkdir or rmdir ("mkdir name")
	bend   map[string]string // fixed; what a file reads whatever was written
}

var (
	filesV1 = map[string]string{
		"cgroup.procs": "", "tasks": "", "cgroup.event_control": "", "cpu.cfs_period_us": "100000\n", "cpu.cfs_quota_us": "-1\n",
		"memory.limit_in_bytes": "9223372036854771712\n", "memory.memsw.limit_in_bytes": "9223372036854771712\n",
		"memory.kmem.tcp.limit_in_bytes": "9223372036854771712\n",
		"memory.swappiness":              "60\n", "memory.usage_in_bytes": "4096\n", "memory.max_usage_in_bytes": "8192\n",
		"memory.failcnt": "3\n", "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		"pids.max": "max\n", "pids.events": "max 1\n", "cpuacct.usage": "2000000\n", "cpuacct.stat": "user 1\nsystem 2\n",
	}
	filesV2 = map[string]string{
		"cgroup.procs": "", "cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": "\n",
		"cgroup.kill": "", "cgroup.events": "populated 0\nfrozen 0\n",
		"memory.max": "max\n", "memory.swap.max": "max\n", "memory.oom.group": "0\n", "memory.current": "4096\n",
		"memory.peak": "8192\n", "memory.events": "low 0\nmax 3\noom 1\noom_kill 2\n",
		"pids.max": "max\n", "pids.events": "max 1\n", "pids.peak": "4\n",
		"cpu.max": "max 100000\n", "cpu.stat": "usage_usec 2000\nuser_usec 1000\nsystem_usec 1000\n",
	}
)

func (k *fakeKernel) mkdir(dir int, name string) error {
	if err := k.fail["mkdir "+name]; err != nil {
		return err
	}
	if err := k.cgroupfs.mkdir(dir, name); err != nil {
		return err
	}
	fd, err := openDir(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for file, text := range k.files {
		if err := store(fd, file, text, unix.O_CREAT); err != nil {
			return err
		}
	}
	return nil
}

func (k *fakeKernel) rmdir(dir int, name string) error {
	if err := k.fail["rmdir "+name]; err != nil {
		return err
	}
	fd, err := openDir(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for file := range k.files {
		if err := unix.Unlinkat(fd, file, 0); err != nil {
			return err
		}
	}
	return k.cgroupfs.rmdir(dir, name)
}

func (k *fakeKernel) read(dir int, file string, limit int) (string, error) {
	text, err := k.cgroupfs.read(dir, file, limit)
	if bent, ok := k.bend[file]; ok && err == nil {
		return bent, nil
	}
	return text, err
}

func (k *fakeKernel) write(dir int, file, value string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes = append(k.writes, file+"="+value)
	for _, key := range []string{file, file + "=" + value} {
		if err := k.fail[key]; err != nil {
			return err
		}
	}
	if file == "cgroup.subtree_control" {
		old, err := k.cgroupfs.read(dir, file, smallFile)
		if err != nil {
			return err
		}
		value = strings.TrimSpace(strings.TrimSuffix(old, "\n") + " " + strings.TrimPrefix(value, "+"))
	}
	return store(dir, file, value+"\n", 0)
}

func (k *fakeKernel) set(dir int, file, value string) (string, error) {
	if err := k.write(dir, file, value); err != nil {
		return "", err
	}
	return k.read(dir, file, smallFile)
}

func (k *fakeKernel) written() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.writes)
}

func store(dir int, file, text string, flags int) error {
	fd, err := unix.Openat(dir, file, unix.O_WRONLY|unix.O_TRUNC|unix.O_CLOEXEC|flags, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// fakeTree opens a fake tree of a version and returns its directory, too.
func fakeTree(t *testing.T, version int, k *fakeKernel) (*Tree, string, error) {
	t.Helper()
	top := t.TempDir()
	if version == 1 {
		k.files = without(filesV1, k.files)
		var mounts []mount
		for _, controllers := range []string{"cpu,cpuacct", "memory", "pids"} {
			point := filepath.Join(top, controllers)
			if err := os.Mkdir(point, 0o700); err != nil {
				t.Fatal(err)
			}
			mounts = append(mounts, mount{point, strings.Split(controllers, ",")})
		}
		tree, err := openV1(k, mounts, []string{"callcell"}, func(int) error { return nil })
		return closing(t, tree), top, err
	}
	k.files = without(filesV2, k.files)
	fd, err := openDir(unix.AT_FDCWD, top)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := k.mkdir(fd, "root"); err != nil {
		t.Fatal(err)
	}
	root, err := openDir(fd, "root")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	tree, err := openV2(k, root, []string{"a.slice", "callcell"})
	return closing(t, tree), filepath.Join(top, "root"), err
}

// without is all but the keys of less.
func without(all, less map[string]string) map[string]string {
	rest := make(map[string]string)
	for file, text := range all {
		if _, ok := less[file]; !ok {
			rest[file] = text
		}
	}
	return rest
}

func closing(t *testing.T, tree *Tree) *Tree {
	if tree != nil {
		t.Cleanup(func() { check(t, tree.Close()) })
	}
	return tree
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// dirsBelow lists the directories below path, relative to it, sorted.
func dirsBelow(t *testing.T, path string) []string {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && p != path {
			dirs = append(dirs, strings.TrimPrefix(p, path+"/"))
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return dirs
}
