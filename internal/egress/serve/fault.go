package serve

import (
	"errors"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// errFault is the cause of the end of a call that a fault of ours has ended.
var errFault = errors.New("a fault of ours ended the call's way out")

// guard runs f. A panic of it is caught, and given to caught as the places in
// our code where it came from: the value itself may have data of strangers.
func guard(f func(), caught func(where string)) {
	defer func() {
		if recover() != nil {
			caught(where())
		}
	}()
	f()
}

// where returns the innermost places of our code on the stack of a panic.
func where() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var places []string
	for len(places) < 3 {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "github.com/callcell/callcell/") {
			places = append(places, path.Base(f.File)+":"+strconv.Itoa(f.Line))
		}
		if !more {
			break
		}
	}
	return strings.Join(places, " < ")
}
