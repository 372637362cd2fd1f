package template

import "slices"

// Kind says how an entry of the slice gets into the root.
type Kind uint8

// The kinds.
const (
	Bind Kind = iota + 1 // a read-only view of the directory and what is mounted below it
	Copy                 // a copy of a small file, made when the template is built
)

// Entry is one path of this host that cells may see.
type Entry struct {
	Path     string
	Kind     Kind
	Required bool
	Why      string
}

// Slice is the host image: which paths of this host every cell sees, and why.
// There is nothing of home, var, opt, srv, run or root in it, and of etc only
// what any user may read and programs need.
func Slice() []Entry {
	return []Entry{
		{"/usr", Bind, true, "programs and libraries"},
		{"/etc/alternatives", Bind, false, "links of which /usr/bin is full: awk, java, editor"},
		{"/etc/ssl/certs", Bind, false, "public certificate authorities"},
		{"/etc/java-17-openjdk", Bind, false, "the JVM's own configuration, to which /usr/lib/jvm links"},
		{"/etc/java-21-openjdk", Bind, false, "as above"},
		{"/etc/fonts", Bind, false, "fontconfig"},
		{"/etc/ld.so.cache", Copy, false, "where the dynamic linker finds libraries"},
		{"/etc/ssl/openssl.cnf", Copy, false, "OpenSSL's defaults"},
		{"/etc/mime.types", Copy, false, "types of file names"},
		{"/etc/protocols", Copy, false, "names of protocols"},
		{"/etc/services", Copy, false, "names of ports"},
		{"/etc/magic", Copy, false, "file(1)"},
	}
}

// Roots are the names at the root that lead into /usr where this host is
// merged (/bin -> usr/bin), and are views of their own where it is not.
func roots() []string { return []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} }

// file is a file of our own.
type file struct {
	name, text string
}

// ours are the files under /etc that are the same in every cell, and those
// that cover two of them where a cell has a network.
func ours() []file {
	return []file{
		{"etc/passwd", "root:x:0:0:root:/:/usr/sbin/nologin\ncell:x:1000:1000:cell:/work:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"},
		{"etc/group", "root:x:0:\ncell:x:1000:\nnogroup:x:65534:\n"},
		{"etc/hosts", "127.0.0.1 localhost cell\n::1 localhost\n"},
		{"etc/hostname", "cell\n"},
		{"etc/resolv.conf", "# no names but those of /etc/hosts\n"},
		{"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"},
		{"etc/host.conf", "multi on\n"},
		{ResolvConf[1:], "nameserver 127.0.0.53\noptions timeout:2 attempts:2 ndots:0\n"},
		{NSSwitch[1:], "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"},
	}
}

// directories are the mount points and directories that every root has.
func directories() []string {
	return []string{"dev", "proc", "work", "tmp", "run", ".callcell", ".callcell/scratch", ".callcell/net", ".callcell/empty"}
}

// sliceDirectories are those of the slice alone.
func sliceDirectories() []string { return []string{"etc", "etc/ssl"} }

// reserved are the names at the root that are ours in every root: what a tree
// has there is not seen.
func reserved() []string { return []string{".callcell", "dev", "proc", "run", "tmp", "work"} }

// coverDir is where the files of ours are that cover those of a tree.
const coverDir = ".callcell/etc"

// covered are the files of a tree that are ours, and the same in every cell.
func covered() []string {
	return []string{"etc/group", "etc/hosts", "etc/hostname", "etc/nsswitch.conf", "etc/passwd", "etc/resolv.conf"}
}

// Trees says, a line each, what the root of a tree has of ours.
func Trees() []string {
	return slices.Concat(reserved(), covered(), []string{AddedDir[1:]})
}

// A device is one node of /dev.
type device struct {
	name         string
	major, minor uint32
}

// devices are those of which every program may have need, and none that
// reaches a driver worth attacking.
func devices() []device {
	return []device{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}}
}

// deviceLinks are the symbolic links of /dev.
func deviceLinks() [][2]string {
	return [][2]string{
		{"/proc/self/fd", "dev/fd"},
		{"/proc/self/fd/0", "dev/stdin"},
		{"/proc/self/fd/1", "dev/stdout"},
		{"/proc/self/fd/2", "dev/stderr"},
	}
}

// links are those of the slice: of /dev, and of /etc.
func links() [][2]string {
	return append(deviceLinks(), [2]string{"../usr/lib/os-release", "etc/os-release"}, [2]string{"../proc/self/mounts", "etc/mtab"})
}

// The places of a cell that other packages speak of.
const (
	// ScratchPoint is where the scratch is attached before its parts are. It
	// stays: to detach it, the kernel would wait for every CPU.
	ScratchPoint = "/.callcell/scratch"
	InitPath     = "/.callcell/init" // PID 1
	Work         = "/work"           // working directory and home
	Run          = "/run"            // files of ours, beside the call's
	// EmptyRoot is a directory without anything in it: all that the egress
	// process sees.
	EmptyRoot = "/.callcell/empty"
	// AddedDir is where a tree stands that is added to another, or to the slice.
	AddedDir = "/opt/callcell"
	// ResolvConf and NSSwitch have names asked for at 127.0.0.53.
	ResolvConf = "/.callcell/net/resolv.conf"
	NSSwitch   = "/.callcell/net/nsswitch.conf"
)

// Cover is a file that is attached over another where a cell has a network.
type Cover struct{ Source, Target string }

// Covers are all of them.
func Covers() []Cover {
	return []Cover{{ResolvConf, "/etc/resolv.conf"}, {NSSwitch, "/etc/nsswitch.conf"}}
}

// Part is a directory of the scratch and where a cell sees it.
type Part struct {
	Dir    string // below the scratch's root
	Target string
	Mode   uint32
}

// Parts are the four parts of a cell's scratch space. They share one limit.
func Parts() []Part {
	return []Part{{"work", Work, 0o755}, {"tmp", "/tmp", 0o1777}, {"shm", "/dev/shm", 0o1777}, {"run", Run, 0o755}}
}
