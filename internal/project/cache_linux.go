package project

import (
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// CacheOf returns the cache for the tree in dir, below the directory store,
// which is the user's own.
func CacheOf(store, dir string) (*Cache, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &Cache{path: filepath.Join(store, fmt.Sprintf("%x-%x%s", st.Dev, st.Ino, cacheExt)), young: settled}, nil
}

func idOf(st *unix.Stat_t) (fileID, cached) {
	return fileID{st.Dev, st.Ino}, cached{Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}
}

// find returns what is known of a file, if it is still that.
func (c *Cache) find(st *unix.Stat_t) (known cached, ok bool) {
	if c == nil {
		return known, false
	}
	id, now := idOf(st)
	known, ok = c.known[id]
	now.Sum, now.Offset = known.Sum, known.Offset
	return known, ok && now == known
}

// learn remembers the files of a tree, forgets all others, and returns how many
// it knew.
func (c *Cache) learn(t *Tree, list []found) (hits int) {
	if c == nil {
		return 0
	}
	c.next = nil
	for i := range list {
		if list[i].known {
			hits++
		}
		f, ok := t.find(list[i].name)
		if !ok {
			continue
		}
		id, now := idOf(&list[i].st)
		now.Sum = f.Sum
		if list[i].known || list[i].read.Sub(time.Unix(0, now.Ctime)) > c.young {
			c.next = append(c.next, pending{id, now, f.Data})
		}
	}
	c.fresh = hits == len(c.known) && hits == len(c.next)
	return hits
}
