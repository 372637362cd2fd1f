package fstree

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"path"
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	long := strings.Repeat("n", MaxName)
	for _, c := range []struct {
		raw, want string
		kind      ErrKind
	}{
		{"a", "a", ""},
		{"./a//b/./c/", "a/b/c", ""},
		{".", "", ""},
		{"./", "", ""},
		{"...", "...", ""},
		{"..a/a..", "..a/a..", ""},
		{"\xff\n", "\xff\n", ""},
		{long, long, ""},
		{strings.Repeat("d/", MaxDepth), strings.TrimSuffix(strings.Repeat("d/", MaxDepth), "/"), ""},
		{"", "", KindName},
		{"/", "", KindName},
		{"/a", "", KindName},
		{"..", "", KindName},
		{"a/..", "", KindName},
		{"a/../b", "", KindName},
		{"a\x00b", "", KindName},
		{long + "n", "", KindName},
		{strings.Repeat(long+"/", 17), "", KindName},
		{strings.Repeat("d/", MaxDepth) + "f", "", KindDepth},
	} {
		got, err := Clean(c.raw)
		e := &Error{}
		errors.As(err, &e)
		if got != c.want || e.Kind != c.kind || err != nil && e.Entry != c.raw {
			t.Errorf("Clean(%.40q) = %.40q, %v; want %.40q, %q", c.raw, got, err, c.want, c.kind)
		}
	}
}

// FuzzClean holds of any name that it is refused, or is one that leads nowhere
// but down and is itself when it is cleaned again.
func FuzzClean(f *testing.F) {
	for _, raw := range []string{"a/b", "../a", "/etc/passwd", "./.", "a/./../b", "a\x00", "\xff/..\xff", strings.Repeat("a/", 200)} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		clean, err := Clean(raw)
		switch {
		case err != nil && clean == "":
			return
		case err != nil:
			t.Fatalf("%q with %v", clean, err)
		case clean == "":
			clean = "."
		}
		if again, err := Clean(clean); err != nil || again != clean && clean != "." {
			t.Errorf("%q, and again %q, %v", clean, again, err)
		}
		first, _, _ := strings.Cut(path.Clean(clean), "/")
		if path.Clean("/"+raw) != path.Clean("/"+clean) || first == ".." || len(clean) > MaxPath {
			t.Errorf("%q is not %q", raw, clean)
		}
		dir, name := Split(clean)
		if path.Join(dir, name) != clean || len(name) > MaxName || strings.ContainsAny(name, "/\x00") {
			t.Errorf("%q splits into %q and %q", clean, dir, name)
		}
	})
}

func TestSetTime(t *testing.T) {
	for _, c := range []struct {
		sec  int64
		nsec int
		want [2]int64
	}{{0, 0, [2]int64{0, 0}}, {5, 7, [2]int64{5, 7}}, {-1, 999, [2]int64{0, 0}}, {math.MinInt64, 0, [2]int64{0, 0}}, {math.MaxInt64, 5, [2]int64{latest, 0}}} {
		n := Node{}
		n.SetTime(c.sec, c.nsec)
		if got := [2]int64{n.Sec, int64(n.Nsec)}; got != c.want {
			t.Errorf("%d.%d is %v, want %v", c.sec, c.nsec, got, c.want)
		}
	}
}

func file(text string) *Node { return &Node{Kind: File, Links: 1, Size: int64(len(text))} }

// TestListing holds the form that digests hang on: who changes it changes
// Version.
func TestListing(t *testing.T) {
	root, usr := NewDir(), NewDir()
	usr.Entries["run"] = &Node{Kind: File, Exec: true, Size: 3, Sum: [32]byte{0xab}}
	usr.Entries["\xff"] = file("")
	root.Entries["usr"] = usr
	root.Entries["bin"] = &Node{Kind: Symlink, Target: "usr/\u00e9\U0001f600\"\\"}
	root.Entries["tab\t"] = &Node{Kind: Symlink, Target: "\x7f"}
	var b bytes.Buffer
	if err := List(&b, root); err != nil {
		t.Fatal(err)
	}
	zeros := strings.Repeat("0", 62)
	want := `{"version":1,"root":{"type":"dir","entries":[
{"name":"bin","type":"link","target":"usr/\u00e9\ud83d\ude00\"\\"},
{"name64":"dGFiCQ==","type":"link","target64":"fw=="},
{"name":"usr","type":"dir","entries":[
{"name":"run","type":"file","exec":true,"size":3,"sha256":"ab` + zeros + `"},
{"name64":"/w==","type":"file","size":0,"sha256":"00` + zeros + `"}
]}
]}}
`
	if b.String() != want {
		t.Errorf("got  %s\nwant %s", b.String(), want)
	}
}

// FuzzListing holds that any name and target can be read back.
func FuzzListing(f *testing.F) {
	f.Add("name", "target")
	f.Add("\xff\x00\u2028", "\\\"\U0010ffff")
	f.Add("\ufffd", "\x7f\x1b")
	f.Fuzz(func(t *testing.T, name, target string) {
		root := NewDir()
		root.Entries[name] = &Node{Kind: Symlink, Target: target}
		var b bytes.Buffer
		if err := List(&b, root); err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Root struct{ Entries []map[string]string }
		}
		if err := json.Unmarshal(b.Bytes(), &doc); err != nil || len(doc.Root.Entries) != 1 {
			t.Fatalf("%s: %v", b.Bytes(), err)
		}
		for key, want := range map[string]string{"name": name, "target": target} {
			got, plain := doc.Root.Entries[0][key]
			coded, isCoded := doc.Root.Entries[0][key+"64"]
			if isCoded {
				raw, err := base64.StdEncoding.DecodeString(coded)
				if err != nil {
					t.Error(err)
				}
				got = string(raw)
			}
			if got != want || plain == isCoded {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		if most := 200 + 3*(len(name)+len(target)); b.Len() > most {
			t.Errorf("%d bytes, want at most %d", b.Len(), most)
		}
	})
}

func TestCount(t *testing.T) {
	root, dir := NewDir(), NewDir()
	twice := file("12345")
	twice.Links = 2
	root.Entries["d"], root.Entries["a"], dir.Entries["b"], dir.Entries["c"] = dir, twice, twice, file("1")
	if entries, bytes := Count(root); entries != 4 || bytes != 6 {
		t.Errorf("%d entries, %d bytes, want 4 and 6", entries, bytes)
	}
}

// TestErrorsAreShown holds that nothing of a stranger reaches a terminal, a log
// or JSON as it is.
func TestErrorsAreShown(t *testing.T) {
	cause := errors.New("cause \x1b[2J\n")
	err := error(Failed(KindDisk, strings.Repeat("\u202e\xff\"", 1000), "write", cause))
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
	line := Line(err)
	if len(line) > 2500 || !strings.HasPrefix(line, `disk: \u202e\xff\"`) {
		t.Errorf("%d bytes: %.100s", len(line), line)
	}
	for _, c := range line {
		if c < ' ' || c > '~' {
			t.Fatalf("%q has %q", line, c)
		}
	}
	if got := Line(errors.New("other")); got != "source: other" {
		t.Errorf("got %q", got)
	}
	if text, err := json.Marshal(Wire(Refuse(KindName, "", strings.Repeat("x", 5000)))); err != nil || len(text) > 1100 || !strings.HasPrefix(string(text), `{"error":{"kind":"name","msg":"x`) {
		t.Errorf("%d bytes: %.100s, %v", len(text), text, err)
	}
}
