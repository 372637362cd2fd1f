package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAskingRunsNothingOfAProject: who builds an image in a directory that a
// stranger wrote runs nothing of it on this host, and takes no registry from it.
func TestAskingRunsNothingOfAProject(t *testing.T) {
	project, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	for name, text := range map[string]string{"pip/__init__.py": "open(" + `"` + ran + `"` + ", 'w')\n", ".npmrc": "registry=https://stranger.example/\n"} {
		file := filepath.Join(project, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(project)
	askPip(t.Context())
	if _, err := os.Stat(ran); err == nil {
		t.Error("a module of the project was run")
	}
	if at := ask(t.Context(), "pwd", "-P"); at != "/" {
		t.Errorf("programs of this host are asked in %q", at)
	}
	if from := ask(t.Context(), "npm", "config", "get", "registry"); from == "https://stranger.example/" {
		t.Error("packages would come from where the project says")
	}
}

// TestIndexesHaveNoSecrets: an address is a part of what runs in the cell, where
// install scripts read it.
func TestIndexesHaveNoSecrets(t *testing.T) {
	for _, address := range []string{"https://user:hunter2@index.example/simple", "https://hunter2@index.example/simple", "http://user:hunter2@index.example/", "https://user:hunter2@index.example:x/"} {
		if hosts, err := addHost(nil, address, "--index"); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v", address, hosts, err)
		}
	}
	for address, port := range map[string]int{"https://index.example/simple": 443, "https://index.example/feed@view/npm/": 443, "https://index.example:8443/simple": 8443} {
		hosts, err := addHost(nil, address, "--index")
		if err != nil || len(hosts) != 1 || hosts[0].Host != "index.example" || len(hosts[0].Ports) != 1 || hosts[0].Ports[0] != port {
			t.Errorf("%s: %v, %v", address, hosts, err)
		}
	}
}
