package container_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/google/uuid"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/runtime/container"
	"github.com/callcell/callcell/internal/testing/helpers"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "callcell-helpers-")
	if err == nil {
		err = helpers.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("CALLCELL_TEST_HELPERS", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func newRuntime(t testing.TB) *container.Runtime {
	t.Helper()
	r := container.New(container.Config{Helpers: os.Getenv("CALLCELL_TEST_HELPERS")})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func shape() cell.Shape {
	return cell.Shape{ID: uuid.Must(uuid.NewV7()).String(), Envelope: envelope.Default()}
}

func environ() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/work", "LANG=C.UTF-8"}
}

func TestSmoke(t *testing.T) {
	r := newRuntime(t)
	c, err := r.Open(context.Background(), shape())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Put([]envelope.File{{Name: "a/b.txt", Data: []byte("hello\n")}}); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	x, err := c.Exec(context.Background(), cell.Command{
		Argv: []string{"sh", "-c", "id; cat a/b.txt; cat /proc/self/status | grep -E 'Cap|Secc|NoNew'; cat /proc/self/mountinfo; ls -la / /dev /work /proc; cat; echo x > out.txt; env; cat /proc/self/cgroup /proc/self/uid_map; ls -la /proc/self/fd; hostname; ps aux"},
		Env:  environ(), Stdin: []byte("stdin\n"), Stdout: &out, Stderr: &errs,
	})
	t.Logf("%+v %v\n%s\n%s", x, err, out.String(), errs.String())
	if err := c.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	files, misses, err := c.Get(context.Background(), []string{"out.txt", "nope", "a/"}, envelope.Default().Files.Outputs)
	t.Logf("%+v %+v %v", files, misses, err)
	t.Logf("%+v", c.Close(context.Background()))
}
