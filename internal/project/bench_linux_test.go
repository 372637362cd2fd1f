package project

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSpeed(t *testing.T) {
	dir := t.TempDir()
	for i := range 5000 {
		p := filepath.Join(dir, fmt.Sprintf("d%d/e%d/f%d.go", i%50, i%7, i))
		os.MkdirAll(filepath.Dir(p), 0o755)
		data := make([]byte, 8000)
		for k := range data {
			data[k] = byte(k * i >> 3)
		}
		os.WriteFile(p, data, 0o644)
	}
	time.Sleep(2500 * time.Millisecond)
	cp := filepath.Join(t.TempDir(), "c")
	for range 4 {
		b := time.Now()
		tr, err := Read(context.Background(), dir, Options{})
		d1 := time.Since(b)
		b = time.Now()
		c, _ := CacheOf(cp, dir)
		d2 := time.Since(b)
		b = time.Now()
		tr, err = Read(context.Background(), dir, Options{Cache: c})
		if err != nil {
			t.Fatal(err)
		}
		d3 := time.Since(b)
		c.Save()
		fmt.Println(d1, d2, d3, tr.Cached, len(tr.Files), tr.Bytes)
	}
}
