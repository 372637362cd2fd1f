package cgroup

import (
	"fmt"
	"strconv"
	"time"
)

// Limits are the ceilings of one group. There is no "unlimited".
type Limits struct {
	Memory int64 // bytes, rounded down to whole pages; no swap (version 1: one page, and a quarter more for buffers of sockets)
	Pids   int64 // processes and threads
	CPU    int64 // thousandths of one CPU, at least MinCPU
}

// MinCPU is the least share of a CPU, in thousandths: the kernel takes no quota
// below 1 ms, and the period is 100 ms.
const MinCPU = 10

const (
	cpuPeriod = 100_000   // microseconds
	maxCPU    = 1_000_000 // a thousand CPUs; the maxima keep sums from overflow
	maxMemory = 1 << 50
)

func (l Limits) validate(page int64) error {
	switch {
	case l.Memory < page || l.Memory > maxMemory:
		return fmt.Errorf("%w: memory %d is not within %d to %d", ErrLimits, l.Memory, page, int64(maxMemory))
	case l.Pids < 1:
		return fmt.Errorf("%w: pids %d is below 1", ErrLimits, l.Pids)
	case l.CPU < MinCPU || l.CPU > maxCPU:
		return fmt.Errorf("%w: cpu %d is not within %d to %d", ErrLimits, l.CPU, MinCPU, maxCPU)
	}
	return nil
}

// Usage is what a group has used so far. A counter that this kernel does not
// keep is -1.
type Usage struct {
	CPU        time.Duration
	MemoryPeak int64 // bytes
	OOMKills   int64 // processes killed for want of memory
	PidsPeak   int64
	PidsHits   int64 // forks refused by the limit, before Kill
}

// setting is one file with the value it must read back after the write.
type setting struct {
	controller, file, value string
	optional                bool // the kernel may lack the file
}

// settings lists what makes up the limits, in the order of the writes.
func settings(version int, l Limits, page int64) []setting {
	pages := l.Memory / page
	memory := strconv.FormatInt(pages*page, 10)
	pids := strconv.FormatInt(l.Pids, 10)
	period := strconv.Itoa(cpuPeriod)
	quota := strconv.FormatInt(l.CPU*cpuPeriod/1000, 10)
	if version == 2 {
		return []setting{
			{controller: "memory", file: "memory.max", value: memory},
			{controller: "memory", file: "memory.swap.max", value: "0", optional: true}, // no swap in this kernel
			{controller: "memory", file: "memory.oom.group", value: "1"},
			{controller: "pids", file: "pids.max", value: pids},
			{controller: "cpu", file: "cpu.max", value: quota + " " + period},
		}
	}
	// One page above memory: were they equal, it would be this limit that is
	// met, and that is counted nowhere.
	withSwap := strconv.FormatInt((pages+1)*page, 10)
	return []setting{
		// memory+swap may never be below memory, so memory comes down first.
		{controller: "memory", file: "memory.limit_in_bytes", value: memory},
		{controller: "memory", file: "memory.memsw.limit_in_bytes", value: withSwap, optional: true}, // no swap accounting
		// The sum alone would let pages go to swap when others press.
		{controller: "memory", file: "memory.swappiness", value: "0", optional: true},
		// Buffers of TCP and UDP are counted only where they have a limit, and
		// then apart. Without it a cell takes what the whole host may have.
		{controller: "memory", file: "memory.kmem.tcp.limit_in_bytes", value: strconv.FormatInt(pages/4*page, 10)},
		{controller: "pids", file: "pids.max", value: pids},
		{controller: "cpu", file: "cpu.cfs_period_us", value: period},
		{controller: "cpu", file: "cpu.cfs_quota_us", value: quota},
	}
}

// checkName tells whether a group may have that name.
func checkName(name string) error {
	if len(name) < 1 || len(name) > 64 {
		return fmt.Errorf("%w: %d bytes long", ErrName, len(name))
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("%w: %q", ErrName, name)
		}
	}
	return nil
}
