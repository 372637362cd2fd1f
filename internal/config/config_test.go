package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config/guarded"
	"github.com/callcell/callcell/internal/placement"
)

func testHost() Host {
	return Host{Home: "/users/ann", Executable: "/opt/callcell/bin/callcell"}
}

func TestDefault(t *testing.T) {
	c := Default(testHost())
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if c.State != "/users/ann/.local/state/callcell" || c.Helpers != "/opt/callcell/bin" {
		t.Errorf("state %s, helpers %s", c.State, c.Helpers)
	}
	if got, ok := c.Profile(""); !ok || !reflect.DeepEqual(got, envelope.Default()) {
		t.Errorf("Profile = %+v, %v", got, ok)
	}
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("the defaults warn: %q", w)
	}
}

func TestHostPlaces(t *testing.T) {
	for _, c := range []struct {
		name          string
		host          Host
		config, state string
	}{
		{"root", Host{Root: true, Home: "/root", ConfigHome: "/x"}, "/etc/callcell/callcell.yaml", "/var/lib/callcell"},
		{"a user", Host{Home: "/u"}, "/u/.config/callcell/callcell.yaml", "/u/.local/state/callcell"},
		{"a user with XDG", Host{Home: "/u", ConfigHome: "/c", StateHome: "/s"}, "/c/callcell/callcell.yaml", "/s/callcell"},
		{"nobody", Host{}, "", ""},
	} {
		if got := c.host.ConfigFile(); got != c.config {
			t.Errorf("%s: ConfigFile = %s, want %s", c.name, got, c.config)
		}
		if got := c.host.state(); got != c.state {
			t.Errorf("%s: state = %s, want %s", c.name, got, c.state)
		}
	}
	t.Setenv("XDG_CONFIG_HOME", "relative")
	t.Setenv("XDG_STATE_HOME", "/abs/")
	host, err := ThisHost()
	if err != nil || host.ConfigHome != "" || host.StateHome != "/abs" || host.Executable == "" {
		t.Errorf("ThisHost = %+v, %v", host, err)
	}
}

func full(t *testing.T) *Config {
	t.Helper()
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Read("full.yaml", data, testHost())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReadFull(t *testing.T) {
	c := full(t)
	if c.State != "/srv/callcell" || c.Helpers != "/usr/lib/callcell" || c.DefaultProfile != "small" || c.Audit.Arguments != ArgumentsDigested {
		t.Errorf("got %+v", c)
	}
	want := placement.DefaultFloors()
	want[envelope.TrustModel] = envelope.LevelContainer
	if !reflect.DeepEqual(c.Floors, want) {
		t.Errorf("floors = %v, want %v: what the file leaves out keeps its default", c.Floors, want)
	}
	if names := sortedKeys(c.Profiles); !reflect.DeepEqual(names, []string{"default", "small", "web"}) {
		t.Errorf("profiles %q", names)
	}
	small, _ := c.Profile("")
	if small.Files.Scratch != 16*envelope.MiB || small.Files.Inodes != envelope.Default().Files.Inodes {
		t.Errorf("small = %+v", small)
	}
	if _, ok := c.Profile("none"); ok {
		t.Error("there is a profile that nobody defined")
	}
}

// TestFullIsFull fails where a key of the configuration is not in
// testdata/full.yaml, or has its default there.
func TestFullIsFull(t *testing.T) {
	c, plain := wireValue(full(t)), wireValue(Default(testHost()))
	for i := range c.NumField() {
		name := c.Type().Field(i).Name
		if name != "Version" && name != "Profiles" && reflect.DeepEqual(c.Field(i).Interface(), plain.Field(i).Interface()) {
			t.Errorf("%s is not in full.yaml", name)
		}
	}
}

func wireValue(c *Config) reflect.Value { return reflect.ValueOf(c.wireOf()).Field(0) }

func TestWarnings(t *testing.T) {
	got := strings.Join(full(t).Warnings(), "\n")
	for _, want := range []string{
		"full.yaml:6:10: floors.model: container is weaker than the default, userkernel",
		"full.yaml:7:9: audit.arguments: digested: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"a version to come", "version: 2\n", "f.yaml:1:1: version: "},
		{"an unknown key", "statedir: /x\n", "f.yaml:1:1: statedir: "},
		{"a relative directory", "state: x\n", "f.yaml:1:1: state: not an absolute path"},
		{"a directory with dots", "state: /x/../y\n", "f.yaml:1:1: state: not an absolute path"},
		{"all of the file system", "state: /\n", "f.yaml:1:1: state: the root"},
		{"no directory", "helpers: ''\n", "f.yaml:1:1: helpers: no directory"},
		{"a fault in a profile", "profiles:\n  a:\n    files:\n      scratch: 64\n", "f.yaml:4:7: profiles.a.files.scratch: "},
		{"a check in a profile", "profiles:\n  a:\n    network:\n      allow: [{host: x.example.com, ports: [0]}]\n", "f.yaml:4:45: profiles.a.network.allow[0].ports[0]: "},
		{"a name of a profile", "profiles: {A: {}}\n", "f.yaml:1:12: profiles.A: not a name"},
		{"a name that is a path", "profiles: {../x: {}}\n", `f.yaml:1:12: profiles["../x"]: not a name`},
		{"no such profile", "defaultProfile: x\n", "f.yaml:1:1: defaultProfile: there is no such profile"},
		{"an unknown trust", "floors: {everyone: container}\n", "f.yaml:1:10: floors.everyone: "},
		{"a floor that is none", "floors: {hostile: auto}\n", "f.yaml:1:10: floors.hostile: auto is not"},
		{"no isolation", "floors: {reviewed: none}\n", "f.yaml:1:10: floors.reviewed: none is not"},
		{"a number of a tier", "gateway:\n  tiers: {free: {rate: 0}}\n", "f.yaml:2:18: gateway.tiers.free.rate: out of range"},
		{"an unknown key of a tier", "gateway: {tiers: {free: {x: 1}}}\n", "f.yaml:1:26: gateway.tiers.free.x: "},
		{"a tier without a name", "gateway: {tiers: {'A b': {}}}\n", `f.yaml:1:19: gateway.tiers["A b"]: not a name`},
		{"a name to listen at", "serve: {listen: 'localhost:80'}\n", "f.yaml:1:9: serve.listen: not an address"},
		{"a daemon without a key", "daemon: {address: 'http://127.0.0.1:7420'}\n", "f.yaml:1:1: daemon.key: is missing"},
		{"a key without a daemon", "daemon: {key: 'env:K'}\n", "f.yaml:1:1: daemon.address: is missing"},
		{"a daemon elsewhere in the clear", "daemon: {address: 'http://192.0.2.1:7420', key: 'env:K'}\n", "f.yaml:1:10: daemon.address: not the address of a daemon"},
		{"a daemon by a name that may lead anywhere", "daemon: {address: 'http://localhost:7420', key: 'env:K'}\n", "f.yaml:1:10: daemon.address: not the address of a daemon"},
		{"a daemon's path", "daemon: {address: 'https://cells.example.com/v1', key: 'env:K'}\n", "f.yaml:1:10: daemon.address: not the address of a daemon"},
		{"a key where its source belongs", "daemon: {address: 'https://cells.example.com', key: cck_x}\n", "f.yaml:1:48: daemon.key: is not a source"},
		{"half of a certificate", "serve: {tls: {cert: /x}}\n", "f.yaml:1:9: serve.tls: one of"},
		{"every origin", "serve: {origins: ['*']}\n", "f.yaml:1:19: serve.origins[0]: not an origin"},
		{"an origin with a path", "serve: {origins: ['https://a.example/x']}\n", "f.yaml:1:19: serve.origins[0]: not an origin"},
		{"a host with a port", "serve: {hosts: ['a.example:80']}\n", "f.yaml:1:17: serve.hosts[0]: not a name"},
		{"no time at all", "serve: {header: 0s}\n", "f.yaml:1:9: serve.header: out of range"},
		{"floors upside down", "floors: {hostile: language}\n", "f.yaml:1:10: floors.hostile: lower than floors.thirdparty (userkernel)"},
		{"a resolver by name", "egress: {resolvers: [dns.example.com]}\n", "f.yaml:1:22: egress.resolvers[0]: not an address"},
		{"a resolver with a zone", "egress: {resolvers: ['fe80::1%eth0']}\n", "f.yaml:1:22: egress.resolvers[0]: not an address"},
		{"relative roots", "egress: {roots: ca.pem}\n", "f.yaml:1:10: egress.roots: not an absolute path"},
		{"an address for a range", "egress: {deny: [192.0.2.1]}\n", "f.yaml:1:17: egress.deny[0]: not an address range"},
		{"a range with host bits", "egress: {deny: [192.0.2.1/24]}\n", "f.yaml:1:17: egress.deny[0]: not in canonical form"},
		{"no connections", "egress: {limits: {connections: 0}}\n", "f.yaml:1:19: egress.limits.connections: out of range"},
		{"an endless fetch", "egress: {fetch: {total: 24h}}\n", "f.yaml:1:18: egress.fetch.total: out of range"},
		{"a port that is none", "egress: {fetch: {ports: [0]}}\n", "f.yaml:1:26: egress.fetch.ports[0]: 0 is not a port"},
		{"no ports", "egress: {fetch: {ports: []}}\n", "f.yaml:1:18: egress.fetch.ports: not 1 to 32"},
		{"arguments", "audit: {arguments: maybe}\n", "f.yaml:1:9: audit.arguments: not a word"},
	} {
		_, err := Read("f.yaml", []byte(c.in), testHost())
		var fault *Error
		if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		} else if fault.Hint == "" {
			t.Errorf("%s: %v: no hint", c.name, err)
		}
	}
}

func TestValidateWithoutFile(t *testing.T) {
	_, err := Load("", Host{Executable: "/x/callcell"})
	if err == nil || err.Error() != "callcell: state: no directory is known" {
		t.Errorf("err = %v", err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	host := Host{Home: dir, ConfigHome: dir, Executable: "/x/callcell"}
	if c, err := Load("", host); err != nil || c.File() != "" {
		t.Errorf("no file: %v, %v", c, err)
	}
	if _, err := Load(filepath.Join(dir, "named.yaml"), host); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a named file that is not there: %v", err)
	}
	path := host.ConfigFile()
	write(t, path, "defaultProfile: p\nprofiles: {p: {}}\n", 0o600)
	if c, err := Load("", host); err != nil || c.File() != path || c.DefaultProfile != "p" {
		t.Errorf("the default place: %v, %v", c, err)
	}
	write(t, path, "version: 1\n", 0o666)
	if _, err := Load("", host); !errors.Is(err, guarded.ErrUnsafe) {
		t.Errorf("a file that all can write: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere", path); err != nil {
		t.Fatal(err)
	}
	if _, err := Load("", host); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link that leads nowhere: %v", err)
	}
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	if err := full(t).Print(&out); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(strings.ReplaceAll(out.String(), "\n", " ; ")), " ")
	for _, want := range []string{
		`state = "/srv/callcell" # full.yaml:3:1 ;`,
		`floors.model = "container" # full.yaml:6:10 ;`,
		`floors.hostile = "microvm" # default ;`,
		`profiles.small.files.scratch = "16Mi" # full.yaml:10:13 ;`,
		`profiles.small.resources.memory = "256Mi" # default ;`,
		`profiles.small.network.allow = [] # default ;`,
		`profiles.web.network.allow[1].ports[0] = 5432 # full.yaml:18:19 ;`,
		`daemon.key = "command:[redacted]"`,
		`profiles.web.credentials.gh.source = "command:[redacted]" # full.yaml:22:9 ;`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(text, "github-token") {
		t.Error("the command of a credential is shown")
	}
}

func TestChecksAreDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		if c.Name == "" || c.Doc == "" || seen[c.Name] {
			t.Errorf("check %+v", c)
		}
		seen[c.Name] = true
	}
}
