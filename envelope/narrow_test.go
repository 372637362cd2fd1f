package envelope

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func ptr[T any](v T) *T { return &v }

func TestNarrowRefuses(t *testing.T) {
	fixed := full()
	fixed.Level = LevelContainer
	addressed := full()
	addressed.Network.Allow = []Allow{{Host: "10.1.2.3", Ports: []int{443}}, {Host: "2001:db8::3", Ports: []int{443}}}
	cases := []struct {
		name   string
		p      Envelope
		r      Request
		reason Reason
		field  string
		msg    string
		hint   string
	}{
		{"scratch", full(), Request{Files: &FilesRequest{Scratch: ptr(128 * MiB)}}, ReasonPolicy, "files.scratch", "asks 128Mi, the profile allows 64Mi", "at most 64Mi"},
		{"wall", full(), Request{Resources: &ResourcesRequest{Wall: ptr(Duration(time.Hour))}}, ReasonPolicy, "resources.wall", "asks 1h0m0s, the profile allows 30s", "at most 30s"},
		{"cpu", full(), Request{Resources: &ResourcesRequest{CPU: ptr(CPU(1001))}}, ReasonPolicy, "resources.cpu", "asks 1.001", "at most 1,"},
		{"grace", full(), Request{Cleanup: &CleanupRequest{StopGrace: ptr(Duration(3 * time.Second))}}, ReasonPolicy, "cleanup.stopGrace", "asks 3s", "at most 2s"},
		{"zero", full(), Request{Resources: &ResourcesRequest{Wall: ptr(Duration(0))}}, ReasonRequest, "resources.wall", "0s is less than 1ms", "1ms to 24h"},
		{"keep", full(), Request{Resources: &ResourcesRequest{Output: &OutputCapRequest{Total: ptr(KiB)}}}, ReasonRequest, "resources.output.keep", "more than resources.output.total", "at most 1Ki"},
		{"trust up", full(), Request{Trust: ptr(TrustReviewed)}, ReasonPolicy, "trust", "asks reviewed, the profile says model", "hostile"},
		{"level none", full(), Request{Level: ptr(LevelNone)}, ReasonRequest, "level", "none runs nothing", "microvm"},
		{"level weaker", fixed, Request{Level: ptr(LevelLanguage)}, ReasonPolicy, "level", "asks language, the profile says container", "container, userkernel, microvm"},
		{"level auto", fixed, Request{Level: ptr(LevelAuto)}, ReasonPolicy, "level", "asks auto, the profile says container", "container"},
		{"level invalid", full(), Request{Level: ptr(Level(99))}, ReasonRequest, "level", "missing", "auto"},
		{"image", full(), Request{Image: ptr("build:own")}, ReasonPolicy, "image", `asks "build:own"`, "leave it out"},
		{"environment", full(), Request{Environment: &[]string{"LANG", "AWS_KEY"}}, ReasonPolicy, "environment[1]", "AWS_KEY", "LANG, TZ"},
		{"environment twice", full(), Request{Environment: &[]string{"LANG", "LANG"}}, ReasonRequest, "environment[1]", "twice", "once"},
		{"mount", full(), Request{Files: &FilesRequest{Mounts: &[]string{"models", "/etc"}}}, ReasonPolicy, "files.mounts[1]", `no entry "/etc"`, "data, models"},
		{"mount twice", full(), Request{Files: &FilesRequest{Mounts: &[]string{"models", "models"}}}, ReasonRequest, "files.mounts[1]", "twice", "once"},
		{"credential", full(), Request{Credentials: &[]string{"root"}}, ReasonPolicy, "credentials[0]", `no entry "root"`, "cert, gh, old"},
		{"credential of none", Default(), Request{Credentials: &[]string{"root"}}, ReasonPolicy, "credentials[0]", "no entry", "has none"},
		{"host", full(), askHost("evil.test", 443), ReasonPolicy, "network.allow[0]", "evil.test", "api.example.com"},
		{"host of none", Default(), askHost("evil.test", 443), ReasonPolicy, "network.allow[0]", "evil.test", "no host"},
		{"port", full(), askHost("api.example.com", 22), ReasonPolicy, "network.allow[0]", "port 22", "api.example.com"},
		{"port of the same protocol", full(), askHost("a.example.org", 8443), ReasonPolicy, "network.allow[0]", "port 8443", "*.example.org"},
		{"bare name", full(), askHost("example.org", 443), ReasonPolicy, "network.allow[0]", "example.org", "*.example.org"},
		{"wildcard of exact", full(), askHost("*.api.example.com", 443), ReasonPolicy, "network.allow[0]", "*.api", "api.example.com"},
		{"address of a name", full(), askHost("10.1.2.3", 443), ReasonPolicy, "network.allow[0]", "10.1.2.3", "api.example.com"},
		{"name of an address", addressed, askHost("a.example.com", 443), ReasonPolicy, "network.allow[0]", "a.example.com", "10.1.2.3"},
		{"another address", addressed, askHost("10.1.2.4", 443), ReasonPolicy, "network.allow[0]", "10.1.2.4", "10.1.2.3"},
		{"mapped address", addressed, askHost("::ffff:10.1.2.3", 443), ReasonRequest, "network.allow[0].host", "IPv6 form", "write 10.1.2.3"},
		{"metadata", addressed, askHost("169.254.169.254", 443), ReasonPolicy, "network.allow[0]", "169.254.169.254", "10.1.2.3"},
		{"suffix trick", full(), askHost("evilexample.org", 443), ReasonPolicy, "network.allow[0]", "evil", "*.example.org"},
		{"inspection off", full(), askHost("api.example.com", 443), ReasonPolicy, "network.allow[0]", "there it is inspected", "api"},
		{"protocol", full(), askAllow(Allow{Host: "db.internal", Ports: []int{5432}, Protocol: ProtocolTCP}), ReasonPolicy, "network.allow[0]", "there it speaks postgres", "db.internal"},
		{"host twice", full(), askAllow(Allow{Host: "a.example.org", Ports: []int{443}}, Allow{Host: "a.example.org", Ports: []int{443}}), ReasonRequest, "network.allow[1]", "twice", "once"},
		{"no ports", full(), askAllow(Allow{Host: "a.example.org"}), ReasonRequest, "network.allow[0].ports", "empty", "[443]"},
		{"star", full(), askHost("*", 443), ReasonRequest, "network.allow[0].host", "every host", "name the hosts"},
		{"capitals", full(), askHost("API.example.com", 443), ReasonRequest, "network.allow[0].host", "capital", "api.example.com"},
		{"broken profile", Envelope{}, Request{}, ReasonPolicy, "version", "the profile is not valid", "version: 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := Narrow(c.p, &c.r)
			var f *FieldError
			if !errors.As(err, &f) {
				t.Fatalf("error %v, want a FieldError", err)
			}
			if f.Reason != c.reason || f.Field != c.field || !strings.Contains(f.Msg, c.msg) || !strings.Contains(f.Hint, c.hint) {
				t.Errorf("got %v %q %q (%s)", f.Reason, f.Field, f.Msg, f.Hint)
			}
			if !reflect.DeepEqual(got, Envelope{}) {
				t.Error("the result is not the zero value")
			}
		})
	}
}

func askAllow(list ...Allow) Request { return Request{Network: &NetworkRequest{Allow: &list}} }

func askHost(host string, port int) Request {
	return askAllow(Allow{Host: host, Ports: []int{port}, Protocol: ProtocolTLS})
}

func TestNarrowGrants(t *testing.T) {
	fixed := full()
	fixed.Level = LevelContainer
	addressed := full()
	addressed.Network.Allow = []Allow{{Host: "10.1.2.3", Ports: []int{443}}, {Host: "2001:db8::3", Ports: []int{443}}}
	cases := []struct {
		name string
		p    Envelope
		r    Request
		has  func(Envelope) bool
	}{
		{"nothing asked", full(), Request{}, func(e Envelope) bool { return reflect.DeepEqual(e, full()) }},
		{"level of auto", full(), Request{Level: ptr(LevelLanguage)}, func(e Envelope) bool { return e.Level == LevelLanguage }},
		{"stronger level", fixed, Request{Level: ptr(LevelMicroVM)}, func(e Envelope) bool { return e.Level == LevelMicroVM }},
		{"trust down", full(), Request{Trust: ptr(TrustHostile)}, func(e Envelope) bool { return e.Trust == TrustHostile }},
		{"no mounts", full(), Request{Files: &FilesRequest{Mounts: &[]string{}}}, func(e Envelope) bool { return len(e.Files.Mounts) == 0 && e.Files.Mounts != nil }},
		{"no hosts", full(), askAllow(), func(e Envelope) bool { return len(e.Network.Allow) == 0 && len(e.Network.Private) == 1 }},
		{"one credential", full(), Request{Credentials: &[]string{"gh"}}, func(e Envelope) bool { return len(e.Credentials) == 1 && e.Credentials["gh"].TTL > 0 }},
		{"below a wildcard", full(), askHost("a.b.example.org", 443), func(e Envelope) bool { return e.Network.Allow[0].Host == "a.b.example.org" }},
		{"address", addressed, askHost("10.1.2.3", 443), func(e Envelope) bool { return e.Network.Allow[0].Host == "10.1.2.3" }},
		{"IPv6 address", addressed, askHost("2001:db8::3", 443), func(e Envelope) bool { return len(e.Network.Allow) == 1 }},
		{"wildcard below", full(), askHost("*.b.example.org", 443), func(e Envelope) bool { return len(e.Network.Allow) == 1 }},
		{"default protocol", full(), askAllow(Allow{Host: "x.example.org", Ports: []int{443}}), func(e Envelope) bool { return len(e.Network.Allow) == 1 }},
		{"inspection on", full(), askAllow(Allow{Host: "x.example.org", Ports: []int{443}, Inspect: true}), func(e Envelope) bool { return e.Network.Allow[0].Inspect }},
		{"no output files", full(), Request{Files: &FilesRequest{Outputs: &OutputCapsRequest{Count: ptr(Count(0))}}}, func(e Envelope) bool { return e.Files.Outputs.Count == 0 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := Narrow(c.p, &c.r)
			if err != nil {
				t.Fatal(err)
			}
			if !c.has(got) {
				t.Errorf("got %+v", got)
			}
			if !Within(got, c.p) {
				t.Error("the result is not within the profile")
			}
		})
	}
}

// Every field of a request does something: none was forgotten in Narrow.
func TestNarrowAppliesEveryField(t *testing.T) {
	p := full()
	r := Request{
		Level: ptr(LevelMicroVM), Trust: ptr(TrustHostile), Image: ptr("host"), Environment: &[]string{}, Credentials: &[]string{},
		Files: &FilesRequest{Scratch: ptr(MiB), Inodes: ptr(Count(17)), Mounts: &[]string{}, Outputs: &OutputCapsRequest{Count: ptr(Count(1)), Bytes: ptr(MiB)},
			Tree: &TreeCapsRequest{Count: ptr(Count(1)), Bytes: ptr(MiB), Changes: &OutputCapsRequest{Count: ptr(Count(1)), Bytes: ptr(MiB)}}},
		Network: &NetworkRequest{Allow: &[]Allow{}},
		Resources: &ResourcesRequest{CPU: ptr(CPU(100)), CPUTime: ptr(Duration(time.Second)), Wall: ptr(Duration(time.Second)), Memory: ptr(2 * MiB),
			Pids: ptr(Count(2)), FileSize: ptr(2 * KiB), OpenFiles: ptr(Count(17)), Output: &OutputCapRequest{Keep: ptr(KiB), Total: ptr(MiB)}},
		Cleanup: &CleanupRequest{StopGrace: ptr(Duration(time.Second))},
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range fieldPaths(reflect.TypeFor[Request](), "") {
		var tree any
		if err := json.Unmarshal(data, &tree); err != nil {
			t.Fatal(err)
		}
		one, err := json.Marshal(onlyPath(tree, strings.Split(path, ".")))
		if err != nil {
			t.Fatal(err)
		}
		single, err := DecodeRequest(one)
		if err != nil {
			t.Fatalf("%s: %s: %v", path, one, err)
		}
		got, err := Narrow(p, &single)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if path != "image" && got.Digest() == p.Digest() {
			t.Errorf("%s changes nothing", path)
		}
	}
}

// onlyPath keeps one value of a tree of objects.
func onlyPath(tree any, path []string) any {
	if len(path) == 0 {
		return tree
	}
	return map[string]any{path[0]: onlyPath(tree.(map[string]any)[path[0]], path[1:])}
}

// checkNarrow holds Narrow to Overlay and Within, which know nothing of it.
func checkNarrow(t interface{ Fatalf(string, ...any) }, p Envelope, r *Request) (Envelope, bool) {
	got, err := Narrow(p, r)
	set, overlayErr := Overlay(p, r)
	want := overlayErr == nil && Within(set, p)
	if (err == nil) != want {
		t.Fatalf("Narrow: %v; Overlay: %v; within: %v", err, overlayErr, overlayErr == nil && Within(set, p))
	}
	if err != nil {
		var f *FieldError
		if !errors.As(err, &f) || f.Hint == "" || f.Field == "" || f.Refusal().Reason != f.Reason {
			t.Fatalf("the error is no refusal with a field and a hint: %#v", err)
		}
		if !reflect.DeepEqual(got, Envelope{}) {
			t.Fatalf("an error, and a result that is not zero")
		}
		return got, false
	}
	if !Within(got, p) {
		t.Fatalf("wider than the profile:\n%+v\n%+v", got, p)
	}
	if got.Digest() != set.Digest() || got.Digest() == "" {
		t.Fatalf("Narrow and Overlay made different envelopes of a request that both take")
	}
	if err := got.Validate(); err != nil {
		t.Fatalf("the result is not valid: %v", err)
	}
	return got, true
}

func TestNarrowProperties(t *testing.T) {
	granted := 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawEnvelope(t)
		r := drawRequest(t, p)
		once, ok := checkNarrow(t, p, r)
		if !ok {
			return
		}
		granted++
		twice, err := Narrow(once, r)
		if err != nil || !reflect.DeepEqual(once, twice) {
			t.Fatalf("not idempotent: %v", err)
		}
		if next, ok := checkNarrow(t, once, drawRequest(t, once)); ok && (!Within(next, once) || !Within(next, p)) {
			t.Fatalf("narrowing twice is wider than narrowing once")
		}
	})
	if granted < 5 {
		t.Errorf("only %d requests were granted: the generator tries nothing", granted)
	}
}

func TestNarrowNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawEnvelope(t)
		got, err := Narrow(p, nil)
		if err != nil || !reflect.DeepEqual(got, p.Clone()) {
			t.Fatalf("a nil request is not the identity: %v", err)
		}
		got, err = Narrow(p, &Request{})
		if err != nil || !reflect.DeepEqual(got, p.Clone()) {
			t.Fatalf("an empty request is not the identity: %v", err)
		}
	})
}

func TestNarrowSharesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawEnvelope(t)
		r := drawRequest(t, p)
		got, err := Narrow(p, r)
		if err != nil {
			return
		}
		text := func(v any) string {
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		before, request, result := text(p), text(r), text(got)
		spoil(reflect.ValueOf(&got))
		if text(p) != before || text(r) != request {
			t.Fatal("the result shares memory with the profile or the request")
		}
		if got, err = Narrow(p, r); err != nil {
			t.Fatal(err)
		}
		spoil(reflect.ValueOf(&p))
		spoil(reflect.ValueOf(r))
		if text(got) != result {
			t.Fatal("the profile or the request shares memory with the result")
		}
	})
}

// spoil changes every string and number of v and all it points to, except
// those that can then not be written.
func spoil(v reflect.Value) {
	walkLeaves(v, "", func(_ string, leaf reflect.Value) {
		if leaf.Kind() != reflect.Uint8 {
			changeLeaf(leaf)
		}
	})
	walkMaps(v)
}

// walkMaps adds an entry to every map.
func walkMaps(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walkMaps(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			walkMaps(v.Field(i))
		}
	case reflect.Map:
		v.SetMapIndex(reflect.ValueOf("spoilt"), reflect.New(v.Type().Elem()).Elem())
	}
}

func TestOverlay(t *testing.T) {
	p := full()
	r := Request{
		Level: ptr(LevelLanguage), Trust: ptr(TrustReviewed), Image: ptr("build:own"), Environment: &[]string{"OWN"},
		Resources: &ResourcesRequest{Wall: ptr(Duration(time.Hour))},
		Network:   &NetworkRequest{Allow: &[]Allow{{Host: "new.example.net", Ports: []int{443}}}},
	}
	got, err := Overlay(p, &r)
	if err != nil {
		t.Fatal(err)
	}
	if got.Level != LevelLanguage || got.Trust != TrustReviewed || got.Image != "build:own" || !slices.Equal(got.Environment, []string{"OWN"}) ||
		got.Resources.Wall != Duration(time.Hour) || got.Network.Allow[0].Host != "new.example.net" {
		t.Errorf("not set: %+v", got)
	}
	for _, r := range []Request{
		{Files: &FilesRequest{Mounts: &[]string{"new"}}},
		{Credentials: &[]string{"new"}},
		{Resources: &ResourcesRequest{Wall: ptr(Duration(1000 * time.Hour))}},
		askHost("*", 443),
		askHost("169.254.169.254", 443),
		{Environment: &[]string{"LD_PRELOAD"}},
		{Environment: &[]string{"TOKEN"}}, // a credential's variable
	} {
		got, err := Overlay(p, &r)
		if err == nil || !reflect.DeepEqual(got, Envelope{}) {
			t.Errorf("%+v: %v", r, err)
			continue
		}
		mended(t, err)
	}
}
