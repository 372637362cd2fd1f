package launcher

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/images"
	"github.com/callcell/callcell/internal/launcher/seccomp"
	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/launcher/vfork"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// A host is what all cells of this launcher share. It is built once and not
// changed after.
type host struct {
	conf     conf.Config
	helpers  string // directory of callcell-init
	groups   *cgroup.Tree
	claim    int // of the groups' parent; the reaper has it too
	uids     *uids
	netns    *netns
	images   *images.Store
	slice    *ground       // the template of this host's slice: there from the start
	grounds  grounds       // the others
	built    chan error    // the slice's, once
	init     []byte        // the text of callcell-init
	over     chan struct{} // closed when the conversation is
	late     atomic.Bool   // set a while after: work on trees ends where it is
	reaper   *reaper
	filter   []unix.SockFilter
	landlock int
	lastCap  int
	common   [32]byte // digest of what bounds every cell: list, filter, slice
	kernel   string
	sentries sentries
	weaker   []string // what is, here; see missing

	// building is held while a cell, a process of ours, or a template is built:
	// one at a time. A child holds what we have open until its exec, and what is
	// open for writing cannot be made read-only.
	building sync.Mutex
	kept     []*lease // guarded by building: uids that what is left of dead cells may have
}

// A hostError is a host on which no cell can be built; the text says what is
// missing and how to get it.
type hostError struct {
	what, hint string
	err        error
}

func (e *hostError) Error() string {
	text := e.what
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	if e.hint != "" {
		text += " (" + e.hint + ")"
	}
	return text
}

func (e *hostError) Unwrap() error { return e.err }

// newHost takes this machine as it is; the host is ready when ready has
// returned. initPath is callcell-init, front our end of the front's socket.
func newHost(c conf.Config, initPath string, front int) (*host, error) {
	h := &host{conf: c, helpers: filepath.Dir(initPath), landlock: landlockABI(), lastCap: lastCap(), kernel: kernelRelease(), over: make(chan struct{})}
	h.images = images.New(c.Image.Dir, h.late.Load)
	if err := checkHost(); err != nil {
		return nil, err
	}
	if err := h.fitCells(); err != nil {
		return nil, err
	}
	h.netns = newNetns() // the slowest step runs beside the others
	var err error
	if h.init, err = os.ReadFile(initPath); err != nil {
		return nil, &hostError{"callcell-init cannot be read", "it belongs beside callcell-launcher; make build puts it there", err}
	}
	if err := ownDir(c.RunDir); err != nil {
		return nil, &hostError{"run.dir cannot be used", "", err}
	}
	if h.uids, err = newUIDs(leasesDir, c.UIDsFirst, c.UIDsCount); err != nil {
		return nil, &hostError{"uids cannot be leased", "where /run is read-only, mount a tmpfs of root's at " + leasesDir, err}
	}
	// No fork beside the template: a child would hold its files open for a
	// moment, and what is open for writing cannot be made read-only.
	if h.reaper, err = startReaper(initPath, front); err != nil {
		return nil, err
	}
	h.slice = &ground{thread: newThread()}
	h.built = make(chan error, 1)
	go func() { h.built <- h.slice.enter(c.RunDir, h.init, nil) }()
	if err = h.openGroups(); err != nil {
		return nil, err
	}
	if h.filter, err = seccomp.Cell(); err != nil {
		return nil, &hostError{"no system-call filter for this machine", "", err}
	}
	h.common = h.digest()
	return h, nil
}

// openGroups opens the place where cells' groups are made, claims it, and tells
// the reaper.
func (h *host) openGroups() (err error) {
	if h.groups, err = cgroup.Open(h.conf.CgroupRoot, h.conf.CgroupParent); err != nil {
		return &hostError{"ceilings cannot be enforced", "the cgroup controllers memory, pids and cpu must be there and writable", err}
	}
	if h.groups.Version() == 1 && !slices.Contains(h.groups.Controllers(), "cpuacct") {
		return &hostError{"CPU time cannot be enforced", "the cgroup controller cpuacct must be there", errors.ErrUnsupported}
	}
	if h.claim, err = h.groups.Claim(h.uids.owner()); err != nil {
		return unclaimed(h.conf.CgroupParent, err)
	}
	return h.reaper.setup(h.claim, h.groups.Parents())
}

// unclaimed says why there are no cells below a parent.
func unclaimed(parent string, err error) error {
	e := &hostError{"cgroup.parent " + parent + " cannot be claimed", "", err}
	if errors.Is(err, cgroup.ErrClaimed) {
		e.what = "cgroup.parent " + parent + " is used by a callcell that leases uids in another " + leasesDir + " than this one"
		e.hint = "as in a container, or where that was removed while it ran: end the other, " +
			"or give this one a cgroup.parent and a range of uids (uids.first) of its own in launcher.conf"
	}
	return e
}

// ready waits for the template, which is built beside all else.
func (h *host) ready() error { return <-h.built }

// dropBounding empties the calling thread's bounding set.
func dropBounding() {
	for c := 0; ; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
			return // EINVAL: past the last
		}
	}
}

func checkHost() error {
	if !vfork.Supported {
		return &hostError{"cells have not been run on this architecture", "amd64 is the one that is supported", errors.ErrUnsupported}
	}
	if os.Geteuid() != 0 {
		return &hostError{"the launcher needs root to make namespaces and groups", "start callcell as root; rootless is not built yet", unix.EPERM}
	}
	if b, err := os.ReadFile("/proc/sys/user/max_user_namespaces"); err == nil && strings.TrimSpace(string(b)) == "0" {
		return &hostError{"user namespaces are turned off", "sysctl user.max_user_namespaces", unix.ENOSPC}
	}
	return nil
}

// fdsPerCell is how many descriptors one cell takes at most, those of a
// request about it included.
const fdsPerCell = 24

// otherFDs is how many there are beside: our own, those of the processes that
// are no cells, the sockets of the one cell whose are handed over, what one
// template is laid out of, and the directories of the trees that are counted or
// claimed.
const otherFDs = 96 + wire.MaxFDs + template.LayoutFDs + unpackSlots*(images.MaxDepth+4)

// fitCells holds the number of cells to what the reaper can watch, and to the
// descriptors there are: a message whose descriptors cannot be received would
// be the end of all cells.
func (h *host) fitCells() error {
	if most := int64(reaperSlots - otherSlots); h.conf.Cells > most {
		return &hostError{fmt.Sprintf("%d cells are more than the reaper can watch", h.conf.Cells),
			fmt.Sprintf("set cells to at most %d in launcher.conf", most), nil}
	}
	fit := (hardNoFile() - otherFDs) / fdsPerCell
	if fit < 1 {
		return &hostError{"too few files may be open", "raise the hard limit: ulimit -n, LimitNOFILE=", unix.EMFILE}
	}
	if fit < h.conf.Cells {
		h.weaker = append(h.weaker, fmt.Sprintf("cells: %d at once, not %d; the limit of open files allows no more", fit, h.conf.Cells))
		h.conf.Cells = fit
	}
	return nil
}

// missing lists, a sentence each, what is weaker here than it could be.
func (h *host) missing() []string {
	m := slices.Clone(h.weaker)
	if h.landlock == 0 {
		m = append(m, "landlock: not in this kernel; the mount namespace alone holds the files")
	} else if h.landlock < 6 {
		m = append(m, fmt.Sprintf("landlock: ABI %d; abstract sockets and signals are held back by the namespaces alone", h.landlock))
	}
	return m
}

// digest covers what bounds every cell whatever its spec: init, the names of
// the compiled list, the filter, the slice of the host, and what of ours a tree
// is covered with.
func (h *host) digest() [32]byte {
	sum := sha256.New()
	text := sha256.Sum256(h.init)
	filter := seccomp.Digest(h.filter)
	sum.Write(text[:])
	sum.Write(filter[:])
	every := bounds{network: true} // every step there is
	list := (&plan{bounds: every, filter: h.filter, landlock: h.landlock, lastCap: h.lastCap}).compile().list
	defer list.Release()
	for _, l := range list.Lines() {
		fmt.Fprintf(sum, "%q\n", l.Name)
	}
	for _, e := range template.Slice() {
		fmt.Fprintf(sum, "%q %d\n", e.Path, e.Kind)
	}
	for _, name := range template.Trees() {
		fmt.Fprintf(sum, "%q\n", name)
	}
	return [32]byte(sum.Sum(nil))
}

// enforced is the digest of all that bounds one cell, its call's id aside.
func (h *host) enforced(spec wire.Spec) ([32]byte, error) {
	spec.ID = strings.Repeat("0", len(spec.ID))
	b, err := wire.Encode(wire.Message{Body: &wire.Open{Spec: spec}})
	if err != nil {
		return [32]byte{}, err
	}
	for _, m := range spec.Mounts {
		if own, _ := h.conf.Mount(m.Name); own.NoExec {
			b = append(b, "noexec "+m.Name+"\n"...)
		}
	}
	common := h.common
	if spec.Level == wire.LevelUserkernel {
		common = h.sentryDigest(&spec)
	}
	return sha256.Sum256(append(b, common[:]...)), nil
}

// leastOpenFiles is what the set-up of a cell needs itself: three above those
// that a program starts with.
const leastOpenFiles = stdioFDs + 3

// check holds a spec against this launcher's own ceilings: the front may ask
// for less, never for more.
func (h *host) check(s wire.Spec) error {
	if !wire.IsID(s.ID) {
		return errors.New("id: not a call's id")
	}
	if err := errors.Join(checkLevel(&s), s.CheckNetwork(), s.CheckRoot()); err != nil {
		return err
	}
	c := &h.conf.Ceilings
	for _, v := range []bounded{
		{"memory", s.Memory, leastMemoryOf(s.Level), c.Memory}, {"pids", s.Pids, 1, c.Pids}, {"cpu", s.CPU, cgroup.MinCPU, c.CPU},
		{"cpuTime", s.CPUTime, 1, 1 << 62}, {"wall", s.Wall, 1, c.Wall}, {"stopGrace", s.StopGrace, 0, c.Wall},
		{"scratch", s.Scratch, 4096, c.Scratch}, {"inodes", s.Inodes, 1, c.Inodes},
		{"fileSize", s.FileSize, 1, c.FileSize}, {"openFiles", s.OpenFiles, leastOpenFiles, min(c.OpenFiles, hardNoFile())},
	} {
		if v.value < v.low || v.value > v.high {
			return fmt.Errorf("%s: %s is not within %s to %s", v.name, v.text(v.value), v.text(v.low), v.text(v.high))
		}
	}
	return nil
}

// bounded is a number of a spec, and what it may be.
type bounded struct {
	name             string
	value, low, high int64
}

// text is n as people write it.
func (b *bounded) text(n int64) string {
	switch b.name {
	case "memory", "scratch", "fileSize":
		return sizeText(n)
	case "cpuTime", "wall", "stopGrace":
		return time.Duration(n).String()
	case "cpu":
		return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64)
	}
	return strconv.FormatInt(n, 10)
}

// sizeText is a number of bytes in the largest unit that it is whole in.
func sizeText(n int64) string {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "Gi"}, {1 << 20, "Mi"}, {1 << 10, "Ki"}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// checkLevel holds the level, and what it can have.
func checkLevel(s *wire.Spec) error {
	switch {
	case s.Level == wire.LevelContainer:
	case s.Level != wire.LevelUserkernel:
		return errors.New("level: none that is built here")
	case len(s.Mounts) > 0:
		return errors.New("mounts: a cell with a kernel of its own has none")
	}
	return nil
}

func leastMemoryOf(level wire.Level) int64 {
	if level == wire.LevelUserkernel {
		return leastMemory
	}
	return 1 << 20
}

// withinHard is a limit of ours, or this process's hard limit where that is less:
// without a capability nothing gets above it.
func withinHard(which int, value int64) int64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(which, &r); err != nil {
		return value
	}
	return int64(min(uint64(value), r.Max))
}

// hardNoFile is how many files this process may let a child open.
func hardNoFile() int64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int64(min(r.Max, 1<<30))
}

func lastCap() int {
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	n, err2 := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || err2 != nil || n > 63 {
		return unix.CAP_LAST_CAP
	}
	return n
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// initBeside returns callcell-init's path: it stands beside the launcher.
func initBeside() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(self), "callcell-init"), nil
}
