package userkernel_test

import (
	"context"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
	"github.com/callcell/callcell/internal/runtime/container"
)

// TestDifferential holds the level against the container: the same programs do
// the same.
func TestDifferential(t *testing.T) {
	g := newGround(t)
	celltest.Differential(t, container.New(g.launchers), g.Runtime)
}

// said runs a program and returns what it printed and how it ended.
func said(t *testing.T, rt cell.Runtime, code string) (string, cell.Exit) {
	t.Helper()
	s := shape()
	s.Envelope.Resources.Pids = 32
	c, err := rt.Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, c)
	var out buffer
	x, err := c.Exec(context.Background(), cell.Command{Argv: []string{"/usr/bin/python3", "-c", code}, Env: environ(), Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out.data)), x
}
