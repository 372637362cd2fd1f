package envelope

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	deep := strings.Repeat("d/", MaxNameDepth-1) + "f"
	for _, name := range []string{
		"a", "a/b", ".hidden", "..a", "a..", "...", "a b", " a", "-rf", "~", "a:b", "日本/ü.txt", "é", "\U0001F600.png", "Screenshot 3.00\u202fPM.png",
		strings.Repeat("x", MaxComponent), deep, "constructor", "a%2f..%2fb", "*", "$(id)",
	} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, c := range []struct{ name, msg string }{
		{"", "empty"}, {"/", "absolute"}, {"/a", "absolute"}, {"a/", "slash"}, {"a//b", "empty component"},
		{".", "component ."}, {"..", "component .."}, {"./a", "component ."}, {"a/./b", "component ."}, {"a/..", "component .."}, {"a/../../z", "component .."}, {"../a", "component .."},
		{"a\x00", "NUL"}, {"a\nb", "control"}, {"a\tb", "control"}, {"\x1b[31m", "control"}, {"a\x7f", "control"}, {"a\u0085", "control"},
		{"a\u2028b", "line separator"}, {"a\u2029b", "line separator"},
		{"a\u202eb", "turns text"}, {"a\u2066b", "turns text"}, {"a\u200bb", "cannot be seen"}, {"\ufeffa", "cannot be seen"}, {"a\u00adb", "cannot be seen"},
		{"a\U000e0041", "cannot be seen"}, {"a\ufe0f", "cannot be seen"}, {"a\u3164", "cannot be seen"}, {"a\u034f", "cannot be seen"},
		{"a\\b", "backslash"}, {"..\\a", "backslash"}, {"C:\\x", "backslash"},
		{"a\xff", "UTF-8"}, {"a\xc0\xaf", "UTF-8"}, {"\xed\xa0\x80", "UTF-8"},
		{strings.Repeat("x", MaxComponent+1), "256 bytes"}, {"d/" + deep, "65 levels"}, {strings.Repeat("a/", 3000) + "b", "6001 bytes"},
	} {
		err := CheckName(c.name)
		var f *FieldError
		if !errors.As(err, &f) || f.Field != "name" || !strings.Contains(f.Msg, c.msg) || f.Hint == "" {
			t.Errorf("%q: %v, want %s", c.name, err, c.msg)
		}
	}
}

func TestCheckVariable(t *testing.T) {
	for _, name := range []string{"A", "_", "a1", "LANG", "PYTHONPATH", "NODE_OPTIONS", "_LD_X", "PROXY", "path", "LDFLAGS"} {
		if err := CheckVariable(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "*", "1", "A B", "A=", "A\n", "é", "LD_", "LD_LIBRARY_PATH", "GLIBC_TUNABLES", "http_proxy", "NO_PROXY", "All_Proxy", "TMPDIR", "CALLCELL_ID"} {
		err := CheckVariable(name)
		if err == nil {
			t.Errorf("%q was taken", name)
			continue
		}
		mended(t, err)
	}
}
