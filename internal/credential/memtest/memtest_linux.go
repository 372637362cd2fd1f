package memtest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
)

// A Canary is a byte string that nothing holds until Fill writes it: what is
// kept of it is another string, from which each byte is worked out.
type Canary struct {
	seed []byte
}

const flip = 0xa5

// NewCanary returns a canary that is made of text, but is not text: 8 bytes
// or more that no other test uses.
func NewCanary(text string) Canary { return Canary{seed: []byte(text)} }

// Len is the length of the canary.
func (c Canary) Len() int { return len(c.seed) }

// Fill writes the canary into room, which holds that many bytes. The bytes are
// printable.
func (c Canary) Fill(room []byte) {
	for i := range c.seed {
		room[i] = c.at(i)
	}
}

func (c Canary) at(i int) byte { return 'A' + (c.seed[i]^flip)%26 }

// most is the length from which on a mapping is not memory but room for it:
// the race detector's shadow, say.
const most = 1 << 30

// Count returns how often the canary is in the memory that this process can
// write, in mappings of less than 1 GiB.
func (c Canary) Count() (int, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return 0, err
	}
	defer mem.Close()
	found, chunk := 0, make([]byte, 1<<20)
	for line := bufio.NewScanner(strings.NewReader(string(maps))); line.Scan(); {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line.Text(), "%x-%x %s", &from, &to, &mode); err != nil || !strings.HasPrefix(mode, "rw") || to-from >= most || strings.Contains(line.Text(), "[v") {
			continue
		}
		found += c.countIn(mem, from, to, chunk)
	}
	return found, nil
}

// countIn counts in one mapping, in overlapping chunks.
func (c Canary) countIn(mem *os.File, from, to int64, chunk []byte) (found int) {
	for at := from; at < to; at += int64(len(chunk) - c.Len() + 1) {
		n, _ := mem.ReadAt(chunk[:min(int64(len(chunk)), to-at)], at)
		for i := 0; i+c.Len() <= n; i++ {
			next := bytes.IndexByte(chunk[i:n-c.Len()+1], c.at(0))
			if next < 0 {
				break
			}
			if i += next; c.matches(chunk[i:]) {
				found++
			}
		}
		clear(chunk)
	}
	return found
}

func (c Canary) matches(b []byte) bool {
	for i := range c.seed {
		if b[i] != c.at(i) {
			return false
		}
	}
	return true
}
