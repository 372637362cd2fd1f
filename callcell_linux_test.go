package callcell_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/helpers"
	"github.com/callcell/callcell/internal/testing/leak"
)

var helperDir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "callcell-embedded-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // those who start in a cell with a kernel of its own read it
		return dir, err
	}
	return dir, helpers.Build(dir, "callcell-image", "callcell-guest")
})

// kernelDir is helperDir with what level userkernel needs, for who asks: without
// it the level is not there, which others test.
var kernelDir = sync.OnceValues(func() (string, error) {
	from, err := helperDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(from, "kernel")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"callcell-launcher", "callcell-egress", "callcell-init", "callcell-image", "callcell-guest"} {
		if err := os.Link(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, helpers.Runsc(dir)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := helperDir(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

func reviewed() envelope.Envelope {
	e := envelope.Default()
	e.Trust = envelope.TrustReviewed
	e.Environment = []string{"NAME"}
	e.Resources.Memory = 64 * envelope.MiB
	return e
}

func configOf(t testing.TB) callcell.Config {
	t.Helper()
	dir, err := helperDir()
	if err != nil {
		t.Fatal(err)
	}
	return callcell.Config{
		State: filepath.Join(t.TempDir(), "state"), Helpers: dir,
		Profiles: map[string]envelope.Envelope{"reviewed": reviewed()}, DefaultProfile: "reviewed",
		Warn: func(text string) { t.Error(text) },
	}
}

func open(t testing.TB, c callcell.Config) *callcell.Callcell {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a real cell takes root")
	}
	cells, err := callcell.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cells.Close(); err != nil {
			t.Error(err)
		}
	})
	return cells
}

// TestRun runs real cells, several at once.
func TestRun(t *testing.T) {
	leak.Check(t)
	cells := open(t, configOf(t))
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			want := fmt.Sprintf("hello %d\n", i)
			r := cells.Run(t.Context(), &envelope.Call{
				Tool: "greet", Env: map[string]string{"NAME": fmt.Sprint(i)}, Outputs: []string{"out"},
				Script: &envelope.Script{Lang: "sh", Code: "echo hello $NAME | tee out"},
			})
			if !r.OK() || string(r.Stdout.Head) != want || r.Level != envelope.LevelContainer {
				t.Errorf("%+v %v", r, r.Refusal)
			}
			if len(r.Outputs) != 1 || string(r.Outputs[0].Data) != want {
				t.Errorf("outputs %+v, %+v", r.Outputs, r.Missing)
			}
			if r.Teardown == nil || !r.Teardown.Complete || r.Receipt == nil {
				t.Errorf("teardown %+v, receipt %+v", r.Teardown, r.Receipt)
			}
		})
	}
	all.Wait()
}

// TestRightsStay holds the embedding process to what it had before.
func TestRightsStay(t *testing.T) {
	rights := func() string {
		b, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(regexp.MustCompile(`(?m)^(Uid|Gid|Cap\w+|NoNewPrivs|Seccomp):.*$`).FindAllString(string(b), -1), "\n")
	}
	before := rights()
	cells := open(t, configOf(t))
	if r := cells.Run(t.Context(), &envelope.Call{Argv: []string{"true"}}); !r.OK() {
		t.Fatalf("%+v", r.Refusal)
	}
	if after := rights(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// TestAsked hands on calls as a model may have sent them: none gets more than
// its profile gives.
func TestAsked(t *testing.T) {
	cells := open(t, configOf(t))
	for _, c := range []struct{ sent, want string }{
		{`{"argv": ["true"], "request": {"trust": "hostile"}}`, "isolation: level: hostile code needs"},
		{`{"argv": ["true"], "profile": "default", "request": {"trust": "reviewed"}}`, "policy: trust: asks reviewed"},
		{`{"argv": ["true"], "request": {"resources": {"memory": "1Gi"}}}`, "policy: resources.memory: asks 1Gi, the profile allows 64Mi"},
		{`{"argv": ["true"], "request": {"resources": {"memory": 64}}}`, "request: request.resources.memory: bad size"},
		{`{"argv": ["true"], "request": {"resources": {"memory": "unlimited"}}}`, "request: request.resources.memory: bad size"},
		{`{"argv": ["true"], "request": {"files": {"mounts": ["etc"]}}}`, `policy: files.mounts[0]: the profile has no entry "etc"`},
		{`{"argv": ["true"], "request": {"files": {"mounts": {"etc": {"source": "/etc", "target": "/x", "why": "x"}}}}}`, "request: request.files.mounts: "},
		{`{"argv": ["true"], "request": {"credentials": {"gh": {"source": "file:/etc/shadow"}}}}`, "request: request.credentials: "},
		{`{"argv": ["true"], "inputs": [{"name": "x", "from": "/etc/shadow"}]}`, "request: inputs[0].from: unknown key"},
		{`{"argv": ["true"], "inputs": [{"name": "x", "data": "", "source": "file:/etc/shadow"}]}`, "request: inputs[0].source: unknown key"},
		{`{"argv": ["true"], "inputs": [{"name": "../x", "data": ""}]}`, "request: inputs[0].name: "},
		{`{"argv": ["a\u0000b"]}`, "request: argv[0]: has a NUL"},
		{`{"argv": ["true"], "profile": "none"}`, "request: profile: there is no profile none"},
		{`{"argv": ["true"], "env": {"LD_PRELOAD": "/x.so"}}`, "request: env.LD_PRELOAD: "},
		{`{"argv": ["true"]} {}`, "request: not JSON"},
		{`{"argv": ["true"], "argv": ["false"]}`, "request: argv: "},
	} {
		call, err := envelope.DecodeCall([]byte(c.sent))
		refusal := envelope.RefusalOf(err)
		if err == nil {
			r := cells.Run(t.Context(), &call)
			if refusal = r.Refusal; r.Receipt == nil {
				t.Errorf("%s: no row", c.sent)
			}
		}
		if refusal == nil || !strings.HasPrefix(refusal.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.sent, refusal, c.want)
		} else if refusal.Hint == "" && refusal.Reason != envelope.ReasonRequest {
			t.Errorf("%s: %v: no hint", c.sent, refusal)
		}
	}
}

func TestExplain(t *testing.T) {
	cells := open(t, configOf(t))
	e := cells.Explain(t.Context(), &envelope.Call{Argv: []string{"true"}})
	if e.Refusal != nil || e.Level != envelope.LevelContainer || len(e.Why) == 0 || e.Envelope.Resources.Memory != 64*envelope.MiB {
		t.Errorf("%+v", e)
	}
	e = cells.Explain(t.Context(), &envelope.Call{Argv: []string{"true"}, Profile: "default"})
	if e.Refusal == nil || e.Refusal.Reason != envelope.ReasonIsolation || e.Level.Valid() {
		t.Errorf("%+v", e)
	}
}

// TestCancel ends a call by its context, and another one by Close.
func TestCancel(t *testing.T) {
	leak.Check(t)
	cells := open(t, configOf(t))
	sleeper := func(marker string) *envelope.Call { return &envelope.Call{Argv: []string{"sleep", marker}} }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *envelope.Result, 1)
	go func() { done <- cells.Run(ctx, sleeper("31415.1")) }()
	await(t, "31415.1")
	cancel()
	if r := <-done; r.Outcome != envelope.OutcomeCancelled || !r.Teardown.Complete {
		t.Errorf("%+v %v", r, r.Refusal)
	}
	go func() { done <- cells.Run(t.Context(), sleeper("31415.2")) }()
	await(t, "31415.2")
	if err := cells.Close(); err != nil {
		t.Error(err)
	}
	if r := <-done; r.Outcome != envelope.OutcomeCancelled || !r.Teardown.Complete || r.Receipt == nil {
		t.Errorf("%+v %v", r, r.Refusal)
	}
	if r := cells.Run(t.Context(), sleeper("0")); r.Refusal == nil || r.Refusal.Reason != envelope.ReasonSetup {
		t.Errorf("after Close: %+v", r)
	}
	if e := cells.Explain(t.Context(), sleeper("0")); e.Refusal == nil {
		t.Errorf("after Close: %+v", e)
	}
}

// await waits until a program sleeps for so long.
func await(t *testing.T, marker string) {
	t.Helper()
	tick, late := time.NewTicker(5*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, l := range lines {
			if b, _ := os.ReadFile(l); bytes.Equal(b, []byte("sleep\x00"+marker+"\x00")) {
				return
			}
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("nobody sleeps %s", marker)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*callcell.Config)
		want   string
	}{
		"no state":          {func(c *callcell.Config) { c.State = "" }, "callcell: state: no directory is known"},
		"relative helpers":  {func(c *callcell.Config) { c.Helpers = "bin" }, "callcell: helpers: not an absolute path"},
		"no helpers there":  {func(c *callcell.Config) { c.Helpers = "/nowhere" }, "callcell: helpers: there is no callcell-launcher in /nowhere"},
		"no such profile":   {func(c *callcell.Config) { c.DefaultProfile = "x" }, "callcell: defaultProfile: there is no such profile"},
		"an empty envelope": {func(c *callcell.Config) { c.Profiles["x"] = envelope.Envelope{} }, "callcell: profiles.x.version: "},
		"floors upside down": {func(c *callcell.Config) {
			c.Floors = map[envelope.Trust]envelope.Level{envelope.TrustHostile: envelope.LevelLanguage}
		}, "callcell: floors.hostile: lower than"},
		"arguments":   {func(c *callcell.Config) { c.Arguments = "some" }, "callcell: audit.arguments: "},
		"a bad store": {func(c *callcell.Config) { c.State = "/proc/callcell" }, "callcell: state: the audit log cannot be opened: "},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			conf := configOf(t)
			c.change(&conf)
			_, err := callcell.New(t.Context(), conf)
			var fault *callcell.ConfigError
			if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), c.want) || fault.Hint == "" {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// isError reports whether err is an *Error, of that kind where one is named.
func isError(err, kind error) bool {
	var e *callcell.Error
	return errors.As(err, &e) && (kind == nil || errors.Is(err, kind))
}
