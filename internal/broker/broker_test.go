package broker_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/placement"
)

func TestRunCompletes(t *testing.T) {
	s := newStand(t)
	call := argv("/bin/zoo")
	call.Inputs = []envelope.File{{Name: "in/x", Data: []byte("x")}}
	call.Outputs = []string{"plain", "dir/", "in/x", "absent"}
	r := s.run(t.Context(), call)
	if r.Outcome != envelope.OutcomeCompleted || r.Exit != (envelope.Exit{Source: "host"}) {
		t.Fatalf("outcome %s, exit %+v, refusal %v", r.Outcome, r.Exit, r.Refusal)
	}
	var names []string
	for _, f := range r.Outputs {
		names = append(names, f.Name)
	}
	if want := []string{"plain", "dir/a", "dir/b", "dir/sub/c", "in/x"}; !slices.Equal(names, want) {
		t.Errorf("outputs %q, want %q", names, want)
	}
	if len(r.Missing) != 3 { // dir/fifo, dir/link, absent
		t.Errorf("missing %+v", r.Missing)
	}
	if r.Task != "t-1" || r.Level != envelope.LevelContainer || len(r.Why) == 0 || r.Receipt == nil {
		t.Errorf("task %q, level %s, why %q, receipt %v", r.Task, r.Level, r.Why, r.Receipt)
	}
	if !reflect.DeepEqual(*r.Envelope, s.profile) || r.EnvelopeDigest != s.profile.Digest() || !strings.HasPrefix(r.EnforcedDigest, "sha256:") {
		t.Errorf("envelope %+v, digests %q and %q", r.Envelope, r.EnvelopeDigest, r.EnforcedDigest)
	}
	if r.Teardown == nil || !r.Teardown.Complete || r.Usage.Setup <= 0 || r.Usage.Wall <= 0 || r.Usage.Total < r.Usage.Wall {
		t.Errorf("teardown %+v, usage %+v", r.Teardown, r.Usage)
	}
	if len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "trust:") {
		t.Errorf("warnings %q, want the one about trust", r.Warnings)
	}
	if !s.before("intended", "exec") || !s.before("put", "exec") || !s.before("stop", "get") || !s.before("close", "complete") {
		t.Errorf("the order is %q", s.trace)
	}
}

func TestRowsSayWhatRan(t *testing.T) {
	s := newStand(t)
	r := s.run(t.Context(), argv("/bin/print", "x"))
	in, e := s.intents[r.ID], s.endings[r.ID]
	if in.Caller != "key:k_test" || in.Team != "blue" || in.Hold || in.Level != envelope.LevelContainer || in.EnvelopeDigest != r.EnvelopeDigest ||
		!slices.Equal(in.Why, r.Why) || !slices.Equal(in.Warnings, r.Warnings) || in.Call.Argv[0] != "/bin/print" {
		t.Errorf("intent %+v", in)
	}
	if e.Outcome != r.Outcome || e.Stdout.Total != 2 || e.Teardown == nil || len(e.Warnings) != 0 {
		t.Errorf("ending %+v", e)
	}
}

func TestStreamsAndStdin(t *testing.T) {
	s := newStand(t)
	call := argv("/bin/cat")
	call.Stdin = envelope.Data("\x00\xffbytes")
	r := s.run(t.Context(), call)
	if string(r.Stdout.Head) != "\x00\xffbytes" || r.Stdout.Total != 7 || r.Stdout.Truncated || r.Stderr.Total != 0 || r.Stderr.Head == nil {
		t.Errorf("stdout %+v, stderr %+v", r.Stdout, r.Stderr)
	}
}

func TestEnvironmentIsFixedAndListed(t *testing.T) {
	s := newStand(t)
	s.profile.Environment = []string{"GREETING", "TERM"}
	call := argv("/bin/env")
	call.Env = map[string]string{"GREETING": "hi", "TERM": "xterm"}
	r := s.run(t.Context(), call)
	want := "GOMAXPROCS=1\x00GREETING=hi\x00HOME=/work\x00LANG=C.UTF-8\x00OMP_NUM_THREADS=1\x00PATH=/usr/local/bin:/usr/bin:/bin\x00" +
		"PIP_DISABLE_PIP_VERSION_CHECK=1\x00PIP_RETRIES=0\x00TERM=xterm\x00TMPDIR=/tmp\x00npm_config_fetch_retries=0\x00"
	if string(r.Stdout.Head) != want {
		t.Errorf("got %q, want %q", r.Stdout.Head, want)
	}
	call.Env["OTHER"] = "no"
	if r := s.run(t.Context(), call); r.Refusal == nil || r.Refusal.Reason != envelope.ReasonPolicy || !strings.Contains(r.Refusal.Field, "OTHER") {
		t.Errorf("a variable that is not listed: %+v", r.Refusal)
	}
}

// TestPoolsAreOfTheCellsSize: a library that asks how many threads to start is told
// what the cell has, not what the host has.
func TestPoolsAreOfTheCellsSize(t *testing.T) {
	for cpu, want := range map[envelope.CPU]string{10: "1", 500: "1", 1000: "1", 1001: "2", 2500: "3", 4000: "4"} {
		s := newStand(t)
		s.profile.Resources.CPU = cpu
		r := s.run(t.Context(), argv("/bin/env"))
		got := strings.Split(string(r.Stdout.Head), "\x00")
		if !slices.Contains(got, "OMP_NUM_THREADS="+want) || !slices.Contains(got, "GOMAXPROCS="+want) {
			t.Errorf("%s: %q, want %s (%v)", cpu, got, want, r.Refusal)
		}
	}
}

func TestScripts(t *testing.T) {
	s := newStand(t)
	for lang, want := range map[string]string{
		"python": `[main.py] "code"`, "node": `[main.js] "code"`, "sh": `[main.sh] "code"`,
	} {
		r := s.run(t.Context(), &envelope.Call{Script: &envelope.Script{Lang: lang, Code: "code"}})
		got := string(r.Stdout.Head)
		if !strings.HasPrefix(got, want) || strings.Contains(got, "PYTHONUNBUFFERED=1") != (lang == "python") {
			t.Errorf("%s: %s (%v)", lang, got, r.Refusal)
		}
	}
}

func TestEndings(t *testing.T) {
	for _, c := range []struct {
		argv    []string
		adjust  func(*envelope.Envelope)
		outcome envelope.Outcome
		exit    envelope.Exit
		event   string
	}{
		{[]string{"exit", "3"}, nil, envelope.OutcomeCompleted, envelope.Exit{Code: 3, Source: "host"}, ""},
		{[]string{"signal", "11"}, nil, envelope.OutcomeSignalled, envelope.Exit{Code: -1, Signal: "SIGSEGV", Source: "host"}, ""},
		{[]string{"signal", "25"}, nil, envelope.OutcomeFileSize, envelope.Exit{Code: -1, Signal: "SIGXFSZ", Source: "host"}, "file_size"},
		{[]string{"hang"}, func(e *envelope.Envelope) { e.Resources.Wall = 20_000_000 }, envelope.OutcomeWallTime,
			envelope.Exit{Code: -1, Signal: "SIGKILL", Cause: "wall", Source: "host"}, "wall_time"},
		{[]string{"flood"}, func(e *envelope.Envelope) { e.Resources.Output = envelope.OutputCap{Keep: 100, Total: 5000} }, envelope.OutcomeOutput,
			envelope.Exit{Code: -1, Signal: "SIGKILL", Cause: "output", Source: "host"}, "output"},
	} {
		t.Run(c.argv[0], func(t *testing.T) {
			s := newStand(t)
			if c.adjust != nil {
				c.adjust(&s.profile)
			}
			r := s.run(t.Context(), argv(c.argv...))
			if r.Outcome != c.outcome || r.Exit != c.exit {
				t.Fatalf("outcome %s, exit %+v, refusal %v", r.Outcome, r.Exit, r.Refusal)
			}
			if (len(r.Events) == 1) != (c.event != "") || c.event != "" && r.Events[0].Kind != c.event {
				t.Errorf("events %+v, want %q", r.Events, c.event)
			}
		})
	}
}

func TestOutputTotalIsExact(t *testing.T) {
	s := newStand(t)
	s.profile.Resources.Output = envelope.OutputCap{Keep: 1000, Total: 1 << 20}
	r := s.run(t.Context(), argv("zeros", "1048576"))
	if r.Outcome != envelope.OutcomeCompleted || r.Stdout.Total != 1<<20 || len(r.Stdout.Head)+len(r.Stdout.Tail) != 1000 || !r.Stdout.Truncated {
		t.Errorf("exactly the total: %s, %d bytes, kept %d", r.Outcome, r.Stdout.Total, len(r.Stdout.Head)+len(r.Stdout.Tail))
	}
	r = s.run(t.Context(), argv("zeros", "1048577"))
	if r.Outcome != envelope.OutcomeOutput || r.Stdout.Total != 1<<20 {
		t.Errorf("one byte more: %s, %d bytes", r.Outcome, r.Stdout.Total)
	}
}

func TestRefusalsBeforeAnythingRuns(t *testing.T) {
	wide := envelope.Count(1 << 20)
	stronger := envelope.LevelMicroVM
	network := &envelope.Request{Network: &envelope.NetworkRequest{Allow: &[]envelope.Allow{{Host: "api.example.com", Ports: []int{443}}}}}
	big := []envelope.File{{Name: "a", Data: make([]byte, 3<<20)}, {Name: "b", Data: make([]byte, 3<<20)}}
	for _, c := range []struct {
		name   string
		call   *envelope.Call
		adjust func(*envelope.Envelope)
		reason envelope.Reason
		field  string
	}{
		{"no call", nil, nil, envelope.ReasonRequest, ""},
		{"nothing to run", &envelope.Call{}, nil, envelope.ReasonRequest, "argv"},
		{"a name that climbs", &envelope.Call{Argv: []string{"x"}, Outputs: []string{"../x"}}, nil, envelope.ReasonRequest, "outputs[0]"},
		{"a profile that is not there", &envelope.Call{Argv: []string{"x"}, Profile: "nope"}, nil, envelope.ReasonRequest, "profile"},
		{"wider than the profile", &envelope.Call{Argv: []string{"x"}, Request: &envelope.Request{Resources: &envelope.ResourcesRequest{Pids: &wide}}},
			nil, envelope.ReasonPolicy, "resources.pids"},
		{"a host that the profile has not", &envelope.Call{Argv: []string{"x"}, Request: network}, nil, envelope.ReasonPolicy, "network.allow[0]"},
		{"more than the scratch", &envelope.Call{Argv: []string{"x"}, Inputs: big}, func(e *envelope.Envelope) { e.Files.Scratch = envelope.MiB }, envelope.ReasonPolicy, "inputs"},
		{"more than the memory", &envelope.Call{Argv: []string{"x"}, Inputs: big}, func(e *envelope.Envelope) { e.Resources.Memory = 5 * envelope.MiB }, envelope.ReasonPolicy, "inputs"},
		{"below the floor", argv("x"), func(e *envelope.Envelope) { e.Trust = envelope.TrustModel }, envelope.ReasonIsolation, "level"},
		{"a level that is not there", &envelope.Call{Argv: []string{"x"}, Request: &envelope.Request{Level: &stronger}}, nil, envelope.ReasonUnsupported, "level"},
		{"the network, which is not built", argv("x"), func(e *envelope.Envelope) {
			e.Network.Allow = []envelope.Allow{{Host: "api.example.com", Ports: []int{443}}}
		}, envelope.ReasonUnsupported, "level"},
		{"a profile that is not valid", argv("x"), func(e *envelope.Envelope) { e.Resources.Pids = 0 }, envelope.ReasonPolicy, "resources.pids"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStand(t)
			if c.adjust != nil {
				c.adjust(&s.profile)
			}
			r := s.run(t.Context(), c.call)
			if r.Refusal == nil || r.Refusal.Reason != c.reason || r.Refusal.Field != c.field {
				t.Fatalf("refusal %+v (outcome %s), want %s at %q", r.Refusal, r.Outcome, c.reason, c.field)
			}
			if s.count("intend") != 0 || s.count("open") != 0 || s.count("refuse") != 1 || r.Receipt == nil {
				t.Errorf("the way was %q, receipt %v; want a row and nothing else", s.trace, r.Receipt)
			}
		})
	}
}

func TestOfferThatIsNotAssembled(t *testing.T) {
	s := newStand(t, func(c *broker.Config) {
		c.Offers = offers(placement.Offer{Level: envelope.LevelMicroVM, Available: true})
	})
	s.profile.Trust = envelope.TrustHostile
	if r := s.run(t.Context(), argv("x")); r.Refusal == nil || r.Refusal.Reason != envelope.ReasonSetup {
		t.Errorf("refusal %+v", r.Refusal)
	}
}

func TestNewRefuses(t *testing.T) {
	s := newStand(t)
	for name, c := range map[string]broker.Config{
		"no recorder": {Profiles: s},
		"no profiles": {Recorder: s},
		"two runtimes of a level": {Recorder: s, Profiles: s,
			Runtimes: []cell.Runtime{standRuntime{s}, standRuntime{s}}},
	} {
		if _, err := broker.New(c); !errors.Is(err, broker.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExplain(t *testing.T) {
	s := newStand(t)
	e := s.broker.Explain(t.Context(), caller(), &envelope.Call{Script: &envelope.Script{Lang: "python", Code: "1"}})
	if e.Refusal != nil || e.Level != envelope.LevelContainer || len(e.Why) != 4 || !slices.Equal(e.Argv, []string{"/usr/bin/python3", "main.py"}) ||
		!slices.Equal(e.Files, []string{"main.py"}) || e.EnvelopeDigest == "" || len(e.Warnings) != 1 || len(e.Env) < 5 {
		t.Errorf("%+v", e)
	}
	s.profile.Trust = envelope.TrustModel
	e = s.broker.Explain(t.Context(), caller(), argv("x"))
	if e.Refusal == nil || e.Refusal.Reason != envelope.ReasonIsolation || e.Level != 0 || len(e.Why) != 4 {
		t.Errorf("%+v", e)
	}
	if !slices.Equal(s.trace, []string{"lookup", "lookup"}) {
		t.Errorf("Explain did %q, want nothing but to look the profile up", s.trace)
	}
}
