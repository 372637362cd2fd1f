package envelope

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// full is a valid envelope in which every field says something.
func full() Envelope {
	e := Default()
	e.Environment = []string{"LANG", "TZ"}
	e.Files.Mounts = map[string]Mount{
		"models": {Source: "/srv/models", Target: "/models", Why: "4 GB, read by every call"},
		"data":   {Source: "/srv/data", Target: "/opt/data", Why: "reference tables"},
	}
	e.Network.Allow = []Allow{
		{Host: "api.example.com", Ports: []int{443, 8443}, Protocol: ProtocolTLS, Inspect: true},
		{Host: "*.example.org", Ports: []int{443}, Protocol: ProtocolTLS},
		{Host: "db.internal", Ports: []int{5432}, Protocol: ProtocolPostgres},
	}
	e.Network.Private = []Private{{CIDR: "10.1.2.0/24", Why: "the database"}}
	e.Network.Fetch = FetchPublic
	e.Credentials = map[string]Credential{
		"gh": {Source: "vault:kv/agents/gh", Scopes: []string{"read", "write"}, TTL: Duration(5 * time.Minute), Use: CredentialUse{
			Header: "Authorization", Format: "Bearer {}", Host: "api.example.com", Port: 8443, Methods: []string{"GET", "HEAD"}, Path: "/repos/"}},
		"cert": {Source: "file:/etc/callcell/cert", Use: CredentialUse{File: true}},
		"old":  {Source: "env:OLD_TOKEN", Use: CredentialUse{Env: "TOKEN"}},
	}
	e.Cleanup.StopGrace = Duration(2 * time.Second)
	e.CoResidency = CoResidencyTeam
	return e
}

// walkLeaves calls visit for every leaf of v with its dotted path. A leaf can
// be set, those within maps as well.
func walkLeaves(v reflect.Value, path string, visit func(path string, leaf reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			walkLeaves(v.Field(i), strings.TrimPrefix(path+"."+name, "."), visit)
		}
	case reflect.Map:
		keys := v.MapKeys()
		sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
		for _, key := range keys {
			element := reflect.New(v.Type().Elem()).Elem()
			element.Set(v.MapIndex(key))
			walkLeaves(element, path+"."+key.String(), visit)
			v.SetMapIndex(key, element)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walkLeaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			walkLeaves(v.Elem(), path, visit)
		}
	default:
		visit(path, v)
	}
}

// changeLeaf gives a leaf another value.
func changeLeaf(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	default:
		v.SetInt(v.Int() + 1)
	}
}

// A mutant is an envelope that differs from another in one leaf.
type mutant struct {
	path string
	env  Envelope
}

func mutants(e Envelope) []mutant {
	var out []mutant
	total := 0
	probe := e.Clone()
	walkLeaves(reflect.ValueOf(&probe), "", func(string, reflect.Value) { total++ })
	for target := range total {
		m, i := mutant{env: e.Clone()}, 0
		walkLeaves(reflect.ValueOf(&m.env), "", func(path string, leaf reflect.Value) {
			if i == target {
				m.path = path
				changeLeaf(leaf)
			}
			i++
		})
		if m.path != "network.allow[2].inspect" { // of postgres: it says nothing there, and Validate refuses it
			out = append(out, m)
		}
	}
	return out
}

// fieldPaths lists the fields of a struct type by dotted path; lists and maps
// are fields.
func fieldPaths(t reflect.Type, path string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return []string{path}
	}
	var out []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, fieldPaths(t.Field(i).Type, strings.TrimPrefix(path+"."+name, "."))...)
	}
	return out
}

func subsetOf[T any](t *rapid.T, label string, from []T) []T {
	out := []T{}
	for _, x := range from {
		if rapid.Bool().Draw(t, label) {
			out = append(out, x)
		}
	}
	return out
}

func allowPool() []Allow {
	var out []Allow
	for _, host := range []string{"a.test.example", "b.a.test.example", "*.test.example", "*.a.test.example", "other.example", "10.1.2.3", "2001:db8::3"} {
		for _, a := range []Allow{
			{Ports: []int{443}}, {Ports: []int{443}, Inspect: true}, {Ports: []int{80}}, {Ports: []int{80, 443}},
			{Ports: []int{8443}, Protocol: ProtocolTLS}, {Ports: []int{443, 8443}, Protocol: ProtocolTLS}, {Ports: []int{5432, 5433}, Protocol: ProtocolPostgres}, {Ports: []int{443}, Protocol: ProtocolTCP},
		} {
			a.Host = host
			out = append(out, a)
		}
	}
	return out
}

// drawAllow draws entries of which no two disagree.
func drawAllow(t *rapid.T) []Allow {
	e := Default()
	for _, a := range rapid.SliceOfN(rapid.SampledFrom(allowPool()), 0, 6).Draw(t, "allow") {
		e.Network.Allow = append(e.Network.Allow, a)
		if e.Validate() != nil {
			e.Network.Allow = e.Network.Allow[:len(e.Network.Allow)-1]
		}
	}
	return cloneAllow(e.Network.Allow)
}

func drawIn[T ~int64](t *rapid.T, label string, least, most T) T {
	return T(rapid.Int64Range(int64(least), int64(most)).Draw(t, label))
}

func drawLevel(t *rapid.T) Level {
	return rapid.SampledFrom(append(Levels(), LevelAuto)).Draw(t, "level")
}

func drawTrust(t *rapid.T) Trust {
	return rapid.SampledFrom([]Trust{TrustReviewed, TrustModel, TrustThirdParty, TrustHostile}).Draw(t, "trust")
}

// drawEnvelope draws a valid envelope from a small world, so that two of them
// often have something to do with each other.
func drawEnvelope(t *rapid.T) Envelope {
	e, whole := Default(), full()
	e.Level, e.Trust = drawLevel(t), drawTrust(t)
	e.Image = rapid.SampledFrom([]string{"host", "oci:python:3.13-slim", "build:data"}).Draw(t, "image")
	e.Environment = subsetOf(t, "environment", []string{"LANG", "TZ", "PYTHONPATH", "A"})
	for name, m := range whole.Files.Mounts {
		if rapid.Bool().Draw(t, "mount") {
			e.Files.Mounts[name] = m
		}
	}
	e.Network.Allow = drawAllow(t)
	e.Network.Private = subsetOf(t, "private", []Private{{"10.1.2.0/24", "db"}, {"127.0.0.0/8", "here"}, {"10.9.0.0/16", "x"}})
	e.Network.Fetch = rapid.SampledFrom([]string{"", FetchPublic}).Draw(t, "fetch")
	for name, c := range whole.Credentials {
		if rapid.Bool().Draw(t, "credential") {
			e.Credentials[name] = c.clone()
		}
	}
	e.Files.Scratch = drawIn(t, "scratch", 64*KiB, 64*GiB)
	e.Files.Inodes = drawIn[Count](t, "inodes", 16, 1_000)
	e.Files.Outputs = OutputCaps{drawIn[Count](t, "outputs", 0, 16), drawIn(t, "outputBytes", 0, GiB)}
	total := drawIn(t, "total", Byte, 64*MiB)
	e.Resources = Resources{
		CPU: drawIn[CPU](t, "cpu", 10, 4000), CPUTime: drawIn(t, "cpuTime", Duration(time.Millisecond), Duration(time.Hour)),
		Wall: drawIn(t, "wall", Duration(time.Millisecond), Duration(time.Hour)), Memory: drawIn(t, "memory", MiB, TiB),
		Pids: drawIn[Count](t, "pids", 1, 3), FileSize: drawIn(t, "fileSize", KiB, MiB), OpenFiles: drawIn[Count](t, "openFiles", 16, 20),
		Output: OutputCap{Keep: drawIn(t, "keep", Byte, total), Total: total},
	}
	e.Cleanup.StopGrace = drawIn(t, "grace", 0, Duration(time.Minute))
	e.CoResidency = rapid.SampledFrom(coResidencies()).Draw(t, "coResidency")
	if err := e.Validate(); err != nil {
		t.Fatalf("the generator made an envelope that is not valid: %v", err)
	}
	return e
}

func maybe[T any](t *rapid.T, label string, draw func() T) *T {
	if !rapid.Bool().Draw(t, label+"?") {
		return nil
	}
	v := draw()
	return &v
}

// drawRequest draws a request that is often narrower than p, and sometimes
// wider or malformed.
func drawRequest(t *rapid.T, p Envelope) *Request {
	other := p
	if rapid.IntRange(0, 3).Draw(t, "wild") == 0 {
		other = drawEnvelope(t)
	}
	r := &Request{
		Level:       maybe(t, "level", func() Level { return drawLevel(t) }),
		Trust:       maybe(t, "trust", func() Trust { return max(drawTrust(t), other.Trust) }),
		Image:       maybe(t, "image", func() string { return other.Image }),
		Environment: maybe(t, "environment", func() []string { return subsetOf(t, "environment", other.Environment) }),
		Credentials: maybe(t, "credentials", func() []string { return subsetOf(t, "credential", sorted(other.Credentials)) }),
	}
	r.Files = maybe(t, "files", func() FilesRequest {
		return FilesRequest{
			Scratch: maybe(t, "scratch", func() Size { return drawIn(t, "scratch", 0, other.Files.Scratch) }),
			Inodes:  maybe(t, "inodes", func() Count { return drawIn(t, "inodes", 0, other.Files.Inodes) }),
			Mounts:  maybe(t, "mounts", func() []string { return subsetOf(t, "mount", sorted(other.Files.Mounts)) }),
			Outputs: maybe(t, "outputs", func() OutputCapsRequest {
				return OutputCapsRequest{Count: maybe(t, "count", func() Count { return drawIn(t, "count", 0, other.Files.Outputs.Count) })}
			}),
		}
	})
	r.Network = maybe(t, "network", func() NetworkRequest {
		return NetworkRequest{Allow: maybe(t, "allow", func() []Allow {
			if rapid.Bool().Draw(t, "own") {
				return cloneAllow(subsetOf(t, "allow", other.Network.Allow))
			}
			return drawAllow(t)
		})}
	})
	r.Resources = maybe(t, "resources", func() ResourcesRequest {
		return ResourcesRequest{
			CPU:    maybe(t, "cpu", func() CPU { return drawIn(t, "cpu", 0, other.Resources.CPU) }),
			Wall:   maybe(t, "wall", func() Duration { return drawIn(t, "wall", 0, other.Resources.Wall) }),
			Memory: maybe(t, "memory", func() Size { return drawIn(t, "memory", 0, other.Resources.Memory) }),
			Pids:   maybe(t, "pids", func() Count { return drawIn(t, "pids", 0, other.Resources.Pids) }),
			Output: maybe(t, "output", func() OutputCapRequest {
				return OutputCapRequest{
					Keep:  maybe(t, "keep", func() Size { return drawIn(t, "keep", 0, other.Resources.Output.Keep) }),
					Total: maybe(t, "total", func() Size { return drawIn(t, "total", 0, other.Resources.Output.Total) }),
				}
			}),
		}
	})
	r.Cleanup = maybe(t, "cleanup", func() CleanupRequest {
		return CleanupRequest{StopGrace: maybe(t, "grace", func() Duration { return drawIn(t, "grace", 0, other.Cleanup.StopGrace) })}
	})
	return r
}

// mended asserts that err names a field and says how to mend it.
func mended(t testing.TB, err error) {
	t.Helper()
	r := RefusalOf(err)
	if r == nil {
		t.Fatalf("%T has no refusal: %v", err, err)
	}
	if r.Hint == "" || !r.Reason.Valid() || r.Message == "" {
		t.Errorf("%v: a refusal without hint, reason or message: %+v", err, r)
	}
}
