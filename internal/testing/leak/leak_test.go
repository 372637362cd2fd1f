package leak

import (
	"os"
	"strings"
	"testing"
)

func TestCleanTestPasses(t *testing.T) {
	Check(t)
	done := make(chan struct{})
	go close(done)
	<-done
}

func TestLeakedGoroutineIsSeen(t *testing.T) {
	before := snapshot()
	stop := make(chan struct{})
	go func() { <-stop }()
	more := diff(before, snapshot())
	close(stop)
	if len(more) != 1 || !strings.Contains(more[0], "TestLeakedGoroutineIsSeen") {
		t.Fatalf("seen: %q", more)
	}
	if left := settle(before); left != nil {
		t.Fatalf("still seen after it ended: %q", left)
	}
}

func TestLeakedDescriptorIsSeen(t *testing.T) {
	if descriptors() == nil {
		t.Skip("no /proc here")
	}
	before := snapshot()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	more := diff(before, snapshot())
	r.Close()
	w.Close()
	if len(more) != 1 || !strings.Contains(more[0], "descriptor pipe") {
		t.Fatalf("seen: %q", more)
	}
	if left := settle(before); left != nil {
		t.Fatalf("still seen after it was closed: %q", left)
	}
}
