package tree

import (
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/testing/helpers"
)

// variable returns the value of a variable of a Makefile, on one line.
func variable(makefile, name string) string {
	text := strings.ReplaceAll(makefile, "\\\n", " ")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" := "); ok {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// makefile is the text of the tree's Makefile.
func makefile(t testing.TB) string {
	t.Helper()
	for _, f := range allFiles(t) {
		if f.name == "Makefile" {
			return string(f.data)
		}
	}
	t.Fatal("there is no Makefile")
	return ""
}

// TestInitFlags holds what is shipped and what is tested to the same flags.
func TestInitFlags(t *testing.T) {
	if got := variable(makefile(t), "INIT_FLAGS"); got != helpers.InitFlags {
		t.Errorf("the Makefile builds callcell-init with\n%s\nand tests do with\n%s", got, helpers.InitFlags)
	}
}

// TestRunscVersion: the launcher takes the runsc that is built beside it.
func TestRunscVersion(t *testing.T) {
	for _, f := range allFiles(t) {
		if f.name != "runsc/go.mod" {
			continue
		}
		if !strings.Contains(string(f.data), "gvisor.dev/gvisor "+conf.RunscVersion+"\n") {
			t.Errorf("runsc/go.mod does not pin gVisor %s, which the launcher wants", conf.RunscVersion)
		}
		return
	}
	t.Error("there is no runsc/go.mod")
}
