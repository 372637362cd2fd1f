package vm

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A Machine is how the guest is started.
type Machine struct {
	Kernel string // a bzImage
	Initrd string
	Append string // to the kernel's command line
	TSC    int    // TSCRate of the host; 0 is not known
	Log    string // where the kernel's own messages go
	Stderr io.Writer
}

// How long a guest may take to its first word. Under emulation it is busy for
// some seconds, and for many beside other work; with KVM, one that has said nothing after some seconds never
// will: there are hosts whose /dev/kvm can be opened and does not work.
const (
	bootKVM = 8 * time.Second
	bootTCG = 10 * time.Minute
)

// memory is what a guest has, in MiB.
const memory = 2048

// AtOnce is how many guests this host has room for beside each other: one for
// each processor, at most two, and no more than fit into the memory that is
// free twice over. Emulation keeps little more than one processor busy.
func AtOnce() int {
	most := min(2, runtime.NumCPU())
	text, _ := os.ReadFile("/proc/meminfo") // none: one at a time
	free := 0
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &free); err == nil {
			break
		}
	}
	return max(1, min(most, free>>10/(2*memory)))
}

// Args are QEMU's arguments.
func (m Machine) Args(accel string) []string {
	cpu, more := "max", m.Append
	if accel == "kvm" {
		cpu = "host"
	} else {
		accel = "tcg,thread=multi"
		if m.TSC > 0 { // or the kernel measures it, and is wrong by a factor of twenty where the host is busy just then
			more = strings.TrimSpace(fmt.Sprintf("tsc_early_khz=%d %s", m.TSC, more))
		}
	}
	return []string{
		"-machine", "q35", "-accel", accel, "-cpu", cpu, "-smp", "2", "-m", strconv.Itoa(memory),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-serial", "file:" + m.Log, "-serial", "stdio",
		"-kernel", m.Kernel, "-initrd", m.Initrd,
		// A busy host is late with timers: the kernel would panic for want of one. The
		// last four are for speed: what emulation is slow at and no test is about.
		"-append", "console=ttyS0 quiet panic=-1 cgroup_no_v1=all no_timer_check mitigations=off no5lvl tsc=reliable clocksource=tsc " + more,
	}
}

// Accels are the ways to run the guest here, the best first.
func Accels() []string {
	if f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err == nil {
		f.Close()
		return []string{"kvm", "tcg"}
	}
	return []string{"tcg"}
}

// Run runs the guest until it turns itself off, ctx ends, or it does not boot.
func (m Machine) Run(ctx context.Context, accel string, see func(line string, rec *Record)) (*Record, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	limit := bootTCG
	if accel == "kvm" {
		limit = bootKVM
	}
	boot := time.AfterFunc(limit, func() { stop(fmt.Errorf("%s: not a word within %v", accel, limit)) })
	defer boot.Stop()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", m.Args(accel)...)
	cmd.Stderr, cmd.Dir = m.Stderr, filepath.Dir(m.Initrd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	rec := Read(out, func(line string, rec *Record) {
		boot.Stop()
		see(line, rec)
	})
	err = cmd.Wait()
	if cause := context.Cause(ctx); cause != nil {
		rec.Faults = append(rec.Faults, "the guest was ended: "+cause.Error())
	} else if err != nil {
		rec.Faults = append(rec.Faults, "qemu: "+err.Error())
	}
	return rec, nil
}
