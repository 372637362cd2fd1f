// Command run builds the tests that package vm lists, runs them in a virtual
// machine, and says what came of them:
//
//	go run ./internal/testing/vm/run -kernel BZIMAGE
//
// The kernel is Debian's linux-image-cloud-amd64; QEMU must be installed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
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
	flag.DurationVar(&o.timeout, "timeout", 4*time.Minute, "when the machine is ended")
	flag.BoolVar(&o.verbose, "v", false, "show all that comes out of the machine, as it comes")
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
	suites := slices.DeleteFunc(vm.Suites(), func(s vm.Suite) bool { return len(o.only) > 0 && !slices.Contains(o.only, s.Package) })
	if len(suites) == 0 {
		return fmt.Errorf("no suite is called %s", strings.Join(o.only, " "))
	}
	m := vm.Machine{Kernel: o.kernel, Initrd: filepath.Join(dir, "initrd"), Log: filepath.Join(dir, "kernel.log"), Stderr: os.Stderr}
	if err := o.pack(dir, m.Initrd, suites); err != nil {
		return err
	}
	rec, err := o.boot(m)
	if err != nil {
		return err
	}
	for _, r := range rec.Results {
		fmt.Println(r.Short())
	}
	faults := rec.Judge(suites)
	if len(faults) == 0 {
		return nil
	}
	if log, err := os.ReadFile(m.Log); err == nil {
		fmt.Printf("the kernel's last words:\n%s\n", log[max(0, len(log)-4000):])
	}
	return fmt.Errorf("the machine's tests failed:\n  %s", strings.Join(faults, "\n  "))
}

// boot runs the machine in the best way that boots it.
func (o options) boot(m vm.Machine) (*vm.Record, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.timeout, fmt.Errorf("not done within %v", o.timeout))
	defer cancel()
	accels := vm.Accels()
	if o.accel != "" {
		accels = []string{o.accel}
	}
	for {
		began := time.Now()
		rec, err := m.Run(ctx, accels[0], func(line string) {
			if kernel, ok := strings.CutPrefix(line, vm.WordBoot+" "); ok {
				fmt.Printf("Linux %s (%s), cgroup v2, up after %.1fs\n", kernel, accels[0], time.Since(began).Seconds())
			}
			if o.verbose {
				fmt.Println(line)
			}
		})
		if err != nil || rec.Kernel != "" || len(accels) == 1 {
			return rec, err
		}
		fmt.Printf("%s does not boot it here (%s); emulating\n", accels[0], strings.Join(rec.Faults, ", "))
		accels = accels[1:]
	}
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
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/root", "TMPDIR=/tmp", "CALLCELL_TEST_SLOW=1",
		"CALLCELL_TEST_HELPERS=/test/bin", "CALLCELL_LAUNCHER_TEST_HELPERS=/test/bin",
	}}
	if err := o.helpers(dir, image); err != nil {
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

// helpers builds init, and what the tests start.
func (o options) helpers(dir string, image vm.Image) error {
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	if err := helpers.Build(bin); err != nil {
		return err
	}
	if err := helpers.Tools(filepath.Join(helpers.Root(), "internal/launcher/testdata"), bin); err != nil {
		return err
	}
	if err := image.Tree(bin, "/test/bin", nil); err != nil {
		return err
	}
	init := filepath.Join(dir, "init")
	if err := goBuild("build", "-o", init, "./internal/testing/vm/init"); err != nil {
		return err
	}
	return image.Copy(init, "/init")
}

// suite builds one package's tests. They run beside their testdata, as go test
// has it.
func (o options) suite(dir string, image vm.Image, s vm.Suite) (vm.Step, error) {
	at := path.Join("/test", s.Package)
	bin := filepath.Join(dir, path.Base(s.Package)+".test")
	if err := goBuild("test", "-c", "-o", bin, "./"+s.Package); err != nil {
		return vm.Step{}, err
	}
	if err := image.Copy(bin, path.Join(at, "suite.test")); err != nil {
		return vm.Step{}, err
	}
	data := filepath.Join(helpers.Root(), s.Package, "testdata")
	if _, err := os.Stat(data); err == nil {
		if err := image.Tree(data, path.Join(at, "testdata"), nil); err != nil {
			return vm.Step{}, err
		}
	}
	argv := append([]string{path.Join(at, "suite.test"), "-test.v", "-test.timeout=" + (o.timeout - 20*time.Second).String()}, s.Args...)
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
