package cli

import (
	"bytes"
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

// TestMakingSaysWhatIsDone: as long as nothing of the image has come, the bar has
// the beginning of the last line that a stranger printed, neutralised; then how much
// has come.
func TestMakingSaysWhatIsDone(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces []string
		bytes  int64
		want   string
	}{
		{"nothing yet", nil, 0, "0 B"},
		{"a line", []string{"Collecting six\n"}, 0, "Collecting six"},
		{"the last of them, in pieces", []string{"Collecting six\nDown", "loading ", "six\n"}, 0, "Downloading six"},
		{"blank lines are no news", []string{"Installing\n\n\n"}, 0, "Installing"},
		{"a bar of its own", []string{"10%\r20%\r"}, 0, "20%"},
		{"what a terminal would obey", []string{"\x1b[2Jx\n"}, 0, "␛[2Jx"},
		{"the image comes", []string{"Collecting six\n"}, 2048, "2.0 KiB"},
	} {
		var m making
		m.heard(c.bytes)
		for _, p := range c.pieces {
			if n, err := m.Write([]byte(p)); n != len(p) || err != nil {
				t.Errorf("%s: %d, %v", c.name, n, err)
			}
		}
		if got := m.now(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	var m making
	if _, err := m.Write(bytes.Repeat([]byte("x\u202e"), 1<<20)); err != nil {
		t.Error(err)
	}
	if got := m.now(); len(got) > 1000 || strings.Contains(got, "\u202e") || cap(m.line) > 4096 {
		t.Errorf("%d bytes: %q", cap(m.line), got)
	}
}
