package container_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/runtime/container"
	"github.com/callcell/callcell/internal/runtime/link"
)

// one makes, runs and destroys a cell.
func one(tb testing.TB, r cell.Runtime, argv ...string) {
	tb.Helper()
	ctx := context.Background()
	c, err := r.Open(ctx, shape())
	if err != nil {
		tb.Fatal(err)
	}
	x, err := c.Exec(ctx, cell.Command{Argv: argv, Env: environ(), Stdout: io.Discard, Stderr: io.Discard})
	if err != nil || x.Code != 0 {
		tb.Fatal(x, err)
	}
	if r := c.Close(ctx); !r.Complete {
		tb.Fatal(r)
	}
}

func BenchmarkCell(b *testing.B) {
	r := newRuntime(b)
	one(b, r, "/usr/bin/true")
	for b.Loop() {
		one(b, r, "/usr/bin/true")
	}
}

// BenchmarkCellsAtOnce is BenchmarkCell with four at once for each two cores.
func BenchmarkCellsAtOnce(b *testing.B) {
	r := newRuntime(b)
	one(b, r, "/usr/bin/true")
	b.SetParallelism(2)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			one(b, r, "/usr/bin/true")
		}
	})
}

func BenchmarkBwrap(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "/usr/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBare(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/usr/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart is what a one-shot command pays beside its cell: a launcher
// and its reaper, from nothing to hello and away again.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		r := container.Start(link.Config{Helpers: os.Getenv("CALLCELL_TEST_HELPERS")})
		if f := r.Features(); !f.Available {
			b.Fatal(f.Why)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
