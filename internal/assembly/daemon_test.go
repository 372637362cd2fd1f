package assembly

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// TestKeyOfADaemonIsOneLine: what no header takes is said to be the key's fault,
// by its source and never by its text, and not the daemon's.
func TestKeyOfADaemonIsOneLine(t *testing.T) {
	const beginning = "cck_canary"
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path, program := filepath.Join(dir, "key"), filepath.Join(dir, "print")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf 'cck_canary\\nx\\n'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, from, text, message string }{
		{"a line end of a file is cut off", "file", "\n", ""},
		{"and one of another system", "file", "\r\n", ""},
		{"two are not", "file", "\n\n", "file:" + path + ": what it has is no key"},
		{"two keys", "file", "\ncck_b\n", "file:" + path + ": what it has is no key"},
		{"a carriage return", "file", "\rx", "file:" + path + ": what it has is no key"},
		{"a tabulator", "file", "\tx", "file:" + path + ": what it has is no key"},
		{"a byte of zero", "file", "\x00", "file:" + path + ": what it has is no key"},
		{"DEL", "file", "\x7f", "file:" + path + ": what it has is no key"},
		{"a variable is taken as it is", "env", "\n", "env:CALLCELL_TEST_KEY: what it has is no key"},
		{"a variable without", "env", "", ""},
		{"no command is shown", "command", "", "command: what it has is no key"},
	} {
		words := map[string]string{"file": "file:" + path, "env": "env:CALLCELL_TEST_KEY", "command": "command:" + program + " words"}[c.from]
		if err := os.WriteFile(path, []byte(beginning+c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.from == "env" {
			t.Setenv("CALLCELL_TEST_KEY", beginning+c.text)
		}
		cfg := logConfig(t, fmt.Sprintf("daemon: {address: 'http://127.0.0.1:1', key: '%s'}\n", words))
		to, err := Daemon(t.Context(), cfg)
		if c.message == "" {
			if to == nil || err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		r := envelope.RefusalOf(err)
		if to != nil || r == nil || r.Reason != envelope.ReasonSetup || r.Field != "daemon.key" || !strings.HasPrefix(r.Message, c.message) || !strings.Contains(r.Hint, "alone") {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
		if err != nil && strings.Contains(err.Error(), beginning) {
			t.Errorf("%s: the key is in %q", c.name, err)
		}
	}
}
