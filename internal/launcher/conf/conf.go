package conf

// Config is what the launcher may do. The zero value is not usable; see
// Default and Load.
//
// To add a field: add it here, its default to Default, its key to settings,
// and both to the package doc, which a test compares with them.
type Config struct {
	UIDsFirst    int    // first uid of the range that cells get theirs from
	UIDsCount    int    // how many there are
	CgroupRoot   string // where cgroups are mounted
	CgroupParent string // the group under which all cells' groups are
	RunDir       string // where roots of cells are put together; must belong to the launcher alone
	Cells        int64  // cells at once
	Spares       int64  // cells that are made before they are asked for, at most
	Ceilings     Ceilings
	Egress       Egress
	Image        Image
	Mounts       []Mount // what cells may be given of this host, sorted by name; at most MaxMounts
	Runsc        Runsc
}

// Ceilings are the most that a front may ask for.
type Ceilings struct {
	Memory    int64 // bytes
	Pids      int64
	CPU       int64 // thousandths of a CPU
	Scratch   int64 // bytes
	Inodes    int64
	Wall      int64 // nanoseconds
	OpenFiles int64
	FileSize  int64 // bytes
}

// Egress is the process that makes connections for cells: what it is, and its
// own ceilings.
type Egress struct {
	Path      string // from / on, or a name beside the launcher
	Memory    int64  // bytes
	Pids      int64  // threads
	CPU       int64  // thousandths of a CPU
	OpenFiles int64  // where the launcher may open fewer, as many as that
}

// Image is the store of roots for cells, and the process that makes roots out
// of tar streams.
type Image struct {
	Dir     string // from / on; belongs to the launcher alone
	Path    string // from / on, or a name beside the launcher
	Memory  int64  // bytes; of the process
	Pids    int64  // threads
	CPU     int64  // thousandths of a CPU
	Wall    int64  // nanoseconds that one root may take
	Bytes   int64  // the most that a front may ask one root to hold
	Entries int64  // files, directories and links
}

// MaxMounts is how many mounts a configuration may have.
const MaxMounts = 256

// Mount is a directory of this host that cells may be given, read-only.
type Mount struct {
	Name   string // by which fronts know it
	Source string // from / on
	NoExec bool   // nothing in it is executed
}

// Mount returns the mount of that name.
func (c *Config) Mount(name string) (Mount, bool) {
	for _, m := range c.Mounts {
		if m.Name == name {
			return m, true
		}
	}
	return Mount{}, false
}

// RunscVersion is the one that this launcher's cells are made with: gVisor's, as
// runsc/go.mod pins it.
const RunscVersion = "v0.0.0-20260905035102-160fafc42237"

// Runsc is what cells with a kernel of their own are made of.
type Runsc struct {
	Path    string // from / on, or a name beside the launcher
	Version string // what it must be
	Guest   string // the first process in it: from / on, or a name beside the launcher
	Root    string // from / on: the EROFS image of this host's slice
	Memory  int64  // bytes: what the kernel may have beside what the call asked for
	Pids    int64  // tasks of this host: the same
	Network string // NetworkSandbox or NetworkHost: whose sockets those of a cell with a network are
}

// Where the sockets of programs are, in a cell with a kernel of its own that has
// a network. One without a network has its own kernel's in any case.
const (
	NetworkSandbox = "sandbox" // in that kernel, whose guest hands connections over
	NetworkHost    = "host"    // in this host's kernel, in a network namespace of the cell
)

// DefaultPath is where the launcher looks for its configuration.
const DefaultPath = "/etc/callcell/launcher.conf"

// Default is the configuration where the file says nothing.
func Default() Config {
	return Config{
		UIDsFirst: 1879048192, UIDsCount: 8192,
		CgroupRoot: "/sys/fs/cgroup", CgroupParent: "callcell", RunDir: "/run/callcell", Cells: 512, Spares: 1,
		Ceilings: Ceilings{
			Memory: 8 << 30, Pids: 4096, CPU: 64_000, Scratch: 8 << 30, Inodes: 1_000_000,
			Wall: 24 * 3600 * second, OpenFiles: 65536, FileSize: 8 << 30,
		},
		Runsc: Runsc{
			Path: "callcell-runsc", Version: RunscVersion, Guest: "callcell-guest", Root: "/var/lib/callcell/images/host.erofs",
			Memory: 96 << 20, Pids: 64, Network: NetworkSandbox,
		},
		Egress: Egress{Path: "callcell-egress", Memory: 256 << 20, Pids: 64, CPU: 2000, OpenFiles: 65536},
		Image: Image{
			Dir: "/var/lib/callcell/images", Path: "callcell-image", Memory: 512 << 20, Pids: 64, CPU: 2000, Wall: 600 * second,
			Bytes: 16 << 30, Entries: 1_000_000,
		},
	}
}
