package assembly

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/health"
)

func reasonOf(err error) string {
	var known *health.Error
	if !errors.As(err, &known) {
		return ""
	}
	return known.Reason
}

// TestAnAnchorThatIsBehindIsSeen: a checkpoint that waits is behind after its
// time and not before; one that was taken is not.
func TestAnAnchorThatIsBehindIsSeen(t *testing.T) {
	for place, want := range map[string]string{"DIR/no/where": health.AnchorBehind, "DIR/kept": ""} {
		c := logConfig(t, "audit: {anchors: [{file: "+place+"}]}\n")
		h, said := &House{}, make(heard, 10)
		if err := h.openLog(t.Context(), c, said); err != nil {
			t.Fatal(err)
		}
		call(t, h.Log, "")
		if err := h.Log.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		k := h.Health(c)
		if err := k.anchors(time.Hour); err != nil {
			t.Errorf("%s: %v", place, err)
		}
		deadline := time.After(20 * time.Second)
		for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
			if reasonOf(k.anchors(0)) == want {
				tick.Stop()
				break
			}
			select {
			case <-deadline:
				t.Fatalf("%s: %v, want %q", place, k.anchors(0), want)
			default:
			}
		}
		if err := k.store(t.Context()); err != nil {
			t.Errorf("%s: the store: %v", place, err)
		}
		_ = h.Close(t.Context()) // an anchor is dead
		if got := reasonOf(k.store(t.Context())); got != health.StoreUnwritable {
			t.Errorf("a store that is closed: %q", got)
		}
	}
}

// TestTheDiskIsLookedAt holds what it has to what the configuration wants.
func TestTheDiskIsLookedAt(t *testing.T) {
	c := logConfig(t, "")
	k := &Health{state: t.TempDir()}
	room, err := roomOf(k.state)
	if err != nil {
		if runtime.GOOS == "linux" {
			t.Fatal(err)
		}
		t.Skip("no way to ask a disk for its room here:", err)
	}
	limits := c.Health
	limits.Disk, limits.Inodes = 1, 0
	if err := k.disk(&limits); err != nil {
		t.Error(err)
	}
	limits.Disk = 1 << 62
	if got := reasonOf(k.disk(&limits)); got != health.DiskFull {
		t.Errorf("%q", got)
	}
	if limits.Disk, limits.Inodes = 1, 1<<62; room.inodes >= 0 {
		if got := reasonOf(k.disk(&limits)); got != health.DiskInodes {
			t.Errorf("%q", got)
		}
	}
	k.state = "/nowhere/at/all"
	if got := reasonOf(k.disk(&limits)); got != health.DiskUnknown {
		t.Errorf("%q", got)
	}
}
