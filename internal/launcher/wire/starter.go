package wire

// What a front that lives for long and its starter say to each other. The
// starter has a pair of its own, and nothing to do with cells:
//
//	front                           starter
//	Launch [socket words]        ->
//	                             <- Launched pid [pidfd] | Failed
//	(hang-up)                    ->   it ends
//
// The front can say that there is to be a launcher, and nothing about it.

// LaunchFDs is how many descriptors a Launch carries.
const LaunchFDs = 2

// Launch asks for one more launcher. It carries two descriptors: the launcher's
// end of its pair with the front, and the end for writing of a pipe that becomes
// its stderr.
type Launch struct{}

// Type implements Body.
func (*Launch) Type() Type    { return TypeLaunch }
func (*Launch) fields(*coder) {}

// Launched says that it was started. A descriptor of the process comes with it.
type Launched struct{ PID uint32 }

// Type implements Body.
func (*Launched) Type() Type        { return TypeLaunched }
func (m *Launched) fields(c *coder) { c.u32(&m.PID) }
