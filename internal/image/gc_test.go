package image

import (
	"encoding/json"
	"testing"
	"time"
)

// TestCollectionAsJSON: who reads it finds the fields by the names that every
// other answer has.
func TestCollectionAsJSON(t *testing.T) {
	tree := Tree{Digest: "sha256:00", Bytes: 7, Forms: Forms{Dir: true}, Made: time.Unix(0, 0).UTC(), Owned: true}
	text, err := json.Marshal(&Collection{Removed: []Tree{tree}, Kept: 1, Bytes: 7, Missing: []string{"build:x"}})
	const want = `{"removed":[{"digest":"sha256:00","bytes":7,"made":"1970-01-01T00:00:00Z"}],"kept":1,"bytes":7,"missing":["build:x"]}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}
