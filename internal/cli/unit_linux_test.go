package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/helpers"
)

// unitAlone are the directives of the unit that only systemd itself can play, or
// that hold nothing back from the daemon.
var unitAlone = strings.Fields(`Type NotifyAccess ExecStart Restart RestartSec TimeoutStopSec KillMode Delegate OOMPolicy
	AmbientCapabilities RuntimeDirectory RuntimeDirectoryMode RuntimeDirectoryPreserve PrivateTmp RestrictSUIDSGID SystemCallArchitectures`)

// underUnit becomes its arguments in a mount namespace as the unit's: all that is on
// a disk can be read alone, but for what is in OPEN, and there are no homes.
const underUnit = `set -e
mount --make-rprivate /
for dir in $OPEN; do mount --rbind $dir $dir; done
for dir in $(cut -d' ' -f5 /proc/self/mountinfo); do
	for open in $OPEN /proc /dev /sys; do case $dir in $open|$open/*) continue 2;; esac; done
	mount -o remount,bind,ro $dir 2>/dev/null || true
done
mount -t tmpfs -o ro none /home
umask $UMASK; ulimit -n $NOFILE; ulimit -c 0
exec setpriv --bounding-set "$CAPS" --inh-caps=-all "$@"`

// TestUnit plays what dist/callcell.service takes away from a daemon, which gives
// up root as well: calls run, with a way out and without.
func TestUnit(t *testing.T) {
	bin := binaries(t)
	conf, state := stand(t)
	dir := filepath.Dir(conf)
	for _, d := range []string{dir, filepath.Dir(dir)} { // its user goes through
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	addTo(t, conf, "serve: {user: nobody}\nprofiles:\n  default: {trust: reviewed}\n"+
		"  out: {trust: reviewed, network: {allow: [{host: example.com, ports: [443]}]}}\n")
	first := startDaemon(t, bin, conf, "--dev") // makes the state, for its user
	if err := first.end(syscall.SIGTERM); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(first.log, "\n"))
	}
	if err := helpers.Tools("testdata/unit", dir); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"/run/callcell", "/var/lib/callcell"} { // as the unit's comment says, and RuntimeDirectory
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	filters, env := unitOf(t)
	env = append(env, "OPEN=/run/callcell /var/lib/callcell /sys/fs/cgroup "+state)
	argv := append([]string{"-m", "--propagation", "private", "/bin/sh", "-c", underUnit, "sh", filepath.Join(dir, "seal")}, filters...)
	argv = append(append(argv, "--", filepath.Join(bin, "callcell")), serveArgs(conf, "--dev")...)
	cmd := exec.Command("unshare", argv...)
	cmd.Env = append(cmd.Environ(), env...)
	d := startBy(t, cmd)
	api, err := client.New(d.address, d.devKey(t))
	if err != nil {
		t.Fatal(err)
	}
	for profile, want := range map[string]string{"default": "cell\n", "out": "cell\nno\n"} {
		script := "hostname; touch /tmp/x"
		if profile == "out" {
			script += "; getent hosts denied.example.com || echo no"
		}
		r, err := api.Run(t.Context(), &envelope.Call{Argv: []string{"/bin/sh", "-c", script}, Profile: profile})
		if err != nil || !r.OK() || string(r.Stdout.Head) != want {
			t.Errorf("%s: %+v %v", profile, r, err)
		}
	}
	api.HTTP.CloseIdleConnections()
	if err := d.end(syscall.SIGTERM); err != nil || t.Failed() {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
}

// unitOf reads the unit: the filters for seal, and variables for underUnit. A
// directive that nobody plays fails the test.
func unitOf(t *testing.T) (filters, env []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(helpers.Root(), "dist/callcell.service"))
	if err != nil {
		t.Fatal(err)
	}
	_, service, _ := strings.Cut(string(text), "\n[Service]\n")
	service, _, _ = strings.Cut(service, "\n[")
	alone := map[string]bool{}
	for _, name := range unitAlone {
		alone[name] = true
	}
	for line := range strings.Lines(service) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case !ok || strings.HasPrefix(name, "#") || alone[name]:
		case name == "CapabilityBoundingSet":
			caps := strings.ToLower("-all " + strings.ReplaceAll(value, "CAP_", "+"))
			env = append(env, "CAPS="+strings.ReplaceAll(caps, " ", ","))
		case name == "UMask":
			env = append(env, "UMASK="+value)
		case name == "LimitNOFILE":
			env = append(env, "NOFILE="+value)
		case name == "RestrictAddressFamilies":
			filters = append(filters, name+"="+strings.ReplaceAll(value, " ", ","))
		case line == "ProtectSystem=strict\n", line == "ProtectHome=yes\n", line == "LimitCORE=0\n",
			line == "ReadWritePaths=/var/lib/callcell /run/callcell /sys/fs/cgroup\n": // by underUnit
		case value == "yes":
			filters = append(filters, name) // seal knows it, or fails
		default:
			t.Errorf("nobody plays %s", strings.TrimSpace(line))
		}
	}
	if len(filters) < 5 || len(env) != 3 {
		t.Fatalf("of the unit were read %q and %q", filters, env)
	}
	return filters, env
}
