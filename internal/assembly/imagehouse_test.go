package assembly

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/image"
)

// TestIndexesHaveNoSecrets: an address is a part of what runs in the cell, where
// install scripts read it.
func TestIndexesHaveNoSecrets(t *testing.T) {
	for _, address := range []string{"https://user:hunter2@index.example/simple", "https://hunter2@index.example/simple", "http://user:hunter2@index.example/", "https://user:hunter2@index.example:x/"} {
		if entry, err := IndexHost(address); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v", address, entry, err)
		}
	}
	for address, port := range map[string]int{"https://index.example/simple": 443, "https://index.example/feed@view/npm/": 443, "https://index.example:8443/simple": 8443} {
		entry, err := IndexHost(address)
		if err != nil || entry.Host != "index.example" || len(entry.Ports) != 1 || entry.Ports[0] != port {
			t.Errorf("%s: %v, %v", address, entry, err)
		}
	}
}

// TestOneHostIsNamedInSeveralPlaces: a profile, a flag, and the addresses of two
// indexes may lead to one host, which is then allowed once.
func TestOneHostIsNamedInSeveralPlaces(t *testing.T) {
	const host = "mirror.example"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, image.Tool), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inspected := envelope.Allow{Host: host, Ports: []int{443}, Inspect: true}
	profile := envelope.Default()
	profile.Network.Allow = []envelope.Allow{inspected}
	c := &config.Config{State: dir, Helpers: dir, Profiles: map[string]envelope.Envelope{"mirror": profile}, Images: config.Images{Tree: envelope.GiB}}
	build := func(r ImageReach) *image.Plan {
		p, err := PlanBuild(c, BuildOrder{Name: "x", Pip: []string{"a"}, NPM: []string{"b"}, PipIndex: "https://" + host + "/simple/", NPMRegistry: "https://" + host + "/npm/", ImageReach: r})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, r := range map[string]ImageReach{
		"two indexes": {}, "a flag": {Allow: []envelope.Allow{image.Allow(host, 443)}}, "a profile": {Profile: "mirror"},
		"both": {Profile: "mirror", Allow: []envelope.Allow{{Host: host, Ports: []int{443, 8443}, Protocol: envelope.ProtocolTLS}}},
	} {
		e := build(r).Envelope
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := e.Network.Allow[0].Inspect; got != (r.Profile != "") {
			t.Errorf("%s: what the profile says of the host is lost: %+v", name, e.Network.Allow)
		}
	}
	other := build(ImageReach{Allow: []envelope.Allow{{Host: host, Ports: []int{443}, Protocol: envelope.ProtocolTCP}}}).Envelope
	if err := other.Validate(); err == nil {
		t.Errorf("one port in two protocols: %+v", other.Network.Allow)
	}
	if got := c.Profiles["mirror"].Network.Allow; len(got) != 1 || len(got[0].Ports) != 1 {
		t.Errorf("the profile was changed: %+v", got)
	}
	pull, err := PlanPull(c, PullOrder{Ref: host + "/team/tools:1", ImageReach: ImageReach{Profile: "mirror"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := pull.Envelope.Validate(); err != nil {
		t.Errorf("a pull: %v", err)
	}
}
