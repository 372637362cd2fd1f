package container_test

import (
	"context"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/runtime/container"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/runtime/link"
)

// standing is what the probe says of itself, without the numbers that no two
// cells have in common.
func (g *ground) standing(t *testing.T, env envelope.Envelope) (lines []string, enforced string) {
	t.Helper()
	e := g.call(t, env, row{lang: "python", code: postureProbe})
	if e.Code != 0 {
		t.Fatalf("%+v\n%s", e.Exit, e.out)
	}
	own := regexp.MustCompile(`(?m)^(namespace \S+ \w+:|map [ug]id_map 1000 )\[?\d+\]?`)
	return strings.Split(own.ReplaceAllString(e.out, "$1"), "\n"), e.Enforced
}

// TestSpareIsLikeAnyCell: with a network and without, a cell that was made before
// it was asked for stands as one that was not, line by line, and is enforced
// alike.
func TestSpareIsLikeAnyCell(t *testing.T) {
	open := envelope.Default()
	open.Network.Allow = []envelope.Allow{{Host: "example.com", Ports: []int{80, 443}}, {Host: "2001:db8::5", Ports: []int{443}}}
	for name, env := range map[string]envelope.Envelope{"no network": envelope.Default(), "a network": open} {
		t.Run(name, func(t *testing.T) {
			g := newGroundWith(t, link.Config{Launchers: 1}, "cells = 64", "spares = 1")
			cold, coldly := g.standing(t, env)
			g.standing(t, env)
			awaitNone(t, "spares that are not there", func() []string {
				if len(g.cellGroups()) == 0 {
					return []string{"one"}
				}
				return nil
			})
			ready := g.cellGroups()
			warm, warmly := g.standing(t, env)
			if left := g.cellGroups(); len(left) > 0 && left[0] == ready[0] {
				t.Errorf("%v was not taken", ready)
			}
			if diff := difference(warm, cold); len(diff) > 0 || !slices.Equal(warm, cold) {
				t.Errorf("%q", diff)
			}
			if coldly != warmly || coldly == "" {
				t.Errorf("enforced: %s, then %s", coldly, warmly)
			}
		})
	}
}

// TestSparesUnderCancellation: calls of two shapes, of which many are given up at
// any moment, all come to their end while spares are made, taken and dropped.
func TestSparesUnderCancellation(t *testing.T) {
	calls := int64(1500)
	if os.Getenv("CALLCELL_LONG") != "" {
		calls = 60_000
	}
	g := newGroundWith(t, link.Config{Launchers: 2}, "cells = 16", "spares = 1")
	var made, ended atomic.Int64
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			draw := rand.New(rand.NewPCG(uint64(i), 7))
			for made.Add(1) <= calls {
				s := shape()
				if draw.IntN(20) == 0 {
					s.Envelope.Resources.Pids++ // another spec
				}
				patience := time.Hour
				if draw.IntN(3) == 0 {
					patience = time.Duration(draw.IntN(8000)) * time.Microsecond
				}
				givenUp(t, g.runtime, s, patience)
				ended.Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	const tick = 30 * time.Second
	for last := int64(-1); ; {
		select {
		case <-done:
			return
		case <-time.After(tick):
		}
		now := ended.Load()
		if now == last {
			stacks := make([]byte, 1<<20)
			t.Fatalf("no call has ended for %v, after %d\n%s", tick, now, stacks[:runtime.Stack(stacks, true)])
		}
		last = now
	}
}

// givenUp makes one call that is given up after a while.
func givenUp(t *testing.T, r *container.Runtime, s cell.Shape, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := r.Open(ctx, s)
	if err != nil {
		if ctx.Err() == nil {
			t.Errorf("Open: %v", err)
		}
		return
	}
	x, err := c.Exec(ctx, cell.Command{Argv: []string{"/usr/bin/true"}, Env: environ(), Stdout: io.Discard, Stderr: io.Discard})
	if ctx.Err() == nil && (err != nil || x.Code != 0) {
		t.Errorf("%+v, %v", x, err)
	}
	if report := c.Close(context.Background()); !report.Complete {
		t.Errorf("teardown: %+v", report)
	}
}
