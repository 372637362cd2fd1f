package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// memory is a store of trees in memory: a tree is the stream it was made of.
type memory struct {
	mu     sync.Mutex
	trees  map[string]Tree
	inUse  map[string]bool
	staged int
	refuse error // what Unpack says of any stream
	ending error // what it says of one at its end, whoever gave it up
	keep   error // what Keep says
}

func newMemory() *memory { return &memory{trees: map[string]Tree{}, inUse: map[string]bool{}} }

func (m *memory) Unpack(ctx context.Context, stream *os.File, limits Limits, forms Forms) (Unpacked, Staged, error) {
	defer stream.Close()
	if m.refuse != nil {
		return Unpacked{}, nil, m.refuse
	}
	text, err := io.ReadAll(io.LimitReader(stream, limits.Bytes+1))
	switch {
	case m.ending != nil:
		return Unpacked{}, nil, m.ending
	case ctx.Err() != nil:
		return Unpacked{}, nil, context.Cause(ctx)
	case err != nil:
		return Unpacked{}, nil, err
	case int64(len(text)) > limits.Bytes:
		return Unpacked{}, nil, &Error{Kind: KindQuota, Msg: "too much"}
	}
	sum := sha256.Sum256(text)
	u := Unpacked{Digest: "sha256:" + hex.EncodeToString(sum[:]), Bytes: int64(len(text)), Entries: 1}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.staged++
	return u, &memoryStaged{m, Tree{Digest: u.Digest, Bytes: u.Bytes, Forms: forms}}, nil
}

type memoryStaged struct {
	m    *memory
	tree Tree
}

func (s *memoryStaged) Keep(context.Context) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.staged--
	if s.m.keep == nil {
		s.tree.Owned = true
		s.m.trees[s.tree.Digest] = s.tree
	}
	return s.m.keep
}

func (s *memoryStaged) Drop(context.Context) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.staged--
	return nil
}

func (m *memory) List(context.Context) ([]Tree, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Tree
	for _, t := range m.trees {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Tree) int { return int(a.Bytes - b.Bytes) })
	return list, nil
}

func (m *memory) Remove(_ context.Context, digest string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inUse[digest] {
		return &Error{Kind: KindInUse, Msg: digest}
	}
	delete(m.trees, digest)
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newMaker returns a maker over a store in memory.
func newMaker(t *testing.T) (*Maker, *memory) {
	t.Helper()
	m := newMemory()
	return &Maker{Index: NewIndex(t.TempDir()), Trees: m, Now: time.Now, Most: 1000, Limits: Limits{Bytes: 100, Entries: 10}}, m
}
