package cell

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/cpuid"
	"gvisor.dev/gvisor/pkg/fd"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/metric"
	"gvisor.dev/gvisor/pkg/ring0"
	"gvisor.dev/gvisor/pkg/sentry/devices/nvproxy/nvconf"
	"gvisor.dev/gvisor/pkg/timing"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"
	"gvisor.dev/gvisor/runsc/starttime"

	"github.com/callcell/callcell/runsc/internal/filters"
)

// The exit statuses of the command.
const (
	exitReported = 0
	exitFailed   = 1
	exitUsage    = 2
)

// id names the sandbox to itself. Nobody else needs a name for it.
const id = "cell"

// Main runs the command and returns its exit status.
func Main(args []string) int {
	holdCollector()
	populate()
	o, err := parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "runsc %s: %v\n", Name, err)
		return exitUsage
	}
	report := status{o.status}
	err = confined(o.fds())
	if err == nil {
		err = sandbox(&o, report)
	}
	if err != nil {
		report.failed(err)
		fmt.Fprintf(os.Stderr, "runsc %s: %v\n", Name, err)
		return exitFailed
	}
	return exitReported
}

// sandbox boots the sandbox, starts its first process and reports how that
// ended. It is the place of gVisor's `boot` command, without what the parent
// has done.
func sandbox(o *options, report status) error {
	logTo(o.debug)
	timer := starttime.Timer("runsc " + Name)
	l, addr, err := load(o, timer)
	if err != nil {
		return err
	}
	c, err := dial(addr)
	if err != nil {
		return err
	}
	started := make(chan error, 1)
	go func() {
		err := c.start(id, o)
		if err == nil {
			report.started()
		}
		started <- err
	}()
	return run(l, started, timer, report)
}

// load boots the kernel, up to where its control server can be told to start,
// and returns that one's address.
func load(o *options, timer *timing.Timer) (*boot.Loader, unix.Sockaddr, error) {
	conf, err := configuration(o)
	if err != nil {
		return nil, nil, err
	}
	debug.SetTraceback("system")
	cpuid.Initialize()
	ring0.InitDefault()
	skipTracePoints()
	filters.Register()
	control, addr, err := listen()
	if err != nil {
		return nil, nil, err
	}
	args, err := arguments(o, conf, control, timer)
	if err != nil {
		return nil, nil, err
	}
	timer.Reached("arguments made")
	l, err := boot.New(args)
	if err != nil {
		return nil, nil, fmt.Errorf("boot: %w", err)
	}
	metric.Initialize()
	widen()
	spinLater()
	return l, addr, nil
}

// run starts the kernel once the control server says so, and waits for its end.
// A start that fails is known from the control server: the loader itself waits
// before it says so.
func run(l *boot.Loader, started <-chan error, timer *timing.Timer, report status) error {
	ran := make(chan error, 1)
	go func() { l.WaitForStartSignal(); ran <- l.Run() }()
	if err := <-started; err != nil {
		return err
	}
	if err := <-ran; err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if log.IsLogging(log.Debug) {
		timer.Log()
	}
	report.ended(unix.WaitStatus(l.WaitExit()))
	return nil
}

// logTo sets where gVisor's log goes: to descriptor 2, or nowhere. What a panic
// says goes to descriptor 2 always.
func logTo(debug bool) {
	if debug {
		log.SetTarget(log.GoogleEmitter{Writer: &log.Writer{Next: os.Stderr}})
		log.SetLevel(log.Debug)
		return
	}
	log.SetTarget(log.GoogleEmitter{Writer: &log.Writer{Next: io.Discard}})
	log.SetLevel(log.Warning)
}

// configuration is gVisor's, as its flags would make it.
func configuration(o *options) (*config.Config, error) {
	f := flag.NewFlagSet(Name, flag.ContinueOnError)
	config.RegisterFlags(f)
	if err := f.Parse([]string{
		"-platform=" + filters.Platform,
		"-network=" + string(o.network),
		"-directfs=false",       // the sentry opens no file of the host, and its filter says so
		"-ignore-cgroups",       // the parent's
		"-app-huge-pages=false", // would look into /sys
	}); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	conf, err := config.NewFromFlags(f)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return conf, nil
}

// arguments are the loader's.
func arguments(o *options, conf *config.Config, control int, timer *timing.Timer) (boot.Args, error) {
	file := os.NewFile(uintptr(o.spec), "config.json")
	spec, err := readSpec(file, conf)
	if err != nil {
		return boot.Args{}, fmt.Errorf("spec: %w", err)
	}
	if err := file.Close(); err != nil {
		return boot.Args{}, fmt.Errorf("spec: %w", err)
	}
	return boot.Args{
		ID:                 id,
		Spec:               spec,
		Conf:               conf,
		ControllerFD:       control,
		PinRingFD:          -1,
		Device:             fd.New(-1),
		GoferFDs:           o.io,
		DevGoferFD:         -1,
		StdioFDs:           o.stdio,
		PassFDs:            o.pass,
		ExecFD:             o.exec,
		GoferMountConfs:    o.mounts.GetArray(),
		NumCPU:             o.cpus,
		CPUQuota:           -1,
		TotalMem:           o.memory,
		TotalHostMem:       o.memory,
		PodInitConfigFD:    -1,
		NvidiaHostSettings: &nvconf.HostSettings{},
		RootfsUpperTarFD:   -1,
		StartupTimer:       timer,
	}, nil
}
