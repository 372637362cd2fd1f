package helpers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// ErrNoImages means that this host cannot make images.
var ErrNoImages = errors.New("mkfs.erofs is missing (package erofs-utils)")

// EmptyImage makes an EROFS image, image, of what a cell's root is mounted on
// and nothing else.
func EmptyImage(image string) error {
	root, err := os.MkdirTemp("", "callcell-root-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := mountpoints(root); err != nil {
		return err
	}
	return pack(image, root)
}

// mountpoints makes the directories and files that a cell's root is mounted on.
func mountpoints(root string) error {
	for _, dir := range []string{"proc", "dev", "sys", "tmp", "work", "run", "opt/callcell", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"resolv.conf", "hosts", "nsswitch.conf", "hostname", "passwd", "group"} {
		if err := os.WriteFile(filepath.Join(root, "etc", name), nil, 0o644); err != nil {
			return err
		}
	}
	return os.Chmod(root, 0o755)
}

func pack(image, root string) error {
	mkfs, err := exec.LookPath("mkfs.erofs")
	if err != nil {
		return ErrNoImages
	}
	out, err := exec.Command(mkfs, "-d0", "-Enoinline_data", "--all-root", "-x-1", image, root).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.erofs: %w: %.500s", err, out)
	}
	return nil
}
