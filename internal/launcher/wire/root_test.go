package wire

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func mountsAt(targets ...string) Spec {
	var s Spec
	for i, target := range targets {
		s.Mounts = append(s.Mounts, Mount{Name: string(rune('a' + i)), Target: target})
	}
	return s
}

func TestCheckRoot(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 4)
	many := make([]string, MaxMounts+1)
	for i := range many {
		many[i] = "/m" + string(rune('a'+i))
	}
	for name, c := range map[string]struct {
		spec Spec
		want string // in the error; "": none
	}{
		"the host's slice":   {Spec{}, ""},
		"a tree":             {Spec{Tree: hex}, ""},
		"both":               {Spec{Tree: hex, Added: hex}, ""},
		"upper case":         {Spec{Tree: strings.ToUpper(hex)}, "hexadecimal"},
		"too short":          {Spec{Added: hex[1:]}, "hexadecimal"},
		"a path":             {Spec{Tree: ".." + hex[2:]}, "hexadecimal"},
		"a slash":            {Spec{Added: "/" + hex[1:]}, "hexadecimal"},
		"with the algorithm": {Spec{Tree: "sha256:" + hex}, "hexadecimal"},
		"mounts":             {mountsAt("/models", "/mnt/x", "/srv/a b", "/opt/x", "/mödels"), ""},
		"as many as can be":  {mountsAt(many[:MaxMounts]...), ""},
		"one more":           {mountsAt(many...), "at most 16"},
		"no name":            {Spec{Mounts: []Mount{{Target: "/m"}}}, "is no name"},
		"a long name":        {Spec{Mounts: []Mount{{Name: strings.Repeat("a", 65), Target: "/m"}}}, "is no name"},
		"one name twice":     {Spec{Mounts: []Mount{{Name: "a", Target: "/m"}, {Name: "a", Target: "/n"}}}, "not above"},
		"not in order":       {Spec{Mounts: []Mount{{Name: "b", Target: "/m"}, {Name: "a", Target: "/n"}}}, "not above"},
		"no target":          {mountsAt(""), "no path"},
		"the root":           {mountsAt("/"), "no path"},
		"relative":           {mountsAt("m"), "no path"},
		"dots":               {mountsAt("/m/../etc"), "no path"},
		"a slash behind":     {mountsAt("/m/"), "no path"},
		"a NUL":              {mountsAt("/m\x00"), "control"},
		"a line":             {mountsAt("/m\n"), "control"},
		"no UTF-8":           {mountsAt("/m\xff"), "control"},
		"long":               {mountsAt("/" + strings.Repeat("m", maxTarget)), "too long"},
		"over another":       {mountsAt("/m", "/m/x"), "over or below"},
		"below another":      {mountsAt("/m/x", "/m"), "over or below"},
		"twice":              {mountsAt("/m", "/m"), "over or below"},
		"a name like it":     {mountsAt("/m", "/mm"), ""},
		"what is added":      {mountsAt("/opt/callcell/x"), "/opt/callcell"},
		"above it":           {mountsAt("/opt"), "/opt/callcell"},
		"above a place":      {mountsAt("/var"), "/var/run"},
	} {
		err := c.spec.CheckRoot()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, place := range Places() {
		for _, target := range []string{place, place + "/x"} {
			if s := mountsAt(target); s.CheckRoot() == nil {
				t.Errorf("%s can be mounted on", target)
			}
		}
	}
}

// TestTheMostOfARootFitsAMessage with all else that a spec has.
func TestTheMostOfARootFitsAMessage(t *testing.T) {
	s := Spec{Ports: ascending(MaxPorts), Addrs: make([][16]byte, MaxAddrs), Tree: strings.Repeat("0", 64), Added: strings.Repeat("0", 64)}
	for i := range MaxMounts {
		c := string(rune('a' + i))
		s.Mounts = append(s.Mounts, Mount{Name: c + strings.Repeat("n", maxName-1), Target: "/" + c + strings.Repeat("t", maxTarget-2)})
	}
	if err := s.CheckRoot(); err != nil {
		t.Fatal(err)
	}
	m, err := Decode(encode(t, Message{Body: &Open{Spec: s}}))
	if err != nil || !reflect.DeepEqual(m.Body, &Open{Spec: s}) {
		t.Errorf("%+v, %v", m.Body, err)
	}
}

func TestIsID(t *testing.T) {
	ok := "01923f6c-0000-7000-8000-0123456789ab"
	for _, bad := range []string{"", ok[1:], ok + "0", strings.ToUpper(ok), "../" + ok[3:], "/" + ok[1:], ok[1:] + "\x00", strings.Repeat(".", 36)} {
		if IsID(bad) {
			t.Errorf("%q is an id", bad)
		}
	}
	if !IsID(ok) || !slices.IsSorted(Places()) {
		t.Error("an id is none, or the places are not in order")
	}
}
