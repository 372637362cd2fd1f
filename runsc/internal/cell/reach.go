package cell

import (
	"sync"
	"time"
	_ "unsafe" // for go:linkname
)

// Of gVisor's unexported names we use three (one is in package filters). One
// that is renamed breaks the build, not the sandbox.

//go:linkname tracePoints gvisor.dev/gvisor/pkg/sentry/seccheck.initOnce
var tracePoints sync.Once

// skipTracePoints marks the points of gVisor's threat detection as registered.
// They are what a trace session can name, more than a thousand, and take a
// tenth of the time of a boot. Sessions come by -pod-init-config or by the
// control server: here by neither.
func skipTracePoints() { tracePoints.Do(func() {}) }

//go:linkname neverSpin gvisor.dev/gvisor/pkg/sentry/platform/systrap.neverEnableFastPath
var neverSpin bool

// spinAfter is how long systrap is kept from spinning. Most programs have ended
// by then.
const spinAfter = 200 * time.Millisecond

// spinLater keeps systrap's fast path off for the start, where it costs an
// eighth of the processor time of a short program and saves no time. A program
// that makes many system calls for long runs twice as fast with it. Systrap
// looks at the variable every 400 µs, by a goroutine that boots with the
// platform, and decides by what it measures from then on.
func spinLater() {
	if neverSpin {
		return // systrap's own decision: there is one processor
	}
	neverSpin = true
	time.AfterFunc(spinAfter, func() { neverSpin = false })
}
