package cgroup

import (
	"fmt"
	"math"
	"time"
)

// counter is one number of Usage and where the kernel keeps it.
type counter struct {
	controller, file string
	key              string // of a "key number" line; "" where the file is one number
	unit             int64  // the number is multiplied by it
	into             *int64
	optional         bool // the kernel may lack the file
}

// counters lists where u comes from.
func counters(version int, u *Usage) []counter {
	cpu := (*int64)(&u.CPU)
	if version == 2 {
		us := int64(time.Microsecond)
		return []counter{
			{"cpu", "cpu.stat", "usage_usec", us, cpu, false},
			{"memory", "memory.peak", "", 1, &u.MemoryPeak, true}, // since 5.19
			{"memory", "memory.events", "oom_kill", 1, &u.OOMKills, false},
			{"pids", "pids.peak", "", 1, &u.PidsPeak, true}, // later than 6.1
			{"pids", "pids.events", "max", 1, &u.PidsHits, false},
		}
	}
	return []counter{
		{"cpuacct", "cpuacct.usage", "", 1, cpu, false},
		{"memory", "memory.max_usage_in_bytes", "", 1, &u.MemoryPeak, false},
		{"memory", "memory.oom_control", "oom_kill", 1, &u.OOMKills, false}, // the key: since 4.13
		{"pids", "pids.peak", "", 1, &u.PidsPeak, true},
		{"pids", "pids.events", "max", 1, &u.PidsHits, false},
	}
}

// parse reads the counter from its file's text, in its unit.
func (c counter) parse(text string) (n int64, err error) {
	if c.key == "" {
		n, err = parseNumber(text)
	} else {
		n, err = lookup(text, c.key)
	}
	if err != nil || n < 0 {
		return n, err
	}
	if n > math.MaxInt64/c.unit {
		return 0, fmt.Errorf("%w: %d is too much", ErrText, n)
	}
	return n * c.unit, nil
}
