package project

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Cache remembers the files of one tree from one Read to the next: what is in
// them and its digest. A file is the same where device, inode, size,
// modification and change time are: the last is the kernel's to set, and no
// program sets it back. A file is remembered only where it had not changed for
// two seconds before it was read, so that a change within one tick of the clock
// is not missed.
//
// It is a file of the user's own, with mode 0600. One that is lost or broken
// costs time and nothing else. nil is a Cache that knows nothing.
type Cache struct {
	path  string
	young time.Duration // a file that changed as recently is not remembered
	fresh bool          // what is in the file is what is known
	data  []byte
	known map[fileID]cached
	next  []pending // what Save is to write
}

// The bounds of caches.
const (
	MaxCache  = 192 << 20 // bytes of one; a larger tree is not remembered
	MaxCaches = 8         // of one directory; the oldest go
)

// settled is how long a file has to be as it is before it is remembered.
const settled = 2 * time.Second

// fileID says which file it is.
type fileID struct{ Dev, Ino uint64 }

// cached is what is known of one.
type cached struct {
	Size         int64
	Mtime, Ctime int64 // nanoseconds
	Sum          [32]byte
	Offset       int64 // in the file
}

// record is an entry of the file of a cache.
type record struct {
	ID fileID
	cached
}

// pending is a file that is to be remembered.
type pending struct {
	id   fileID
	stat cached
	data []byte
}

const (
	cacheMagic = "callcell.tree.2\n"
	recordSize = 16 + 8 + 16 + 32 + 8
	cacheExt   = ".tree"
)

// castagnoli is what the file of a cache ends with: it finds what a disk or a
// loss of power does to it. Nobody but the user writes it.
func castagnoli(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// load reads the file. One that is not there, or not as it was written, is an
// empty one.
func (c *Cache) load() {
	if c == nil {
		return
	}
	c.data, c.known, c.fresh = nil, nil, false
	f, err := os.Open(c.path)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > MaxCache {
		return
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err == nil {
		c.decode(data)
	}
}

// decode reads the file's bytes: magic, how many records, those, what the files
// hold, and the checksum of it all.
func (c *Cache) decode(data []byte) {
	head := len(cacheMagic) + 8
	if len(data) < head+4 || !bytes.HasPrefix(data, []byte(cacheMagic)) {
		return
	}
	body := data[:len(data)-4]
	count := binary.LittleEndian.Uint64(body[len(cacheMagic):])
	if castagnoli(body) != binary.LittleEndian.Uint32(data[len(body):]) || count > uint64(len(body)-head)/recordSize {
		return
	}
	known := make(map[fileID]cached, count)
	for i := range int(count) {
		var r record
		if _, err := binary.Decode(body[head+i*recordSize:], binary.LittleEndian, &r); err != nil {
			return
		}
		if r.Offset < 0 || r.Size < 0 || r.Offset > int64(len(body)) || r.Size > int64(len(body))-r.Offset {
			return
		}
		known[r.ID] = r.cached
	}
	c.data, c.known = body, known
}

// bytesOf returns what a file held that is known.
func (c *Cache) bytesOf(known cached) []byte {
	end := known.Offset + known.Size
	return c.data[known.Offset:end:end]
}

// Save writes what the last Read has learnt. Two processes may do it at once.
func (c *Cache) Save() error {
	if c == nil || c.path == "" || c.fresh {
		return nil
	}
	size := len(cacheMagic) + 8 + recordSize*len(c.next) + 4
	for _, p := range c.next {
		size += len(p.data)
	}
	if size > MaxCache {
		return nil
	}
	dir := filepath.Dir(c.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("remember the tree: %w", err)
	}
	f, err := os.CreateTemp(dir, ".new-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("remember the tree: %w", err)
	}
	_, err = f.Write(c.encode(size))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("remember the tree: %w", err), os.Remove(f.Name()))
	}
	c.fresh = true
	return prune(dir)
}

func (c *Cache) encode(size int) []byte {
	out := append(make([]byte, 0, size), cacheMagic...)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(c.next)))
	offset := int64(len(out) + recordSize*len(c.next))
	for _, p := range c.next {
		p.stat.Offset = offset
		offset += int64(len(p.data))
		out, _ = binary.Append(out, binary.LittleEndian, record{p.id, p.stat}) // of fixed size
	}
	for _, p := range c.next {
		out = append(out, p.data...)
	}
	return binary.LittleEndian.AppendUint32(out, castagnoli(out))
}

// prune removes the oldest caches of a directory.
func prune(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	type one struct {
		name string
		at   time.Time
	}
	var all []one
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasSuffix(e.Name(), cacheExt) && info.Mode().IsRegular() {
			all = append(all, one{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b one) int { return b.at.Compare(a.at) })
	for _, old := range all[min(MaxCaches, len(all)):] {
		err = errors.Join(err, os.Remove(filepath.Join(dir, old.name)))
	}
	return err
}
