package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cli"
	"github.com/callcell/callcell/internal/image"
)

// notAsked are the commands that take --json and are not run by the test of all:
// each takes a registry, a minute, or what else is installed.
func notAsked() []string { return []string{"bench", "image build", "image host", "image pull"} }

// sayOrAnswer are commands that say in words, on standard error, what they answer
// in JSON: then they say nothing there.
func sayOrAnswer() []string {
	return []string{"image gc", "image rm", "init", "key create", "key revoke", "key rotate", "team create", "team set", "workspace export", "workspace gc", "workspace rm"}
}

// A machine runs commands and takes what they answer.
type machine struct {
	t         *testing.T
	bin, conf string
	asked     []string // commands, by name
}

// asks runs a command with --json and returns what it answered, of which each
// value is JSON, and which is all that is on standard output.
func (m *machine) asks(status int, command string, args ...string) []map[string]any {
	m.t.Helper()
	m.asked = append(m.asked, command)
	line := append([]string{"--config", m.conf}, strings.Fields(command)...)
	line = append(append(line, "--json"), args...)
	cmd := exec.Command(filepath.Join(m.bin, "callcell"), line...)
	cmd.Dir = filepath.Dir(m.conf)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the status says it
	if got := cmd.ProcessState.ExitCode(); got != status || status == 0 && errs.Len() > 0 && slices.Contains(sayOrAnswer(), command) {
		m.t.Errorf("%s %q: status %d, want %d: %s", command, args, got, status, errs.String())
	}
	var values []map[string]any
	for d := json.NewDecoder(&out); ; {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) && (len(values) > 0 || command == "usage") { // of no key: no line
			return values
		}
		if err != nil {
			m.t.Fatalf("%s %q: %v", command, args, err)
		}
		if list, ok := v.([]any); ok {
			v = map[string]any{"list": list}
		}
		one, ok := v.(map[string]any)
		if !ok {
			m.t.Fatalf("%s %q: %v is neither an object nor a list of them", command, args, v)
		}
		m.named(command, one)
		values = append(values, one)
	}
}

// named wants every field to be named as fields are here: those of a type that
// nobody has given names for JSON would begin with a capital.
func (m *machine) named(command string, v any) {
	m.t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if !fieldName.MatchString(name) {
				m.t.Errorf("%s: a field %q", command, name)
			}
			m.named(command, value)
		}
	case []any:
		for _, value := range v {
			m.named(command, value)
		}
	}
}

var fieldName = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)

// text is a field of an answer that is a string.
func (m *machine) text(v map[string]any, field string) string {
	m.t.Helper()
	text, ok := v[field].(string)
	if !ok || text == "" {
		m.t.Fatalf("%s: %v has no text", field, v)
	}
	return text
}

// TestAnswersOfAllCommands: whatever takes --json answers with JSON and nothing
// else, and the answers lead from one command to the next.
func TestAnswersOfAllCommands(t *testing.T) {
	conf, state := stand(t)
	m := &machine{t: t, bin: binaries(t), conf: conf}
	m.ofCalls()
	m.ofTheLog()
	m.ofWorkspaces()
	m.ofImages(state)
	m.ofKeys()
	m.asks(0, "levels")
	m.asks(0, "config")
	m.text(m.asks(0, "version")[0], "version")
	want := slices.DeleteFunc(cli.AnsweringMachines(t), func(name string) bool { return slices.Contains(notAsked(), name) })
	slices.Sort(m.asked)
	if got := slices.Compact(m.asked); !slices.Equal(got, want) {
		t.Errorf("asked were\n%q, want\n%q", got, want)
	}
}

func (m *machine) ofCalls() {
	m.asks(0, "explain", "--trust", "reviewed", "--", "true")
	m.asks(121, "fetch", "--profile", "nosuch", "https://example.com/")
	r := m.asks(0, "init", "--name", "docs", "--read", "docs.example.com", "--trust", "reviewed")[0]
	if file := m.text(r, "text"); !strings.HasPrefix(file, "# Drafted by callcell init") || len(r["profiles"].([]any)) != 1 {
		m.t.Errorf("init: %v", r)
	}
	r = m.asks(0, "init", "--name", "docs", "--trust", "reviewed", "-o", "docs.yaml")[0]
	if m.text(r, "file") != filepath.Join(filepath.Dir(m.conf), "docs.yaml") || r["text"] != nil {
		m.t.Errorf("init -o: %v", r)
	}
	p := r["profiles"].([]any)[0].(map[string]any)
	if p["name"] != "docs-read" || p["level"] != "container" || p["envelope"] == nil {
		m.t.Errorf("init: %v", p)
	}
}

func (m *machine) ofTheLog() {
	id := m.text(m.asks(0, "run", "--trust", "reviewed", "--", "echo", "hello")[0], "id")
	met := m.text(m.asks(137, "run", "--trust", "reviewed", "--memory", "32Mi", "--", "python3", "-c", "x = bytearray(1 << 27)")[0], "id")
	for _, c := range []struct {
		inForce bool
		args    []string
	}{{false, []string{"--from-row", met}}, {true, []string{"--from-row", met, "--accept"}}} {
		proposals, _ := m.asks(0, "init", c.args...)[0]["proposals"].([]any)
		if len(proposals) != 1 {
			m.t.Fatalf("init %q: %v", c.args, proposals)
		}
		if one := proposals[0].(map[string]any); one["field"] != "resources.memory" || one["value"] != "64Mi" || one["inForce"] != c.inForce {
			m.t.Errorf("init %q: %v", c.args, one)
		}
	}
	if m.text(m.asks(0, "audit show", id)[0], "id") != id || len(m.asks(0, "audit list")) != 3 || len(m.asks(0, "audit tail")) != 3 || len(m.asks(0, "audit export")) != 3 {
		m.t.Error("the log has not the fetch and the two calls")
	}
	if key := m.text(m.asks(0, "audit key")[0], "key"); !strings.HasPrefix(key, "ed25519:") {
		m.t.Errorf("audit key: %s", key)
	}
	if got := m.asks(0, "audit erase", id, "--yes")[0]; len(got) != 1 || got["id"] != id {
		m.t.Errorf("audit erase: %v", got)
	}
	m.asks(0, "audit prune", "--older-than", "720h")
	m.asks(0, "audit verify")
}

func (m *machine) ofWorkspaces() {
	m.asks(0, "run", "--trust", "reviewed", "--workspace", "notes", "--", "sh", "-c", "echo one > log")
	m.asks(0, "workspace list")
	m.asks(0, "workspace show", "notes")
	m.asks(0, "workspace diff", "notes@1")
	dir := filepath.Join(filepath.Dir(m.conf), "out")
	if got := m.asks(0, "workspace export", "notes", "out")[0]; got["dir"] != dir || got["name"] != "notes" || got["version"] != 1.0 || got["files"] != 1.0 {
		m.t.Errorf("workspace export: %v", got)
	}
	m.asks(0, "workspace rm", "notes")
	m.asks(0, "workspace gc")
}

func (m *machine) ofImages(state string) {
	index := image.NewIndex(filepath.Join(state, "image"))
	for _, name := range []string{"build:one", "build:two"} {
		r := &image.Record{Version: 1, Name: name, Tree: "sha256:" + strings.Repeat("0", 64), Recipe: &image.Recipe{Base: envelope.ImageHost}, Made: time.Now()}
		if err := index.Put(r); err != nil {
			m.t.Fatal(err)
		}
	}
	m.asks(0, "image list")
	m.asks(0, "image inspect", "build:one")
	if got := m.asks(0, "image rm", "build:one")[0]["removed"]; !slices.Equal(got.([]any), []any{"build:one"}) {
		m.t.Errorf("image rm: %v", got)
	}
	// What was done before it failed is in the answer.
	if got := m.asks(1, "image rm", "build:two", "build:three")[0]["removed"]; !slices.Equal(got.([]any), []any{"build:two"}) {
		m.t.Errorf("image rm: %v", got)
	}
	m.asks(0, "image gc", "--dry-run")
}

func (m *machine) ofKeys() {
	m.asks(0, "team create", "ops")
	m.asks(0, "team list")
	m.asks(0, "team set", "ops", "--suspended")
	key := m.asks(0, "key create", "--team", "ops")[0]["key"].(map[string]any)
	id := m.text(key, "id")
	m.asks(0, "key list")
	m.asks(0, "key rotate", id)
	m.asks(0, "key revoke", id)
	m.asks(0, "usage")
}
