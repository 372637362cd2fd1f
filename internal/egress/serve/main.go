package serve

import (
	"io"
	"log"
	"runtime/debug"
)

// memory is where the process begins to collect garbage harder. Its group has
// 256 MiB, and the kernel counts the buffers of sockets there too.
const memory = 160 << 20

// Main is the whole of the egress process: it serves until the front hangs up
// on descriptor fd. It returns the exit code: 0 after a hang-up, else 1, and
// then a line says why.
func Main(fd int, stderr io.Writer) int {
	debug.SetMemoryLimit(memory)
	log.SetOutput(io.Discard) // net/http quotes there what servers say
	if err := Run(fd, Options{Log: stderr}); err != nil {
		(&journal{to: stderr}).line(err.Error())
		return 1
	}
	return 0
}
