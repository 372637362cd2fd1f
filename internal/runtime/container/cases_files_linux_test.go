package container_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
)

// secretWord is what must never come out of a cell.
const secretWord = "CANARY-7f3a"

// A bait is a directory of the host that every user may read and write, with a
// file in it that nobody is to read or touch.
type bait struct{ dir, canary string }

func newBait(t *testing.T) bait {
	t.Helper()
	dir, err := os.MkdirTemp("", "callcell-bait-") // t.TempDir is below what others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := bait{dir: dir, canary: filepath.Join(dir, "canary")}
	for _, dir := range []string{b.dir, filepath.Join(b.dir, "keep")} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{b.canary, filepath.Join(b.dir, "keep", "k")} {
		if err := os.WriteFile(name, []byte(secretWord), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// state is all that a program could have changed of the bait.
func (b bait) state(t *testing.T) (lines []string) {
	t.Helper()
	err := filepath.WalkDir(b.dir, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%s %o %d:%d %d %d %v", name, st.Mode, st.Uid, st.Gid, st.Nlink, st.Size, st.Mtim))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// env tells a program where the bait is: C is the canary, D its directory, and
// UP leads from anywhere to the root.
func (b bait) env() []string {
	return []string{"C=" + b.canary, "D=" + b.dir, "UP=../../../../../../../.."}
}

// guard tells each row of the bait, and makes it look whether that is as it was
// and unread.
func (b bait) guard(t *testing.T, rows []row) []row {
	t.Helper()
	before := b.state(t)
	for i, r := range rows {
		rows[i].env = append(rows[i].env, b.env()...)
		rows[i].more = func(t *testing.T, e *ended) {
			if now := b.state(t); !slices.Equal(now, before) {
				t.Errorf("the host's files were\n%s\nand are\n%s", strings.Join(before, "\n"), strings.Join(now, "\n"))
			}
			if strings.Contains(fmt.Sprint(e.out, e.files), secretWord) {
				t.Errorf("the host's file was read: %s %v", e.out, e.files)
			}
			if r.more != nil {
				r.more(t, e)
			}
		}
	}
	return rows
}

// taken checks what came out and what did not.
func taken(files map[string]string, misses ...string) func(*testing.T, *ended) {
	return func(t *testing.T, e *ended) {
		t.Helper()
		if fmt.Sprint(e.files) != fmt.Sprint(files) {
			t.Errorf("taken %.1000q, want %.1000q", fmt.Sprint(e.files), fmt.Sprint(files))
		}
		for _, name := range misses {
			if e.misses[name] == "" {
				t.Errorf("%s is no miss: %v", name, e.misses)
			}
		}
		if len(e.misses) != len(misses) {
			t.Errorf("missed %v, want %v", e.misses, misses)
		}
	}
}

// TestFilesCases is group A: ways across the file system boundary.
func TestFilesCases(t *testing.T) { filesCases(t, containers) }

func filesCases(t *testing.T, at maker) {
	b := newBait(t)
	g := at.ground(t)
	g.play(t, envelope.Default(), b.guard(t, append(linkRows(), outputRows()...)))
}

// linkRows are links that a program makes for itself or for whoever walks its
// files.
func linkRows() []row {
	return []row{
		{name: "1 a link that climbs out of the root", lang: "sh",
			code: `ln -s $UP$C peek; cat peek; echo x >>peek; ln -s $C abs; cat abs; echo x >>abs; ln $C hard; ls -l $UP$D; test $? != 0`,
			take: []string{"peek", "abs", "hard"}, more: taken(nil, "peek", "abs", "hard")},
		{name: "2 a link to its own directory earns no depth", lang: "sh",
			code: `mkdir -p a/b; ln -s . a/me; echo deep >a/b/f; cat a/me/me/me/$UP$C; cat a/me/me/b/f`,
			take: []string{"a/me/me/b/f", "a/b/f", "a/me/../../../etc/hostname"},
			want: want{says: "deep"}, more: taken(map[string]string{"a/b/f": "deep\n"}, "a/me/me/b/f", "a/me/../../../etc/hostname")},
		{name: "4 links in a circle, and a listing that meets them", lang: "sh",
			code: `mkdir d; ln -s . d/loop; ln -s b a; ln -s a b; ln -s ../d d/up; echo x >d/f; ls d/loop/loop/loop; cat a; cat b/c`,
			take: []string{"a", "b/c", "d/", "d/loop/f"}, want: want{code: 1, says: "Too many levels"},
			more: taken(map[string]string{"d/f": "x\n"}, "a", "b/c", "d/loop", "d/up", "d/loop/f")},
		{name: "7 a link in the middle, and below it what is not there yet", lang: "sh",
			code: `ln -s $D hop; mkdir -p hop/newdir/deep; echo x >hop/newdir/deep/f; mkdir in; ln -s $UP$D in/hop; echo x >in/hop/born; test $? != 0`,
			take: []string{"hop/newdir/deep/f", "hop/canary", "in/hop/canary", "in/"},
			more: taken(nil, "hop/newdir/deep/f", "hop/canary", "in/hop/canary", "in/hop")},
		{name: "9 the end of the cell follows no link", lang: "sh",
			code: `ln -s $D/keep t1; mkdir -p d/e; ln -s $D/keep d/t2; ln -s $UP$D/keep/k d/e/k; rm -rf t1/ d/t2/; true`,
			take: []string{"d/"}, more: taken(nil, "d/t2", "d/e/k")},
		{name: "10 no owner and no mode is changed through a link", lang: "sh",
			code: `ln -s $C mine; ln -s $D sub; chmod 000 mine sub; chown -h 0 mine; chown 0 mine; touch -t 200001010000 mine; chmod 4777 main.sh; true`,
			take: []string{"mine", "sub/", "sub/canary"}, more: taken(nil, "mine", "sub/", "sub/canary")},
	}
}

// outputRows are traps for whoever collects the outputs.
func outputRows() []row {
	return []row{
		{name: "5 a link planted as the expected output", lang: "sh",
			code: `ln -sf $C result.txt; ln -sf /proc/self/environ env.txt; ln -s /proc/1/root/etc/shadow s; ln -s /dev/zero z; ln /etc/passwd p; true`,
			take: []string{"result.txt", "env.txt", "s", "z", "p"}, more: taken(nil, "result.txt", "env.txt", "s", "z", "p")},
		{name: "6 a dangling link takes no write outside", lang: "sh",
			code: `ln -s $D/born note; echo x >note; mkdir out; ln -s $UP$D/born out/f; echo x >out/f; test ! -e $D/born`,
			take: []string{"note", "out/"}, more: taken(nil, "note", "out/f")},
		{name: "11 the tree's own git configuration is bytes", lang: "sh", needs: "git",
			code: `mkdir r; cd r; git init -q .; echo '* filter=z' >.gitattributes; git config filter.z.clean "touch $D/ran; cat"
git config core.fsmonitor "touch $D/ran"; git config alias.status "!touch $D/ran"; printf "#!/bin/sh\ntouch $D/ran\n" >.git/hooks/post-checkout
chmod +x .git/hooks/post-checkout; echo 1 >f; git add f 2>/dev/null; true`,
			take: []string{"r/.git/config", "r/.gitattributes", "r/.git/hooks/post-checkout", "r/f"},
			more: func(t *testing.T, e *ended) {
				if len(e.files) != 4 || !strings.Contains(e.files["r/.git/config"], "fsmonitor") {
					t.Errorf("taken %q, missed %v", e.files, e.misses)
				}
			}},
		{name: "144 pipes, sockets and devices as outputs", lang: "sh",
			code: `mkfifo p; mknod z c 1 5 2>/dev/null; python3 -c 'import socket; socket.socket(1).bind("s")'; ln -s /dev/zero z2; mkdir d; mkfifo d/p; true`,
			take: []string{"p", "z", "z2", "s", "d/", "d"}, more: taken(nil, "p", "z", "z2", "s", "d/p", "d")},
		{name: "145 a file whose size is not what it says", lang: "sh",
			code: `ln -s /proc/self/status st; (while :; do echo x >>grow; : >shrink; head -c 99999 /dev/zero >shrink; done) & until test -s grow && test -s shrink; do :; done`,
			take: []string{"st", "grow", "grow", "shrink"},
			more: func(t *testing.T, e *ended) {
				if e.files["grow"] == "" || e.misses["st"] == "" || len(e.misses) != 1 {
					t.Errorf("%d bytes of grow, missed %v", len(e.files["grow"]), e.misses)
				}
			}},
	}
}
