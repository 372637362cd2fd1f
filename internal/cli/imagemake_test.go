package cli

import (
	"os"
	"path/filepath"
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
