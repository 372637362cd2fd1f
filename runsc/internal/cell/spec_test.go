package cell

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gvisor.dev/gvisor/runsc/specutils"
)

// launchers is a config.json as the launcher writes it.
const launchers = `{"ociVersion":"1.2.1","hostname":"cell",` +
	`"process":{"user":{"uid":0,"gid":0},"args":["callcell-guest"],"env":["A=b"],"cwd":"/","noNewPrivileges":true,` +
	`"capabilities":{"bounding":["CAP_KILL"],"effective":["CAP_KILL"],"permitted":["CAP_KILL"],"inheritable":[],"ambient":[]},` +
	`"rlimits":[{"type":"RLIMIT_NOFILE","soft":4096,"hard":4096},{"type":"RLIMIT_CORE","soft":0,"hard":0}]},` +
	`"root":{"path":"root","readonly":true},"mounts":[{"destination":"/proc","type":"proc","source":"proc","options":["nosuid","nodev","noexec"]},` +
	`{"destination":"/opt/callcell","type":"erofs","source":"/added","options":["ro","nosuid","nodev"]}],` +
	`"annotations":{"dev.gvisor.spec.rootfs.source":"/root","dev.gvisor.spec.rootfs.type":"erofs"},` +
	`"linux":{"namespaces":[{"type":"pid"},{"type":"mount"},{"type":"ipc"},{"type":"uts"},{"type":"network"}]}}`

// TestSpecIsGVisors: what we read of a bundle is what gVisor reads of it.
func TestSpecIsGVisors(t *testing.T) {
	conf, err := configuration(&options{network: networkNone})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(name, []byte(launchers), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ours, err := readSpec(file, conf)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := specutils.ReadSpecFromFile("/", file, conf)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(ours, theirs) {
		a, _ := json.Marshal(ours)
		b, _ := json.Marshal(theirs)
		t.Errorf("we read\n%s\nnot\n%s", a, b)
	}
}

// TestSpecWithMoreIsRefused: nothing of a bundle is left out in silence.
func TestSpecWithMoreIsRefused(t *testing.T) {
	conf, err := configuration(&options{network: networkNone})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"hooks":        {`"hostname"`, `"hooks":{},"hostname"`},
		"a terminal":   {`"cwd"`, `"terminal":true,"cwd"`},
		"a cgroup":     {`"namespaces"`, `"cgroupsPath":"/x","namespaces"`},
		"no root":      {`"root":{"path":"root","readonly":true},`, ``},
		"no process":   {`"process":`, `"domainname":`},
		"no arguments": {`"args":["callcell-guest"],`, ``},
		"no JSON":      {`{"ociVersion"`, `"ociVersion"`},
	} {
		text := bytes.Replace([]byte(launchers), []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(text, []byte(launchers)) {
			t.Fatalf("%s: nothing is changed", name)
		}
		if spec, err := readSpec(bytes.NewReader(text), conf); err == nil {
			t.Errorf("%s: %+v", name, spec)
		}
	}
}
