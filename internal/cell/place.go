package cell

// What every cell looks like to its program, at every level.
const (
	// WorkDir is the working directory of the program, where Put's files
	// land and where Get looks for outputs. It is writable, and it is the
	// HOME that the main path gives.
	WorkDir = "/work"
	// TempDir is writable too and counts against the same scratch.
	TempDir = "/tmp"
	// RunDir is where the files of Command.Run are. It is in the scratch.
	RunDir = "/run"
	// AddedDir is where what an image adds to its base is, read-only.
	AddedDir = "/opt/callcell"
)
