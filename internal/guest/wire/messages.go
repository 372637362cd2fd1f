package wire

// Op is what a stream is opened for. The zero value is invalid.
type Op uint8

// The operations: those of the host, and the one of the guest.
const (
	OpPrepare Op = iota + 1 // data: Place. Answer: Status
	OpPut                   // data: File and its bytes, again and again. Answer: Status
	OpStderr                // what the program writes there, in the guest's data
	OpExec                  // data: Command, then the program's input; back its output. Answers: Status, then Exit
	OpSignal                // to all but the guest. Answer: Status
	OpStop                  // Answer: Status
	OpList                  // the guest's data: Entry, again and again. Answer: Listed
	OpGet                   // data: Wanted; back, for each in turn, Found and the file's bytes
	OpTunnel                // of the guest: both ways what it is about
)

// MaxTunnels is how many streams of OpTunnel there may be at once.
const MaxTunnels = 128

// Note is with what a stream is opened.
type Note struct {
	Op Op
	// Number is a signal of OpSignal, the stream of OpStderr in OpExec, the
	// most entries of OpList, and the port of OpTunnel.
	Number uint32
	Most   int64    // of OpGet: bytes of all files together
	Name   string   // of OpList
	Addr   [16]byte // of OpTunnel: the address in the cell
	// Datagrams says that an OpTunnel is for those.
	Datagrams bool
}

func (m *Note) fields(c *codec) {
	c.u8((*uint8)(&m.Op))
	c.bad = c.bad || m.Op == 0 || m.Op > OpTunnel
	switch m.Op {
	case OpSignal, OpExec:
		c.u32(&m.Number)
	case OpList:
		c.u32(&m.Number)
		c.text(&m.Name, MaxName)
	case OpGet:
		c.i64(&m.Most)
	case OpTunnel:
		for i := range m.Addr {
			c.u8(&m.Addr[i])
		}
		c.u32(&m.Number)
		c.flag(&m.Datagrams)
	}
}

// Place is the room that a guest makes.
type Place struct {
	Scratch, Inodes int64
	Covers          []Cover
	Ports           []uint16
	Six             bool // the ports of IPv6 too
}

// Cover is a text in the place of a file of the root.
type Cover struct {
	Path string
	Data []byte
}

func (m *Place) fields(c *codec) {
	c.i64(&m.Scratch)
	c.i64(&m.Inodes)
	n := c.count(len(m.Covers), MaxCovers, 8)
	if c.read && n > 0 {
		m.Covers = make([]Cover, n)
	}
	for i := range n {
		c.text(&m.Covers[i].Path, MaxName)
		c.bytes(&m.Covers[i].Data, MaxMessage)
	}
	n = c.count(len(m.Ports), MaxPorts, 2)
	if c.read && n > 0 {
		m.Ports = make([]uint16, n)
	}
	for i := range n {
		c.u16(&m.Ports[i])
	}
	c.flag(&m.Six)
}

// File is the head of one file; Size bytes follow.
type File struct {
	Name string
	Mode uint32
	Run  bool
	Size int64
}

func (m *File) fields(c *codec) {
	c.text(&m.Name, MaxName)
	c.u32(&m.Mode)
	c.flag(&m.Run)
	c.i64(&m.Size)
	c.bad = c.bad || m.Size < 0
}

// Command is what is started.
type Command struct {
	Argv, Env []string
	Dir       string
	Stdin     bool // false: /dev/null
	// Limits of each process; 0 leaves what there is.
	FileSize, OpenFiles, Processes int64
}

func (m *Command) fields(c *codec) {
	c.texts(&m.Argv)
	c.texts(&m.Env)
	c.text(&m.Dir, MaxName)
	c.flag(&m.Stdin)
	c.i64(&m.FileSize)
	c.i64(&m.OpenFiles)
	c.i64(&m.Processes)
	c.bad = c.bad || len(m.Argv) == 0
}

// Cause is why something was not done. The zero value is that it was.
type Cause uint8

// The causes.
const (
	CauseNone      Cause = iota
	CauseErrno           // Errno says why
	CauseIrregular       // not a regular file, or a link on the way
	CauseTooLong         // more bytes than were asked for
	CauseRequest         // what was asked for makes no sense
)

// Step is what was not done. It is a number, so that no text of the guest's is
// shown to anybody.
type Step uint8

// The steps.
const (
	StepNone Step = iota
	StepScratch
	StepCover
	StepListen
	StepFile
	StepDirectory
	StepStreams
	StepLimits
	StepExec
	StepCancelled
)

// String says what the step is.
func (s Step) String() string {
	words := [...]string{"nothing", "make the scratch", "cover a file", "listen", "file", "directory", "make the streams",
		"set the limits", "exec", "it was ended before it began"}
	if int(s) >= len(words) {
		return "a step that is none"
	}
	return words[s]
}

// MaxErrno is the greatest there is.
const MaxErrno = 4095

// Status is how something went.
type Status struct {
	Cause Cause
	Errno uint32
	Step  Step
	Index uint32 // which file, port or cover
}

func (m *Status) fields(c *codec) {
	c.u8((*uint8)(&m.Cause))
	c.u32(&m.Errno)
	c.u8((*uint8)(&m.Step))
	c.u32(&m.Index)
	c.bad = c.bad || m.Cause > CauseRequest || m.Step > StepCancelled || m.Errno > MaxErrno
}

// Exit is how the program ended.
type Exit struct {
	Status          uint32 // as wait gives it
	Wall, CPU       int64  // nanoseconds
	Bytes, Inodes   int64  // of the scratch in use; -1: nobody knows
	MaxBytes, MaxIn int64  // what there was
	Tasks           int64  // processes and threads of the program that were seen at once, when it ended or was to end
}

func (m *Exit) fields(c *codec) {
	c.u32(&m.Status)
	for _, v := range []*int64{&m.Wall, &m.CPU, &m.Bytes, &m.Inodes, &m.MaxBytes, &m.MaxIn, &m.Tasks} {
		c.i64(v)
	}
}

// Entry is one thing in a directory.
type Entry struct {
	Name       string
	Regular    bool
	Executable bool
	Size       int64
}

func (m *Entry) fields(c *codec) {
	c.text(&m.Name, MaxName)
	c.flag(&m.Regular)
	c.flag(&m.Executable)
	c.i64(&m.Size)
}

// Listed ends a listing.
type Listed struct {
	Status
	Cut bool // there was more
}

func (m *Listed) fields(c *codec) {
	m.Status.fields(c)
	c.flag(&m.Cut)
}

// MaxWanted bounds a Wanted, in bytes: with its length before it, it is in the
// window of a stream, so that writing it waits for nobody.
const MaxWanted = 128 << 10

// Wanted are the files that are to be handed over.
type Wanted struct{ Names []string }

func (m *Wanted) fields(c *codec) {
	n := c.count(len(m.Names), MaxItems, 4)
	if c.read && n > 0 {
		m.Names = make([]string, n)
	}
	for i := range n {
		c.text(&m.Names[i], MaxName)
	}
}

// MaxFound bounds a Found, in bytes.
const MaxFound = 32

// Found is a file whose bytes follow, unless Cause says why not.
type Found struct {
	Status
	Size       int64
	Executable bool
}

func (m *Found) fields(c *codec) {
	m.Status.fields(c)
	c.i64(&m.Size)
	c.flag(&m.Executable)
	c.bad = c.bad || m.Size < 0
}
