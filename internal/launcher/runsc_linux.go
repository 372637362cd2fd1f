package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/vfork"
)

// stamp is what callcell-runsc ends in, before its version and a newline:
// scripts/build-runsc writes it.
const stamp = "\x00callcell-runsc: "

// maxStamp is how much of a file's end is looked at.
const maxStamp = 256

// errRunsc is a runsc that cells are not made with.
var errRunsc = errors.New("not a runsc to make cells with")

// openRunsc opens the binary that the configuration has, and returns its
// version. It is the file behind the descriptor that was looked at.
func (h *host) openRunsc() (fd int, version string, err error) {
	path := h.conf.Runsc.Path
	if fd, err = unix.Open(h.helper(path), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return -1, "", fmt.Errorf("%s: %w (make build puts it beside callcell-launcher; runsc.path names another)", path, err)
	}
	version, err = runscVersion(fd)
	if err == nil && version != h.conf.Runsc.Version {
		err = fmt.Errorf("%w: it is %.128q, and %s is wanted (make build makes that; runsc.version in launcher.conf names another)", errRunsc, version, h.conf.Runsc.Version)
	}
	if err != nil {
		unix.Close(fd)
		return -1, "", fmt.Errorf("%s: %w", path, err)
	}
	return fd, version, nil
}

// runscVersion returns the version that is stamped on a binary, which anybody
// must be able to read: from one that is execute-only, the kernel lets nobody
// trace the sandbox's processes.
func runscVersion(fd int) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o005 != 0o005 {
		return "", fmt.Errorf("%w: every user must be able to read and execute it", errRunsc)
	}
	b := make([]byte, maxStamp)
	n, err := unix.Pread(fd, b, max(st.Size-maxStamp, 0))
	if err != nil {
		return "", err
	}
	_, version, stamped := strings.Cut(string(b[:n]), stamp)
	version, whole := strings.CutSuffix(version, "\n")
	if !stamped || !whole {
		return "", fmt.Errorf("%w: it has no stamp of scripts/build-runsc", errRunsc)
	}
	return version, nil
}

// helper returns the path of a program: of the configuration, or beside us.
func (h *host) helper(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(h.helpers, name)
}

// runsc returns the version that cells with a kernel of their own are made with
// here, or why there are none.
func (h *host) runsc() (version, refused string) {
	if err := checkTracing(); err != nil {
		return "", err.Error()
	}
	fd, version, err := h.openRunsc()
	if err != nil {
		return "", clip(err.Error())
	}
	unix.Close(fd)
	if err := unix.Access(h.helper(h.conf.Runsc.Guest), unix.R_OK); err != nil {
		return version, clip(fmt.Sprintf("%s: %v (make build puts it beside callcell-launcher; runsc.guest names another)", h.conf.Runsc.Guest, err))
	}
	return version, ""
}

// checkTracing: gVisor's platform traces processes that it has made itself, and
// has no capability.
func checkTracing() error {
	if !vfork.Supported {
		return &hostError{"cells have not been run on this architecture", "amd64 is the one that is supported", errors.ErrUnsupported}
	}
	text, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if scope := string(bytes.TrimSpace(text)); err == nil && (scope == "2" || scope == "3") {
		return &hostError{"this host lets only its administrator trace processes", "sysctl kernel.yama.ptrace_scope=1; 3 stays until the host starts anew", unix.EPERM}
	}
	return nil
}
