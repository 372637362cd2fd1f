package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var testControllers = []string{"memory", "pids", "cpu", "cpuacct"}

// seeds returns the files that a pattern matches, by name. No match fails: a
// corpus that has vanished tests nothing.
func seeds(t testing.TB, pattern string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no seeds match %s (%v)", pattern, err)
	}
	texts := make(map[string]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[strings.TrimSuffix(filepath.Base(path), ".txt")] = string(text)
	}
	return texts
}

func TestParseNumber(t *testing.T) {
	for text, want := range map[string]int64{
		"0\n": 0, "4096\n": 4096, "12": 12, "9223372036854775807\n": 1<<63 - 1,
		"": -1, "\n": -1, "max\n": -1, "-1\n": -1, "+1\n": -1, "1 2\n": -1, "1\n\n": -1,
		"0x10\n": -1, "1_000\n": -1, " 1\n": -1, "9223372036854775808\n": -1,
	} {
		got, err := parseNumber(text)
		if want < 0 && (!errors.Is(err, ErrText) || got != 0) || want >= 0 && (err != nil || got != want) {
			t.Errorf("parseNumber(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestLookup(t *testing.T) {
	text := "oom 1\noom_kill 2\nbad x\n"
	for key, want := range map[string]int64{"oom": 1, "oom_kill": 2, "kill": -1, "": -1} {
		if got, err := lookup(text, key); err != nil || got != want {
			t.Errorf("lookup(%q) = %d, %v; want %d", key, got, err, want)
		}
	}
	if got, err := lookup(text, "bad"); !errors.Is(err, ErrText) || got != 0 {
		t.Errorf("lookup(bad) = %d, %v", got, err)
	}
}

func TestParsePids(t *testing.T) {
	pids, hidden, err := parsePids("0\n7\n0\n2147483647\n")
	if err != nil || hidden != 2 || !slices.Equal(pids, []int{7, 1<<31 - 1}) {
		t.Errorf("got %v, %d, %v", pids, hidden, err)
	}
	if pids, hidden, err := parsePids(""); pids != nil || hidden != 0 || err != nil {
		t.Errorf("of an empty group: %v, %d, %v", pids, hidden, err)
	}
	for _, text := range []string{"\n", "1\n\n2\n", "-1\n", "2147483648\n", "1 \n", "a\n"} {
		if pids, hidden, err := parsePids(text); !errors.Is(err, ErrText) || pids != nil || hidden != 0 {
			t.Errorf("parsePids(%q) = %v, %d, %v", text, pids, hidden, err)
		}
	}
}

func TestParseMounts(t *testing.T) {
	texts := seeds(t, "testdata/mountinfo/*.txt")
	for _, c := range []struct {
		name, root string
		want       []string
	}{
		{"hybrid", "/sys/fs/cgroup", []string{
			"/sys/fs/cgroup/cpu cpu", "/sys/fs/cgroup/cpuacct cpuacct",
			"/sys/fs/cgroup/memory memory", "/sys/fs/cgroup/pids pids"}},
		{"comounted", "/sys/fs/cgroup", []string{
			"/sys/fs/cgroup/cpu,cpuacct cpu,cpuacct", "/sys/fs/cgroup/memory memory", "/sys/fs/cgroup/pids pids"}},
		{"comounted", "/sys/fs/cgroup/", []string{
			"/sys/fs/cgroup/cpu,cpuacct cpu,cpuacct", "/sys/fs/cgroup/memory memory", "/sys/fs/cgroup/pids pids"}},
		{"container", "/sys/fs/cgroup", []string{
			"/sys/fs/cgroup/memory memory", "/sys/fs/cgroup/cpu,cpuacct cpu,cpuacct"}},
		{"unified", "/sys/fs/cgroup", nil},
		{"covered", "/cg roups", []string{"/cg roups/b cpu,cpuacct", "/cg roups/m memory"}},
		{"covered", "/", []string{"/cg roups/b cpu,cpuacct", "/cg roups/m memory", "/cg roups2/pids pids"}},
	} {
		mounts, err := parseMounts(texts[c.name], c.root, testControllers)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var got []string
		for _, m := range mounts {
			got = append(got, m.point+" "+strings.Join(m.controllers, ","))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s below %s:\n got %q\nwant %q", c.name, c.root, got, c.want)
		}
	}
	for _, text := range []string{"", "garbage", "1 2 0:1 / /x rw - cgroup cgroup", "1 2 0:1 / - cgroup cgroup rw"} {
		if mounts, err := parseMounts(text, "/", testControllers); !errors.Is(err, ErrText) || mounts != nil {
			t.Errorf("parseMounts(%q) = %v, %v", text, mounts, err)
		}
	}
}

func TestSplitParent(t *testing.T) {
	if names, err := splitParent("a.slice/b.service/cells"); err != nil || len(names) != 3 {
		t.Errorf("got %q, %v", names, err)
	}
	for _, parent := range []string{"", "/", "/a", "a/", "a//b", ".", "a/..", "../a", "a\x00", "a\nb", strings.Repeat("a", 256)} {
		if _, err := splitParent(parent); !errors.Is(err, ErrName) {
			t.Errorf("splitParent(%q): %v", parent, err)
		}
	}
}

func TestCounterParse(t *testing.T) {
	texts := seeds(t, "testdata/text/*.txt")
	for _, c := range []struct {
		counter counter
		want    int64
	}{
		{counter{file: "cpu.stat", key: "usage_usec", unit: 1000}, 1_893_423_000},
		{counter{file: "cpuacct.stat", key: "user", unit: int64(10 * time.Millisecond)}, int64(120 * time.Millisecond)},
		{counter{file: "memory.events", key: "oom_kill", unit: 1}, 2},
		{counter{file: "memory.oom_control", key: "oom_kill", unit: 1}, 3},
		{counter{file: "pids.events", key: "max", unit: 1}, 5},
		{counter{file: "pids.events", key: "none", unit: 1000}, -1},
	} {
		if got, err := c.counter.parse(texts[c.counter.file]); err != nil || got != c.want {
			t.Errorf("%s %s = %d, %v; want %d", c.counter.file, c.counter.key, got, err, c.want)
		}
	}
	huge := counter{unit: 1000}
	if got, err := huge.parse("9223372036854775807\n"); !errors.Is(err, ErrText) || got != 0 {
		t.Errorf("an overflow reads %d, %v", got, err)
	}
}

// FuzzText: whatever a counter or member list holds, the parsers do not panic,
// an error comes with a zero value, and a value is what the text says.
func FuzzText(f *testing.F) {
	for _, text := range seeds(f, "testdata/text/*.txt") {
		f.Add(text, "max")
		f.Add(text, "usage_usec")
	}
	f.Fuzz(func(t *testing.T, text, key string) {
		n, err := parseNumber(text)
		if err != nil && n != 0 || err == nil && n < 0 {
			t.Errorf("parseNumber = %d, %v", n, err)
		}
		if n, err := lookup(text, key); err != nil && n != 0 || n < -1 {
			t.Errorf("lookup = %d, %v", n, err)
		}
		if n, err := lookup("first 5\n"+text, "first"); n != 5 || err != nil {
			t.Errorf("lookup of the first key = %d, %v", n, err)
		}
		for _, unit := range []int64{1, 1000, int64(10 * time.Millisecond)} {
			if n, err := (counter{key: key, unit: unit}).parse(text); err != nil && n != 0 || n < -1 || n > 0 && n%unit != 0 {
				t.Errorf("counter = %d, %v", n, err)
			}
		}
		pids, hidden, err := parsePids(text)
		if err != nil {
			if pids != nil || hidden != 0 {
				t.Errorf("parsePids = %v, %d with %v", pids, hidden, err)
			}
			return
		}
		if lines := strings.Count(strings.TrimSuffix(text, "\n")+"\n", "\n"); text != "" && len(pids)+hidden != lines {
			t.Errorf("%d pids and %d hidden of %d lines", len(pids), hidden, lines)
		}
		for _, pid := range pids {
			if pid <= 0 || !strings.Contains(text, strconv.Itoa(pid)) {
				t.Errorf("%d is not in the text", pid)
			}
		}
	})
}

// FuzzMounts: no panic, an error comes without mounts, and mounts are below the
// root and carry each wanted controller once.
func FuzzMounts(f *testing.F) {
	for _, text := range seeds(f, "testdata/mountinfo/*.txt") {
		f.Add(text, "/sys/fs/cgroup")
		f.Add(text, "/cg roups")
	}
	f.Fuzz(func(t *testing.T, text, root string) {
		mounts, err := parseMounts(text, root, testControllers)
		if err != nil && mounts != nil {
			t.Errorf("%d mounts with %v", len(mounts), err)
		}
		var seen []string
		for _, m := range mounts {
			if !within(m.point, root) {
				t.Errorf("%q is not below %q", m.point, root)
			}
			for _, c := range m.controllers {
				if slices.Contains(seen, c) || !slices.Contains(testControllers, c) {
					t.Errorf("controller %q", c)
				}
				seen = append(seen, c)
			}
		}
	})
}
