package wire

// Version is the protocol's version. Front and launcher come from one build;
// another version ends the conversation.
const Version = 7

// Level says what a cell is made of. The zero value is invalid.
type Level uint8

// The levels that the launcher builds.
const (
	LevelContainer  Level = iota + 1 // namespaces, and the host's kernel
	LevelUserkernel                  // a process of gVisor's with a kernel of its own
	levelEnd
)

// Spec is what a cell is built from: numbers, the call's id, digests, and names
// of mounts. The launcher checks each against its own configuration.
type Spec struct {
	ID        string // of the call: 36 characters of [0-9a-f-]
	Level     Level
	Memory    int64 // bytes
	Pids      int64
	CPU       int64 // thousandths of a CPU
	CPUTime   int64 // nanoseconds, over all processes
	Wall      int64 // nanoseconds, from Start
	StopGrace int64 // nanoseconds between TERM and KILL
	Scratch   int64 // bytes
	Inodes    int64
	FileSize  int64 // bytes
	OpenFiles int64

	// Ports are what the cell may reach through the sockets that come with
	// Opened: distinct, ascending, at most MaxPorts. Without any the cell has
	// no network.
	Ports []uint16
	// Addrs are addresses that the cell reaches as they are, without a name:
	// distinct, ascending, at most MaxAddrs, and none without Ports. An IPv4
	// address is mapped (::ffff:a.b.c.d).
	Addrs [][16]byte

	// Tree is the root, by its digest in the launcher's store; "" is the slice
	// of this host. Added is a tree that stands read-only at AddedDir; "" is
	// nothing.
	Tree, Added string
	// Mounts are directories of this host that the launcher's own configuration
	// has under these names: distinct, ascending by name, at most MaxMounts.
	Mounts []Mount
}

// Open asks for a cell.
type Open struct{ Spec Spec }

// Type implements Body.
func (*Open) Type() Type { return TypeOpen }

func (m *Open) fields(c *coder) {
	s := &m.Spec
	c.str(&s.ID)
	c.u8((*uint8)(&s.Level))
	c.bad = c.bad || s.Level >= levelEnd
	for _, n := range []*int64{&s.Memory, &s.Pids, &s.CPU, &s.CPUTime, &s.Wall, &s.StopGrace,
		&s.Scratch, &s.Inodes, &s.FileSize, &s.OpenFiles} {
		c.i64(n)
	}
	list(c, &s.Ports, c.u16)
	list(c, &s.Addrs, func(a *[16]byte) { c.raw(a[:]) })
	c.str(&s.Tree)
	c.str(&s.Added)
	list(c, &s.Mounts, func(m *Mount) {
		c.str(&m.Name)
		c.raw(m.Source[:])
		c.str(&m.Target)
	})
}

// Start runs the payload's command. It carries four descriptors: stdin,
// stdout, stderr and the payload (a sealed memfd).
//
// At LevelUserkernel it carries none: the command goes over the channel, and
// this starts the clocks. It is answered when a ceiling is met, before the cell
// is killed for it a few seconds later, or when the cell's end is there.
type Start struct{ Slot uint32 }

// Type implements Body.
func (*Start) Type() Type        { return TypeStart }
func (m *Start) fields(c *coder) { c.u32(&m.Slot) }

// Cause is why the host ends a program. The zero value means that it ended by
// itself.
type Cause uint8

// The causes.
const (
	CauseNone Cause = iota
	CauseWall
	CauseCPU
	CauseMemory
	CauseOutput
	CauseCancel
	causeEnd
)

// Kill ends the program. The first cause stands.
type Kill struct {
	Slot  uint32
	Cause Cause
}

// Type implements Body.
func (*Kill) Type() Type { return TypeKill }
func (m *Kill) fields(c *coder) {
	c.u32(&m.Slot)
	c.u8((*uint8)(&m.Cause))
	c.bad = c.bad || m.Cause >= causeEnd
}

// Count stops the clocks of a cell of LevelUserkernel, whose program has ended
// as far as the front has heard, and is answered by Exited with what was
// counted. The cell stays, for its files, until Close.
type Count struct{ Slot uint32 }

// Type implements Body.
func (*Count) Type() Type        { return TypeCount }
func (m *Count) fields(c *coder) { c.u32(&m.Slot) }

// Stop ends every process of the cell and is answered when none is left.
type Stop struct{ Slot uint32 }

// Type implements Body.
func (*Stop) Type() Type        { return TypeStop }
func (m *Stop) fields(c *coder) { c.u32(&m.Slot) }

// List asks for what is below a directory of the working directory, "." for all
// of it. It is answered by Found with a descriptor of entries, see the launcher's
// list.
type List struct {
	Slot uint32
	Dir  string
	Max  uint32 // most names wanted
}

// Type implements Body.
func (*List) Type() Type { return TypeList }
func (m *List) fields(c *coder) {
	c.u32(&m.Slot)
	c.str(&m.Dir)
	c.u32(&m.Max)
}

// Get asks for one regular file below the working directory.
type Get struct {
	Slot uint32
	Name string
}

// Type implements Body.
func (*Get) Type() Type { return TypeGet }
func (m *Get) fields(c *coder) {
	c.u32(&m.Slot)
	c.str(&m.Name)
}

// Close destroys the cell.
type Close struct{ Slot uint32 }

// Type implements Body.
func (*Close) Type() Type        { return TypeClose }
func (m *Close) fields(c *coder) { c.u32(&m.Slot) }

// Egress asks for the process that makes connections for cells. It carries one
// descriptor, which becomes the process's descriptor 3: its end of the control
// conversation. It is answered by Opened, without sockets; Close ends it.
type Egress struct{}

// Type implements Body.
func (*Egress) Type() Type    { return TypeEgress }
func (*Egress) fields(*coder) {}

// Hello is the launcher's first message.
type Hello struct {
	Version  uint32
	Kernel   string
	Cgroup   uint8 // 1 or 2
	Landlock int32 // ABI; 0: not in this kernel
	MaxCells uint32
	Filter   [32]byte // digest of the system-call filter
	Runsc    string   // its version, with which cells of LevelUserkernel are made; "" is none
	NoRunsc  string   // "" or why there are no such cells here, with a hint
	HostNet  bool     // such a cell's sockets are this host's kernel's, where it has a network
	Refused  string   // "" or why no cell can be built here, with a hint
	Missing  []string // what is weaker here than elsewhere, a sentence each
	Reaper   uint32   // pid
}

// Type implements Body.
func (*Hello) Type() Type { return TypeHello }
func (m *Hello) fields(c *coder) {
	c.u32(&m.Version)
	c.str(&m.Kernel)
	c.u8(&m.Cgroup)
	c.i32(&m.Landlock)
	c.u32(&m.MaxCells)
	c.raw(m.Filter[:])
	c.str(&m.Runsc)
	c.str(&m.NoRunsc)
	c.flag(&m.HostNet)
	c.str(&m.Refused)
	list(c, &m.Missing, c.str)
	c.u32(&m.Reaper)
}

// Opened says that the cell stands, or the egress process. The sockets of a
// cell with a network come with it, in the order of Spec.Sockets; the launcher
// keeps none. With a cell of LevelUserkernel comes the host's end of its
// channel, a stream socket: first, and alone unless Hello.HostNet.
type Opened struct {
	Slot     uint32   // the cell's number, never 0 and never another's
	Enforced [32]byte // digest of spec, compiled list, filter and mounts
	Took     int64    // nanoseconds from the request to this
}

// Type implements Body.
func (*Opened) Type() Type { return TypeOpened }
func (m *Opened) fields(c *coder) {
	c.u32(&m.Slot)
	c.raw(m.Enforced[:])
	c.i64(&m.Took)
}

// Exited says how the program ended, and what was counted.
type Exited struct {
	Status     int32 // wait status as init reported it; valid where Known
	Known      bool
	Cause      Cause
	Wall       int64 // nanoseconds
	CPU        int64 // nanoseconds
	MemoryPeak int64 // bytes; -1 unknown
	PidsPeak   int64 // -1 unknown
	OOMKills   int64
	PidsHits   int64
	ScratchUse int64 // bytes
	InodesUse  int64
	ScratchMax int64 // bytes; what the file system had in all
	InodesMax  int64
}

// Type implements Body.
func (*Exited) Type() Type { return TypeExited }
func (m *Exited) fields(c *coder) {
	c.i32(&m.Status)
	c.flag(&m.Known)
	c.u8((*uint8)(&m.Cause))
	c.bad = c.bad || m.Cause >= causeEnd
	for _, n := range []*int64{&m.Wall, &m.CPU, &m.MemoryPeak, &m.PidsPeak, &m.OOMKills, &m.PidsHits,
		&m.ScratchUse, &m.InodesUse, &m.ScratchMax, &m.InodesMax} {
		c.i64(n)
	}
}

// Done answers Kill and Stop.
type Done struct{}

// Type implements Body.
func (*Done) Type() Type      { return TypeDone }
func (m *Done) fields(*coder) {}

// Found answers List and Get: one descriptor comes with it.
type Found struct {
	Size       int64
	Executable bool
	Cut        bool // List: there were more names
}

// Type implements Body.
func (*Found) Type() Type { return TypeFound }
func (m *Found) fields(c *coder) {
	c.i64(&m.Size)
	c.flag(&m.Executable)
	c.flag(&m.Cut)
}

// Check is one line of a teardown report.
type Check struct {
	What string
	Gone bool
	Note string
}

// Closed is the teardown report.
type Closed struct {
	Checks []Check
	Took   int64 // nanoseconds from the request to this
}

// Type implements Body.
func (*Closed) Type() Type { return TypeClosed }
func (m *Closed) fields(c *coder) {
	list(c, &m.Checks, func(k *Check) {
		c.str(&k.What)
		c.flag(&k.Gone)
		c.str(&k.Note)
	})
	c.i64(&m.Took)
}

// Kind says what sort of failure Failed is.
type Kind uint8

// The kinds of failure.
const (
	KindSetup    Kind = iota + 1 // the cell could not be built
	KindCapacity                 // no slot, no uid
	KindSpec                     // over the launcher's own ceilings, or malformed
	KindExec                     // the program could not be started
	KindUnpack                   // the inputs could not be written
	KindFile                     // Get and List: not to be had
	KindBroken                   // the cell's machinery died
	KindState                    // out of order
	KindMount                    // a mount that is not in launcher.conf, or not as asked for, or not there
	KindAbsent                   // no such tree
	KindTree                     // a tree that is no root for a cell, or is not what the unpacker may make
	KindBusy                     // a tree that cells are using
	kindEnd
)

// Failed answers a request that could not be done.
type Failed struct {
	Kind  Kind
	Step  string // "mount /proc"; for KindFile why, in words
	Errno int32
	Index uint32 // KindUnpack: which file; KindMount: which of the spec's
}

// Type implements Body.
func (*Failed) Type() Type { return TypeFailed }
func (m *Failed) fields(c *coder) {
	c.u8((*uint8)(&m.Kind))
	c.bad = c.bad || m.Kind == 0 || m.Kind >= kindEnd
	c.str(&m.Step)
	c.i32(&m.Errno)
	c.u32(&m.Index)
}

// Freed says that a cell, or an egress process, is gone now whose Closed was not
// complete: its slot is free. Nobody asks for it; its sequence number is 0.
type Freed struct{ Slot uint32 }

// Type implements Body.
func (*Freed) Type() Type        { return TypeFreed }
func (m *Freed) fields(c *coder) { c.u32(&m.Slot) }

// Swept is the reaper's last word, where the launcher died: how many cells it
// could not remove. It is the one message that the launcher does not send.
type Swept struct{ Left uint32 }

// Type implements Body.
func (*Swept) Type() Type        { return TypeSwept }
func (m *Swept) fields(c *coder) { c.u32(&m.Left) }
