// Command run builds the tests that package vm lists, runs them in a virtual
// machine, and says what came of them. scripts/test-v2 calls it, with a kernel.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/callcell/callcell/internal/testing/helpers"
	"github.com/callcell/callcell/internal/testing/vm"
)

type options struct {
	kernel  string
	timeout time.Duration
	verbose bool
	match   string // -test.run
	accel   string
	only    []string // packages
}

func main() {
	var o options
	flag.StringVar(&o.kernel, "kernel", "", "the kernel to boot, a bzImage")
	flag.DurationVar(&o.timeout, "timeout", 45*time.Minute, "when the machines are ended, whatever they do")
	flag.BoolVar(&o.verbose, "v", false, "show all that comes out of the machines, as it comes, of one after the other")
	flag.StringVar(&o.match, "run", "", "run these tests only, a regular expression")
	flag.StringVar(&o.accel, "accel", "", "kvm or tcg; by itself it takes what works")
	flag.Parse()
	o.only = flag.Args()
	dir, err := os.MkdirTemp("", "callcell-vm-")
	if err == nil {
		err = o.run(dir)
		os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test-v2:", err)
		os.Exit(1)
	}
}

func (o options) run(dir string) error {
	boots := o.boots()
	if len(boots) == 0 {
		return fmt.Errorf("no suite is called %s", strings.Join(o.only, " "))
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.timeout, fmt.Errorf("not done within %v", o.timeout))
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM) // and no machine is left behind
	defer stop()
	if err := o.build(dir, boots); err != nil {
		return err
	}
	faults, err := o.all(ctx, dir, boots)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return fmt.Errorf("the guest's tests failed:\n  %s", strings.Join(faults, "\n  "))
	}
	return nil
}

// all makes the boots, as many at once as this host has room for, and returns
// what is wrong with them.
func (o options) all(ctx context.Context, dir string, boots []vm.Boot) (faults []string, err error) {
	most := vm.AtOnce()
	if o.verbose {
		most = 1
	}
	accels := &ways{left: vm.Accels()}
	if o.accel != "" {
		accels.left = []string{o.accel}
	}
	turns := make(chan struct{}, most)
	wrong, errs := make([][]string, len(boots)), make([]error, len(boots))
	var all sync.WaitGroup
	for i, b := range boots {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			wrong[i], errs[i] = o.boot(ctx, dir, strconv.Itoa(i), b, accels)
		})
	}
	all.Wait()
	return slices.Concat(wrong...), errors.Join(errs...)
}

// ways are those in which a guest may be run here, the best first, but for those
// that were seen not to work.
type ways struct {
	mu   sync.Mutex
	left []string
}

func (w *ways) best() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left[0]
}

// without takes one away that did not work, unless it is the last.
func (w *ways) without(accel string) (others bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left[0] == accel && len(w.left) > 1 {
		w.left = w.left[1:]
	}
	return w.left[0] != accel
}

// boot makes one, with files of its own below dir.
func (o options) boot(ctx context.Context, dir, number string, b vm.Boot, accels *ways) (faults []string, err error) {
	m := vm.Machine{
		Kernel: o.kernel, Initrd: filepath.Join(dir, "initrd-"+number), Append: b.Append, TSC: vm.TSCRate(), Log: filepath.Join(dir, "kernel.log-"+number), Stderr: os.Stderr,
	}
	defer os.Remove(m.Initrd)
	if err := o.pack(dir, m.Initrd, b.Suites); err != nil {
		return nil, err
	}
	rec, err := o.start(ctx, m, b.Name, accels)
	if err != nil {
		return nil, err
	}
	return show(b, rec, m.Log), nil
}

// boots are those with a suite that is asked for.
func (o options) boots() (boots []vm.Boot) {
	for _, b := range vm.Boots() {
		b.Suites = slices.DeleteFunc(b.Suites, func(s vm.Suite) bool { return len(o.only) > 0 && !slices.Contains(o.only, s.Package) })
		if len(b.Suites) > 0 {
			boots = append(boots, b)
		}
	}
	return boots
}

// start runs the guest in the best way that boots it.
func (o options) start(ctx context.Context, m vm.Machine, name string, accels *ways) (*vm.Record, error) {
	for {
		began, accel := time.Now(), accels.best()
		rec, err := m.Run(ctx, accel, func(line string, rec *vm.Record) {
			if o.verbose {
				fmt.Println(line)
			}
			switch word, rest, _ := strings.Cut(line, " "); word {
			case vm.WordBoot:
				fmt.Printf("== %s: Linux %s, %s; up after %.1fs\n", name, rest, accel, time.Since(began).Seconds())
			case vm.WordResult: // of the suite that came last
				for _, r := range rec.Results[max(0, len(rec.Results)-1):] {
					fmt.Println(r.Short())
				}
			}
		})
		if err != nil || rec.Kernel != "" || !accels.without(accel) {
			return rec, err
		}
		fmt.Printf("== %s: %s does not boot it here; emulating\n", name, accel)
	}
}

// show prints what came of a boot and returns what is wrong with it.
func show(b vm.Boot, rec *vm.Record, log string) (faults []string) {
	for _, r := range rec.Results {
		if !r.Ended {
			fmt.Println(r.Short())
		}
	}
	for _, f := range rec.Judge(b) {
		faults = append(faults, b.Name+": "+f)
	}
	if text, err := os.ReadFile(log); err == nil && len(faults) > 0 {
		fmt.Printf("the kernel's last words:\n%s\n", text[max(0, len(text)-2000):])
	}
	return faults
}

// pack builds all that the guest needs, and the initramfs of it.
func (o options) pack(dir, initrd string, suites []vm.Suite) error {
	f, err := os.Create(initrd)
	if err != nil {
		return err
	}
	defer f.Close()
	image := vm.Image{Archive: vm.NewArchive(f)}
	image.Device("dev/console", 0o600, 5, 1)
	image.Device("dev/null", 0o666, 1, 3)
	plan := vm.Plan{Env: []string{
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/root", "TMPDIR=/tmp", "CALLCELL_TEST_SLOW=1", "CALLCELL_TEST_MACHINE=1",
		"CALLCELL_TEST_HELPERS=/test/bin", "CALLCELL_LAUNCHER_TEST_HELPERS=/test/bin",
	}}
	if err := image.Tree(filepath.Join(dir, "bin"), "/test/bin", nil); err != nil {
		return err
	}
	if err := image.Copy(filepath.Join(dir, "init"), "/init"); err != nil {
		return err
	}
	for _, s := range suites {
		step, err := o.suite(dir, image, s)
		if err != nil {
			return err
		}
		plan.Suites = append(plan.Suites, step)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	image.File(vm.PlanFile, 0o644, text)
	if err := image.Programs(); err != nil {
		return err
	}
	if err := image.Close(); err != nil {
		return err
	}
	return f.Close()
}

// build builds init, the tests, and what they start.
func (o options) build(dir string, boots []vm.Boot) error {
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	if err := helpers.Build(bin, "callcell-image", "callcell-guest"); err != nil {
		return err
	}
	if err := errors.Join(helpers.Runsc(bin), helpers.Guest(bin)); err != nil {
		return err
	}
	if err := vm.Sandbox(bin); err != nil {
		return err
	}
	if err := helpers.Tools(filepath.Join(helpers.Root(), "internal/launcher/testdata"), bin); err != nil {
		return err
	}
	if err := errors.Join(helpers.Probe(bin), helpers.Unpacker(bin)); err != nil {
		return err
	}
	if err := goBuild("build", "-o", filepath.Join(dir, "init"), "./internal/testing/vm/init"); err != nil {
		return err
	}
	for _, b := range boots {
		for _, s := range b.Suites {
			if err := goBuild("test", "-c", "-o", binary(dir, s), "./"+s.Package); err != nil {
				return err
			}
		}
	}
	return nil
}

func binary(dir string, s vm.Suite) string {
	return filepath.Join(dir, strings.ReplaceAll(s.Package, "/", "-")+".test")
}

// suite puts one package's tests into the image, beside their testdata, as go
// test has it.
func (o options) suite(dir string, image vm.Image, s vm.Suite) (vm.Step, error) {
	at := path.Join("/test", s.Package)
	if err := image.Copy(binary(dir, s), path.Join(at, "suite.test")); err != nil {
		return vm.Step{}, err
	}
	data := filepath.Join(helpers.Root(), s.Package, "testdata")
	if _, err := os.Stat(data); err == nil {
		if err := image.Tree(data, path.Join(at, "testdata"), nil); err != nil {
			return vm.Step{}, err
		}
	}
	limit := o.timeout - 20*time.Second // before the guest's own, so that it says where it hangs
	argv := append([]string{path.Join(at, "suite.test"), "-test.v", "-test.timeout=" + limit.String()}, s.Args...)
	if o.match != "" {
		argv = append(argv, "-test.run="+o.match)
	}
	return vm.Step{Name: s.Package, Dir: at, Argv: argv}, nil
}

func goBuild(args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = helpers.Root(), append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out.Bytes())
	}
	return nil
}
