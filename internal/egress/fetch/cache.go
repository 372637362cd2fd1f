package fetch

import (
	"container/list"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
)

// A key is what has one answer.
type key struct {
	team string
	url  string
	want want
}

// An entry is an answer. It is not changed.
type entry struct {
	key     key
	answer  envelope.Fetched // without its body
	body    [][]byte         // in pieces of at most wire.MaxBody bytes
	hops    []address        // that it came by
	expires time.Time
	size    int64
}

// entryExtra is about what an entry takes beside its texts, in bytes.
const entryExtra = 1 << 10

// A cache holds answers for a short time: at most a number of them, at most a
// number of bytes, the least recently used go first.
type cache struct {
	entries int
	bytes   int64
	forTime time.Duration

	mu    sync.Mutex
	byKey map[key]*list.Element
	order *list.List // of *entry, most recently used first
	used  int64      // bytes
}

func newCache(entries int, bytes int64, forTime time.Duration) *cache {
	return &cache{entries: entries, bytes: bytes, forTime: forTime, byKey: map[key]*list.Element{}, order: list.New()}
}

// most returns the bytes that a body may have to be held: a quarter of all.
func (c *cache) most() int64 { return c.bytes / 4 }

// get returns the answer for a key, nil if there is none.
func (c *cache) get(k key, now time.Time) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked(now)
	at := c.byKey[k]
	if at == nil {
		return nil
	}
	c.order.MoveToFront(at)
	return at.Value.(*entry)
}

// put holds an answer, in place of the one that there was for its key.
func (c *cache) put(e *entry, now time.Time) {
	e.size = entryExtra + int64(len(e.key.team)+len(e.key.url))
	for _, piece := range e.body {
		e.size += int64(cap(piece))
	}
	for _, a := range e.hops {
		e.size += 2 * int64(len(a.String()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked(now)
	c.removeLocked(c.byKey[e.key])
	if c.entries < 1 || e.size > c.bytes {
		return
	}
	for c.order.Len() >= c.entries || c.used+e.size > c.bytes {
		c.removeLocked(c.order.Back())
	}
	c.byKey[e.key] = c.order.PushFront(e)
	c.used += e.size
}

// drop forgets the answer for a key.
func (c *cache) drop(k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(c.byKey[k])
}

// expireLocked forgets what is too old, so that none of it is held longer than
// until the next use.
func (c *cache) expireLocked(now time.Time) {
	var next *list.Element
	for at := c.order.Front(); at != nil; at = next {
		next = at.Next()
		if !now.Before(at.Value.(*entry).expires) {
			c.removeLocked(at)
		}
	}
}

func (c *cache) removeLocked(at *list.Element) {
	if at == nil {
		return
	}
	e := c.order.Remove(at).(*entry)
	delete(c.byKey, e.key)
	c.used -= e.size
}

// storing says whether the answers of a trip may be held, and how long.
type storing struct {
	no      bool
	forTime time.Duration
}

// take looks at the answer of one hop.
func (s *storing) take(pol Judge, x *exchange) {
	h := x.resp.Header
	local, remote := ends(x.conn)
	switch {
	case len(h.Values("Set-Cookie")) > 0, slices.Contains(words(h, "Vary"), "*"):
		s.no = true
	case !pol.JudgePublicAddr(remote, []netip.Addr{local}).OK:
		s.no = true // a private range, or this host, opened it for this call
	}
	s.control(h)
}

// control takes what the other side says about storing.
func (s *storing) control(h http.Header) {
	list := words(h, "Cache-Control")
	if len(list) == 0 {
		list = words(h, "Pragma")
	}
	for _, word := range list {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "private", "no-store", "no-cache":
			s.no = true
		case "max-age", "s-maxage":
			n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err != nil || n == 0 {
				s.no = true
				continue
			}
			s.forTime = min(s.forTime, time.Duration(n)*time.Second)
		}
	}
}

// words returns the members of a header that is a list, in lower case.
func words(h http.Header, name string) (list []string) {
	for _, line := range h.Values(name) {
		for word := range strings.SplitSeq(strings.ToLower(line), ",") {
			list = append(list, strings.TrimSpace(word))
		}
	}
	return list
}
