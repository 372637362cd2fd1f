package callcell_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell"
	"github.com/callcell/callcell/envelope"
)

// document has something of every section that an embedding program has a use
// for, and one of a daemon's.
const document = `version: 1
state: /srv/agent
helpers: /usr/lib/callcell
defaultProfile: web
floors: {model: container}
audit: {arguments: digested, key: /etc/agent/audit.key, anchors: [{file: /mnt/other/checkpoints}]}
profiles:
  web:
    network: {allow: [{host: api.example.com, ports: [443]}]}
egress: {resolvers: [192.0.2.53], deny: [198.51.100.0/24]}
credentials: {vault: {address: "https://vault.example.com:8200", token: "file:/etc/agent/token"}}
telemetry: {endpoint: "https://otel.example.com:4318/v1/traces"}
workspaces: {versions: 7}
serve: {listen: 127.0.0.1:7420}
`

// TestParseConfig: a document fills the fields in, and they are over it.
func TestParseConfig(t *testing.T) {
	conf, err := callcell.ParseConfig("agent.yaml", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	if conf.State != "/srv/agent" || conf.Helpers != "/usr/lib/callcell" || conf.DefaultProfile != "web" || conf.Arguments != "digested" ||
		conf.Floors[envelope.TrustModel] != envelope.LevelContainer || conf.Floors[envelope.TrustHostile] != envelope.LevelMicroVM ||
		conf.Profiles["web"].Network.Allow[0].Host != "api.example.com" || conf.Profiles["default"].Version != 1 {
		t.Errorf("%+v", conf)
	}
	want := []string{"agent.yaml:5:10: floors.model: container is weaker than the default, userkernel",
		"agent.yaml:6:9: audit.arguments: digested: rows cannot say with what a tool was called, and calls cannot be replayed"}
	for _, line := range want {
		if !slices.Contains(conf.Warnings(), line) {
			t.Errorf("no warning %q in %q", line, conf.Warnings())
		}
	}
	conf.Floors, conf.Arguments, conf.Profiles = nil, "", nil
	for _, line := range conf.Warnings() {
		if strings.Contains(line, "floors") || strings.Contains(line, "arguments") {
			t.Errorf("a warning of what was taken back: %s", line)
		}
	}
	_, err = callcell.New(t.Context(), conf)
	var fault *callcell.ConfigError
	if !errors.As(err, &fault) || fault.Field != "defaultProfile" || fault.Place != "" {
		t.Errorf("a default profile that was taken away: %v", err)
	}
}

// TestParseConfigTakesJSON: what a program marshals is a document.
func TestParseConfigTakesJSON(t *testing.T) {
	text, err := json.MarshalIndent(map[string]any{
		"version": 1, "state": "/srv/agent", "profiles": map[string]envelope.Envelope{"small": envelope.Default()},
		"egress": map[string]any{"resolvers": []string{"192.0.2.53"}, "limits": map[string]any{"bytes": envelope.MiB}},
	}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	conf, err := callcell.ParseConfig("made", text)
	if err != nil || conf.Profiles["small"].Resources != envelope.Default().Resources {
		t.Errorf("%v %+v", err, conf)
	}
}

// TestLoadConfigIsOfTheCommands: the file of the commands is read by their
// rules.
func TestLoadConfigIsOfTheCommands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "callcell.yaml")
	if _, err := callcell.LoadConfig(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	conf, err := callcell.LoadConfig(path)
	if err != nil || conf.State != "/srv/agent" {
		t.Errorf("%v %+v", err, conf)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	var fault *callcell.ConfigError
	if _, err = callcell.LoadConfig(path); !errors.As(err, &fault) || fault.Place != path || fault.Hint == "" {
		t.Errorf("a file that anybody can write: %v", err)
	}
}

// TestDocumentErrors: a fault is refused with its place, its field and the mend,
// and no Config comes of it.
func TestDocumentErrors(t *testing.T) {
	for text, want := range map[string]string{
		"egres: {}":                                                                 "callcell: x:1:1: egres: unknown key",
		"egress: {resolvers: [dns.example.com]}":                                    "callcell: x:1:22: egress.resolvers[0]: not an address",
		"egress: {limits: {bytes: 64}}":                                             "callcell: x:1:19: egress.limits.bytes: bad size",
		"audit: {anchors: [{}]}":                                                    "callcell: x:1:19: audit.anchors[0]: not exactly one",
		"audit: {anchors: [{file: /s/a}]}\nstate: /s":                               "callcell: x:1:20: audit.anchors[0].file: in the state directory",
		"telemetry: {endpoint: \"http://example.com\"}":                             "callcell: x:1:13: telemetry.endpoint: not an https address",
		"telemetry: {headers: {Authorization: sesame}}":                             "callcell: x:1:23: telemetry.headers.Authorization: is not a source",
		"webhooks: [{url: \"https://example.com\"}]":                                "callcell: x:1:12: webhooks[0].secret: is missing",
		"profiles: {x: {network: {private: [{cidr: 169.254.169.254/32, why: x}]}}}": "callcell: x:1:",
		"profiles: {x: {files: {scratch: unlimited}}}":                              "callcell: x:1:24: profiles.x.files.scratch: bad size",
		"floors: {hostile: language}":                                               "callcell: x:1:10: floors.hostile: lower than",
		"state: relative":                                                           "callcell: x:1:1: state: not an absolute path",
		"a: 1\na: 2":                                                                "callcell: x:2:1: ",
		"version: 2":                                                                "callcell: x:1:1: version: not a version",
	} {
		conf, err := callcell.ParseConfig("x", []byte(text))
		var fault *callcell.ConfigError
		if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), want) || !strings.HasPrefix(fault.Place, "x:") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if conf.State != "" || conf.Profiles != nil {
			t.Errorf("%s: a Config came of it: %+v", text, conf)
		}
	}
	if _, err := callcell.ParseConfig("x", make([]byte, 1<<20+1)); err == nil {
		t.Error("more than 1 MiB is read")
	}
}
