package userkernel_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/cgroup"
	"github.com/callcell/callcell/internal/runtime/link"
	"github.com/callcell/callcell/internal/runtime/userkernel"
	"github.com/callcell/callcell/internal/testing/helpers"
)

// helpersEnv names the directory with what the tests run.
const helpersEnv = "CALLCELL_TEST_HELPERS"

func TestMain(m *testing.M) {
	if os.Getenv(helpersEnv) != "" { // built outside
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "callcell-helpers-")
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv(helpersEnv, dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// build makes the helpers, and an image with what the programs of the tests
// need.
func build(dir string) error {
	if err := helpers.Build(dir, "callcell-guest"); err != nil {
		return err
	}
	if err := helpers.Runsc(dir); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // cells are made of what their users can read
		return err
	}
	_, err := helpers.Image(dir, programs(), directories())
	return err
}

func programs() []string {
	libraries, err := filepath.Glob("/usr/lib/python3*/lib-dynload/*.so")
	if err != nil {
		panic(err) // a pattern of ours
	}
	return append(libraries, "sh", "bash", "cat", "env", "yes", "head", "ls", "printf", "sleep", "setsid", "truncate", "mkdir", "mkfifo", "ln",
		"test", "true", "false", "id", "uname", "rm", "dd", "seq", "wc", "sort", "tail", "grep", "sed", "timeout", "touch", "stat", "uniq", "chmod", "tr", "cut", "python3")
}

func directories() []string {
	python, err := filepath.Glob("/usr/lib/python3*")
	if err != nil {
		panic(err) // a pattern of ours
	}
	return append(python, "/usr/lib/locale", "/etc/ld.so.cache")
}

// A ground is a runtime with launchers of its own, whose groups and uids are
// nobody else's.
type ground struct {
	*userkernel.Runtime
	launchers *link.Launchers
	parent    string
	conf      string
}

// grounds numbers them: a launcher takes what is below its parent for its own.
var grounds atomic.Int64

// newGround starts one, with further settings of launcher.conf.
func newGround(t testing.TB, settings ...string) *ground {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: cells are made of what only root may make")
	}
	dir, bin := t.TempDir(), os.Getenv(helpersEnv)
	number := int(grounds.Add(1))
	first := 1_950_000_000 + (os.Getpid()%10_000*8+number%8)*256
	g := &ground{parent: fmt.Sprintf("callcell-userkernel-%d-%d", os.Getpid(), number), conf: filepath.Join(dir, "launcher.conf")}
	text := fmt.Sprintf("cgroup.parent = %s\nrun.dir = %s/run\nuids.first = %d\nuids.count = 256\ncells = 64\nrunsc.root = %s\n",
		g.parent, dir, first, filepath.Join(bin, "root.erofs"))
	if len(settings) == 0 {
		settings = []string{"spares = 0"}
	}
	for _, s := range settings {
		text += s + "\n"
	}
	if err := os.WriteFile(g.conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g.launchers = link.New(link.Config{Helpers: bin, Conf: g.conf, Launchers: 1})
	if unhurried() > 1 {
		g.launchers.SetPatienceForTest(time.Minute * unhurried())
	}
	t.Cleanup(func() {
		if err := g.launchers.Close(); err != nil {
			t.Error(err)
		}
		if left := g.cellGroups(); len(left) > 0 {
			t.Errorf("groups are left: %v", left)
		}
		for _, dir := range g.groups() {
			_ = os.Remove(filepath.Join(dir, cgroup.ClaimName)) // it is in one hierarchy
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
	})
	g.Runtime = userkernel.New(g.launchers)
	return g
}

// groups are the directories below which the groups of this ground's cells are.
func (g *ground) groups() []string {
	one, _ := filepath.Glob("/sys/fs/cgroup/" + g.parent) // a pattern of ours
	all, _ := filepath.Glob("/sys/fs/cgroup/*/" + g.parent)
	return append(one, all...)
}

// cellGroups are the groups of its cells.
func (g *ground) cellGroups() (left []string) {
	for _, dir := range g.groups() {
		found, _ := filepath.Glob(dir + "/c*-*/cgroup.procs") // a pattern of ours
		left = append(left, found...)
	}
	return left
}

func shape() cell.Shape {
	return cell.Shape{ID: uuid.Must(uuid.NewV7()).String(), Envelope: envelope.Default()}
}

// unhurried is how many times as long as elsewhere a step may take. Where
// CALLCELL_TEST_SLOW is set the machine itself is emulated.
func unhurried() time.Duration {
	if os.Getenv("CALLCELL_TEST_SLOW") != "" {
		return 10
	}
	return 1
}

func environ() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/work", "LANG=C.UTF-8"}
}

// A ran is one program's run.
type ran struct {
	exit     cell.Exit
	err      error
	out, say buffer
	took     time.Duration
}

// buffer keeps what is written, up to a bound, and refuses beyond.
type buffer struct {
	data []byte
	most int // 0: a mebibyte
}

func (b *buffer) Write(p []byte) (int, error) {
	most := b.most
	if most == 0 {
		most = 1 << 20
	}
	if len(b.data)+len(p) > most {
		return 0, os.ErrInvalid
	}
	b.data = append(b.data, p...)
	return len(p), nil
}

// run runs a program in a cell of its own, which stays for its files.
func (g *ground) run(t testing.TB, s cell.Shape, files []envelope.File, argv ...string) (*ran, cell.Cell) {
	t.Helper()
	c, err := g.Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, c) })
	if err := c.Put(files); err != nil {
		t.Fatal(err)
	}
	r, began := &ran{}, time.Now()
	r.exit, r.err = c.Exec(context.Background(), cell.Command{Argv: argv, Env: environ(), Stdout: &r.out, Stderr: &r.say})
	r.took = time.Since(began)
	return r, c
}

// closed closes a cell, of which nothing may be left.
func closed(t testing.TB, c cell.Cell) {
	t.Helper()
	if report := c.Close(context.Background()); !report.Complete {
		t.Errorf("teardown: %+v", report)
	}
}
