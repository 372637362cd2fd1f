package envelope

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A broken is a value that one check, and no earlier one, finds fault with.
type broken[T any] struct {
	check  string
	change func(*T)
	field  string
	msg    string
	hint   string
}

// checkBroken holds every check to its cases, and every case to its check.
func checkBroken[T any](t *testing.T, checks []check[T], good func() T, validate func(*T) error, cases []broken[T]) {
	tried := map[string]bool{}
	for i, c := range cases {
		t.Run(fmt.Sprintf("%03d %s", i, c.check), func(t *testing.T) {
			tried[c.check] = true
			v := good()
			c.change(&v)
			first := slices.IndexFunc(checks, func(check check[T]) bool { return check.run(&v) != nil })
			if first < 0 || checks[first].name != c.check {
				t.Fatalf("check %d is the first to find fault, want %s: %v", first, c.check, validate(&v))
			}
			var f *FieldError
			if err := validate(&v); !errors.As(err, &f) {
				t.Fatalf("error %v, want a FieldError", err)
			}
			if f.Reason != ReasonRequest || f.Field != c.field || !strings.Contains(f.Msg, c.msg) || f.Hint == "" || !strings.Contains(f.Hint, c.hint) {
				t.Errorf("got %v %q: %q (%s)", f.Reason, f.Field, f.Msg, f.Hint)
			}
			if strings.ContainsFunc(f.Error()+f.Hint, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("the error has characters that a terminal may take amiss: %q", f.Error())
			}
		})
	}
	for _, check := range checks {
		if !tried[check.name] {
			t.Errorf("no case for the check %s", check.name)
		}
	}
}

func TestValidateEnvelope(t *testing.T) {
	checkBroken(t, envelopeChecks(), full, (*Envelope).Validate, brokenEnvelopes())
	for name, e := range map[string]Envelope{"default": Default(), "full": full()} {
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateTakes(t *testing.T) {
	for name, change := range map[string]func(*Envelope){
		"oci image":       func(e *Envelope) { e.Image = "oci:ghcr.io/astral-sh/uv:0.5@sha256:" + strings.Repeat("0a", 32) },
		"built image":     func(e *Envelope) { e.Image = "build:data-2" },
		"no outputs":      func(e *Envelope) { e.Files.Outputs = OutputCaps{} },
		"deep target":     target("/var/lib/models"),
		"wildcard beside": func(e *Envelope) { e.Network.Allow[1].Host = "*.internal" + ".corp" },
		"punycode":        host("xn--bcher-kva.test"),
		"address":         host("203.0.113.7"),
		"IPv6 address":    host("2001:db8::7"),
		"private address": host("10.1.2.3"),
		"most ports":      func(e *Envelope) { manyPorts(e, MaxPorts) },
		"most addresses":  func(e *Envelope) { manyAddresses(e, MaxAddresses) },
		"agreeing entries": func(e *Envelope) {
			e.Network.Allow = append(e.Network.Allow, Allow{Host: "a.example.org", Ports: []int{443}})
		},
		"one address":  cidr("10.1.2.3/32"),
		"loopback":     cidr("127.0.0.0/8"),
		"unique local": cidr("fd12:3456::/32"),
		"path of all":  use(func(u *CredentialUse) { u.Path = "/" }),
		"other method": func(e *Envelope) {
			c := e.Credentials["gh"].clone()
			c.Use.Methods = []string{"POST"}
			e.Credentials["hub"] = c
		},
		"other path": func(e *Envelope) { c := e.Credentials["gh"].clone(); c.Use.Path = "/orgs/"; e.Credentials["hub"] = c },
		"other header": func(e *Envelope) {
			c := e.Credentials["gh"].clone()
			c.Use.Header = "X-Api-Key"
			e.Credentials["hub"] = c
		},
		"plain methods": use(func(u *CredentialUse) { u.Format, u.Port = "", 0 }),
	} {
		e := full()
		change(&e)
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func goodCall() Call {
	return Call{
		Tool: "python", Task: "chat 17/turn 3", Profile: "default", Argv: []string{"python3", "prog.py", "--flag=ü"},
		Env: map[string]string{"LANG": "C.UTF-8"}, Stdin: Data("x"),
		Inputs:  []File{{Name: "prog.py", Data: Data("print(1)")}, {Name: "data/a b.csv"}, {Name: "data/日本.txt"}},
		Outputs: []string{"out.txt", "plots/"},
	}
}

func scripted(s Script) func(*Call) { return func(c *Call) { c.Argv, c.Script = nil, &s } }

func brokenCalls() []broken[Call] {
	return []broken[Call]{
		{"tree", treed(File{Name: "../x"}), "tree.files[0].name", "component ..", "without"},
		{"tree", treed(make([]File, MaxTreeFiles+1)...), "tree.files", "more than 65536", "leave out"},
		{"tree", func(c *Call) { c.Tree = &Tree{Ignore: []Ignore{{Dir: "/etc", Rules: "x"}}} }, "tree.ignore[0].dir", "absolute", "relative"},
		{"tree", func(c *Call) { c.Tree = &Tree{Ignore: []Ignore{{Rules: strings.Repeat("x", MaxIgnoreBytes+1)}}} }, "tree.ignore", "1 MiB", "leave"},
		{"blobs", blobbed(File{Name: "b", Blob: "sha256:" + strings.Repeat("A", 64)}), "inputs[0].blob", "not the digest", "lower case"},
		{"blobs", blobbed(File{Name: "b", Blob: strings.Repeat("a", 64)}), "inputs[0].blob", "not the digest", "sha256:"},
		{"blobs", blobbed(File{Name: "b", Blob: Digest(nil) + "0"}), "inputs[0].blob", "not the digest", "64"},
		{"blobs", blobbed(File{Name: "b", Blob: Digest(nil), Data: Data("x")}), "inputs[0].blob", "beside data", "one of them"},
		{"blobs", blobbed(File{Name: "b", Blob: Digest(nil), Size: -1}), "inputs[0].size", "negative", "how many"},
		{"blobs", blobbed(File{Name: "b", Data: Data("x"), Size: 1}), "inputs[0].size", "of a blob", "leave it out"},
		{"blobs", treed(File{Name: "t", Blob: "sha256:../../x"}), "tree.files[0].blob", "not the digest", "64"},
		{"blobs", func(c *Call) { n := Size(-1); c.InlineOutputs = &n }, "inlineOutputs", "negative", "0B"},
		{"blobs", func(c *Call) { n := Size(0); c.InlineOutputs, c.Outputs = &n, nil }, "inlineOutputs", "without outputs", "name the outputs"},
		{"workspace", func(c *Call) { c.Workspace = &Workspace{Name: "../x"} }, "workspace.name", "not a workspace's name", "letters"},
		{"workspace", func(c *Call) { c.Workspace = &Workspace{Name: "x", Version: -1} }, "workspace.version", "negative", "newest"},
		{"input-places", treed(File{Name: "t"}, File{Name: "t/a"}), "tree.files[1].name", "lies below", "another name"},
		{"input-places", treed(File{Name: "t"}, File{Name: "t"}), "tree.files[1].name", "too", "its own"},
		{"labels", func(c *Call) { c.Tool = "a\nb" }, "tool", "control character", "one line"},
		{"labels", func(c *Call) { c.Tool = "rm\u202efdp" }, "tool", "turns text around", "one line"},
		{"labels", func(c *Call) { c.Task = strings.Repeat("x", 257) }, "task", "257 bytes", "less"},
		{"labels", func(c *Call) { c.Task = "\xff" }, "task", "not UTF-8", "printable"},
		{"labels", func(c *Call) { c.Task = "a\u2028b" }, "task", "line separator", "one line"},
		{"labels", func(c *Call) { c.Task = "a\U000e0041" }, "task", "cannot be seen", "one line"},
		{"labels", func(c *Call) { c.Task = "a\ue000" }, "task", "cannot be printed", "one line"},
		{"profile", func(c *Call) { c.Profile = "../x" }, "profile", "not a profile's name", "list of profiles"},
		{"profile", func(c *Call) { c.Profile = "a\nb" }, "profile", "not a profile's name", "list of profiles"},
		{"what", func(c *Call) { c.Argv = nil }, "argv", "is missing", "say what to do"},
		{"what", func(c *Call) { c.Script = &Script{"sh", "ls"} }, "script", "beside argv", "one of them"},
		{"what", func(c *Call) { c.Fetch = &Fetch{URL: "https://a.test/"} }, "fetch", "beside argv", "one of them"},
		{"fetch", fetches(""), "fetch.url", "empty", "https://"},
		{"fetch", fetches("https://a.test/" + strings.Repeat("x", MaxURL)), "fetch.url", "8 KiB", "shorter"},
		{"fetch", fetches("https://a.test/\x00"), "fetch.url", "NUL", "file"},
		{"fetch", fetches("http://a b/"), "fetch.url", "not an address", "in full"},
		{"fetch", fetches("a.test/page"), "fetch.url", "no scheme", "in full"},
		{"fetch", fetches("a.test:8080/page"), "fetch.url", "no scheme", "in full"},
		{"fetch", fetches("FILE:///etc/passwd"), "fetch.url", "\"file\"", "http and https"},
		{"fetch", fetches("gopher://a.test/"), "fetch.url", "\"gopher\"", "http and https"},
		{"fetch", fetches("data:text/plain,hi"), "fetch.url", "\"data\"", "http and https"},
		{"fetch", fetches("http:a.test"), "fetch.url", "no host", "in full"},
		{"fetch", fetches("https://me:secret@a.test/"), "fetch.url", "user information", "@"},
		{"fetch", func(c *Call) { fetches("https://a.test/")(c); c.Fetch.Bytes = -1 }, "fetch.bytes", "negative", "operator"},
		{"fetch", func(c *Call) { fetches("https://a.test/")(c); c.Env = map[string]string{"A": "b"} }, "env", "runs no program", "leave it out"},
		{"argv", func(c *Call) { c.Argv[0] = "" }, "argv[0]", "is empty", "program"},
		{"argv", func(c *Call) { c.Argv[1] = "a\x00b" }, "argv[1]", "a NUL", "stdin"},
		{"argv", func(c *Call) { c.Argv[1] = "\xff" }, "argv[1]", "UTF-8", "stdin"},
		{"argv", func(c *Call) { c.Argv[1] = strings.Repeat("x", MaxArgument) }, "argv[1]", "128 KiB", "file"},
		{"argv", func(c *Call) { c.Argv = slices.Repeat([]string{"x"}, MaxArguments+1) }, "argv", "more than 4096", "file"},
		{"argv", func(c *Call) { c.Argv = slices.Repeat([]string{strings.Repeat("x", 1<<16)}, 17) }, "argv", "more than 1 MiB", "file"},
		{"script", scripted(Script{"python3; touch x #", "1"}), "script.lang", "not a language", "python, node or sh"},
		{"script", scripted(Script{"javascript", "1"}), "script.lang", "not a language", `"node"`},
		{"script", scripted(Script{"bash", "1"}), "script.lang", "not a language", `"sh"`},
		{"script", scripted(Script{"python3", "1"}), "script.lang", "not a language", `"python"`},
		{"script", scripted(Script{"", "1"}), "script.lang", "not a language", "python"},
		{"script", scripted(Script{"python", ""}), "script.code", "is empty", "write the code"},
		{"script", scripted(Script{"python", "a\x00"}), "script.code", "a NUL", "stdin"},
		{"script", scripted(Script{"python", "\xff"}), "script.code", "UTF-8", "stdin"},
		{"script", scripted(Script{"python", strings.Repeat("#", MaxCode+1)}), "script.code", "8 MiB", "inputs"},
		{"stdin", func(c *Call) { c.Stdin = make(Data, MaxStdin+1) }, "stdin", "64 MiB", "inputs"},
		{"env", func(c *Call) { c.Env["A=B"] = "" }, `env["A=B"]`, "not a variable's name", "letters"},
		{"env", func(c *Call) { c.Env["LD_PRELOAD"] = "" }, "env.LD_PRELOAD", "not for a call", "leave"},
		{"env", func(c *Call) { c.Env["A"] = "x\x00" }, "env.A", "a NUL", "stdin"},
		{"env", func(c *Call) { c.Env["A"] = "\xff" }, "env.A", "UTF-8", "stdin"},
		{"env", func(c *Call) { c.Env["A"] = strings.Repeat("x", MaxVariableBytes) }, "env", "256 KiB", "file"},
		{"env", func(c *Call) { manyVariables(c) }, "env", "more than 256", "file"},
		{"inputs", func(c *Call) { c.Inputs[1].Name = "../etc/cron.d/z" }, "inputs[1].name", "component ..", "outside"},
		{"inputs", func(c *Call) { c.Inputs[1].Name = "/etc/z" }, "inputs[1].name", "absolute", "relative"},
		{"inputs", func(c *Call) { c.Inputs[1].Name = "" }, "inputs[1].name", "is empty", "name a file"},
		{"inputs", func(c *Call) { c.Inputs[1].Name = "d/" }, "inputs[1].name", "ends with a slash", "file"},
		{"inputs", func(c *Call) { c.Inputs = make([]File, MaxInputs+1) }, "inputs", "more than 16384", "archive"},
		{"inputs", func(c *Call) { c.Inputs = slices.Repeat([]File{{Name: "x", Data: make(Data, 1<<20)}}, 1025) }, "inputs", "more than 1 GiB", "less"},
		{"input-places", func(c *Call) { c.Inputs[1].Name = "prog.py" }, "inputs[1].name", "the name of inputs[0] too", "own"},
		{"input-places", func(c *Call) { c.Inputs[1].Name = "prog.py/x" }, "inputs[1].name", "inputs[0]", "another name"},
		{"input-places", func(c *Call) { c.Inputs[0].Name = "data/a b.csv/x" }, "inputs[0].name", "inputs[1]", "another name"},
		{"input-places", func(c *Call) { scripted(Script{"python", "1"})(c); c.Inputs[0].Name = "main.py" }, "inputs[0].name", "script", "own"},
		{"input-places", func(c *Call) { scripted(Script{"sh", "1"})(c); c.Inputs[0].Name = "main.sh/x/y" }, "inputs[0].name", "script", "another name"},
		{"needs", func(c *Call) { c.Needs = []Need{NeedShell, NeedImage} }, "needs[1]", "not for a call", "declare any of shell"},
		{"needs", func(c *Call) { c.Needs = []Need{NeedShell, NeedShell} }, "needs[1]", "comes twice", "once"},
		{"needs", func(c *Call) { c.Needs = []Need{0} }, "needs[0]", "invalid need", "declare"},
		{"outputs", func(c *Call) { c.Outputs[0] = "../x" }, "outputs[0]", "component ..", "outside"},
		{"outputs", func(c *Call) { c.Outputs[0] = "" }, "outputs[0]", "is empty", "name"},
		{"outputs", func(c *Call) { c.Outputs[0] = "/" }, "outputs[0]", "is empty", "name"},
		{"outputs", func(c *Call) { c.Outputs[0] = "a//" }, "outputs[0]", "slash", "name"},
		{"outputs", func(c *Call) { c.Outputs[0] = "plots" }, "outputs[1]", "comes twice", "once"},
		{"outputs", func(c *Call) { c.Outputs[0] = "plots/a/b.png" }, "outputs[0]", `within "plots/"`, "leave"},
		{"outputs", func(c *Call) { c.Outputs = slices.Repeat([]string{"x"}, MaxOutputs+1) }, "outputs", "more than 1024", "directory"},
		{"max-tokens", func(c *Call) { c.MaxTokens = MostTokens + 1 }, "maxTokens", "out of range", "at most"},
	}
}

func manyVariables(c *Call) {
	for i := range MaxVariables {
		c.Env[fmt.Sprint("V", i)] = ""
	}
}

func TestValidateCall(t *testing.T) {
	checkBroken(t, callChecks(), goodCall, (*Call).Validate, brokenCalls())
	c := goodCall()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for _, lang := range []string{"python", "node", "sh"} {
		c := goodCall()
		scripted(Script{lang, "x"})(&c)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", lang, err)
		}
		if c.Script.FileName() == "" {
			t.Errorf("%s: no file name", lang)
		}
	}
	c.Outputs = []string{"plots/", "plotsx", "a/b", "a/c/"}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestAdmits(t *testing.T) {
	e := full()
	c := goodCall()
	if err := e.Admits(&c); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name        string
		env         func(*Envelope)
		call        func(*Call)
		field, hint string
	}{
		{"variable", nil, func(c *Call) { c.Env["AWS_KEY"] = "" }, "env.AWS_KEY", "LANG, TZ"},
		{"variable of none", func(e *Envelope) { e.Environment = nil }, nil, "env.LANG", "no variable"},
		{"a credential's variable", nil, func(c *Call) { c.Env["TOKEN"] = "" }, "env.TOKEN", "LANG, TZ"},
		{"bytes", func(e *Envelope) { e.Files.Scratch = 7 }, nil, "inputs", "less"},
		{"code", func(e *Envelope) { e.Files.Scratch = 8 }, scripted(Script{"sh", "x"}), "inputs", "less"},
		{"files", func(e *Envelope) { e.Files.Inodes = 3 }, nil, "inputs", "archive"},
		{"outputs", func(e *Envelope) { e.Files.Outputs.Count = 0 }, nil, "outputs", "print"},
		{"a network that is not there", func(e *Envelope) { e.Network.Allow = nil }, func(c *Call) { c.Needs = []Need{NeedShell, NeedNetwork} }, "needs[1]", "network.allow"},
		{"tree of none", func(e *Envelope) { e.Files.Tree.Count = 0 }, treed(), "tree", "a profile that takes a tree"},
		{"workspace of none", func(e *Envelope) { e.Files.Tree.Count = 0 }, func(c *Call) { c.Workspace = &Workspace{Name: "w"} }, "tree", "a profile"},
		{"tree of many files", func(e *Envelope) { e.Files.Tree.Count = 1 }, treed(File{Name: "t/a"}, File{Name: "t/b"}), "tree", ".callcellignore"},
		{"tree of many bytes", func(e *Envelope) { e.Files.Tree.Bytes = 1 }, treed(File{Name: "t/a", Data: []byte("aa")}), "tree", ".callcellignore"},
		{"tree beyond the scratch", func(e *Envelope) { e.Files.Scratch = 64 }, treed(File{Name: "t/a", Data: make([]byte, 65)}), "inputs", "scratch"},
	}
	for _, k := range cases {
		e, c := full(), goodCall()
		if k.env != nil {
			k.env(&e)
		}
		if k.call != nil {
			k.call(&c)
		}
		var f *FieldError
		if err := e.Admits(&c); !errors.As(err, &f) || f.Reason != ReasonPolicy || f.Field != k.field || !strings.Contains(f.Hint, k.hint) {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

// Whatever a Go caller hands over, Validate answers.
func TestValidateNeverPanics(t *testing.T) {
	word := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "/", "*.", "::1", "a", "/a", "a:", "file:", "env:", "1.2.3.4", "[::1]", "fe80::1%1", "[", "..", "\xff"}))
	rapid.Check(t, func(t *rapid.T) {
		draw := func() string { return word.Draw(t, "word") }
		n := func() int { return rapid.IntRange(-1, 70000).Draw(t, "n") }
		e := full()
		e.Image, e.Environment = draw(), []string{draw(), draw()}
		e.Files.Mounts = map[string]Mount{draw(): {draw(), draw(), draw()}, "m": {draw(), draw(), draw()}}
		e.Network = Network{Allow: []Allow{{draw(), []int{n()}, draw(), true}, {draw(), []int{n(), 443}, "", false}}, Private: []Private{{draw(), draw()}}, Fetch: draw()}
		e.Credentials = map[string]Credential{draw(): {Source: draw(), Use: CredentialUse{Header: draw(), Format: draw(), Host: draw(), Methods: []string{draw()}, Path: draw(), Env: draw()}}}
		for _, check := range envelopeChecks() {
			if err := check.run(&e); err != nil && err.Hint == "" {
				t.Fatalf("%s: no hint: %v", check.name, err)
			}
		}
		e.Warnings()
		e.Digest()
		Within(e, full())
		c := Call{Tool: draw(), Profile: draw(), Argv: []string{draw()}, Script: &Script{draw(), draw()}, Env: map[string]string{draw(): draw()},
			Inputs: []File{{Name: draw()}, {Name: draw()}}, Outputs: []string{draw(), draw()}}
		for _, check := range callChecks() {
			if err := check.run(&c); err != nil && err.Hint == "" {
				t.Fatalf("%s: no hint: %v", check.name, err)
			}
		}
	})
}

// treed gives a call a tree.
func treed(files ...File) func(*Call) {
	return func(c *Call) { c.Tree = &Tree{Files: files} }
}

func blobbed(files ...File) func(*Call) { return func(c *Call) { c.Inputs = files } }

// fetches makes a call one that fetches, and nothing else.
func fetches(url string) func(*Call) {
	return func(c *Call) { *c = Call{Fetch: &Fetch{URL: url}} }
}
