package workspace

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/blob"
)

// TestFilesHaveTheSizeOfTheirManifest: an entry that says another size than its
// bytes have is found, and said.
func TestFilesHaveTheSizeOfTheirManifest(t *testing.T) {
	blobs := blob.New(t.TempDir(), blob.DefaultLimits())
	digests, err := blobs.Keep(t.Context(), "blue", [][]byte{[]byte("four")})
	if err != nil {
		t.Fatal(err)
	}
	k := New(nil, blobs, 1, time.Now)
	for size, want := range map[int64]string{3: "too large", 4: "", 5: "has 4 bytes, and its manifest says 5"} {
		data, err := k.blob("blue", Entry{Name: "a", Size: size, SHA256: digests[0]})
		switch {
		case want == "":
			if err != nil || string(data) != "four" {
				t.Errorf("%d: %q, %v", size, data, err)
			}
		case !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) || data != nil:
			t.Errorf("%d: %q, %v; want %s", size, data, err, want)
		}
	}
}
