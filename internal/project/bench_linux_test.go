package project

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkRead reads a tree of 5,000 files of 8 KB: with nothing known, and
// with a cache of all of them.
func BenchmarkRead(b *testing.B) {
	s := &scene{dir: b.TempDir()}
	for i := range 5000 {
		s.put(b, fmt.Sprintf("d%d/e%d/f%d.go", i%50, i%7, i), string(bytes.Repeat(fmt.Appendf(nil, "line %d\n", i), 800)))
	}
	store := filepath.Join(b.TempDir(), "trees")
	c, err := CacheOf(store, s.dir)
	must(b, err)
	c.young = -time.Hour
	_, err = Read(context.Background(), s.dir, Options{Cache: c})
	must(b, err, c.Save())
	for name, o := range map[string]Options{"cold": {}, "warm": {Cache: c}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if tree, err := Read(context.Background(), s.dir, o); err != nil || name == "warm" && tree.Cached != 5000 {
					b.Fatal(err)
				}
			}
		})
	}
}
