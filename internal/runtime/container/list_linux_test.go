package container

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/cell"
)

// FuzzEntries: names are a program's, and may hold anything but NUL. What the
// launcher writes of them is read back as it is, and what it does not write is
// malformed or read as something; nothing panics.
func FuzzEntries(f *testing.F) {
	f.Add([]byte("+7:a\x00*12:b/c:d\x00-0:\xff\n\x00"))
	f.Add([]byte("+a\x00"))
	f.Add([]byte("+99999999999999999999:a\x00:\x00"))
	f.Fuzz(func(t *testing.T, listing []byte) {
		list, err := entries(listing)
		if err != nil {
			if list != nil {
				t.Fatal("an error, and entries")
			}
			return
		}
		var again strings.Builder
		for _, e := range list {
			if e.Name == "" || e.Size < 0 || e.Executable && !e.Regular {
				t.Fatalf("%+v", e)
			}
			kind := map[[2]bool]string{{true, false}: "+", {true, true}: "*", {false, false}: "-"}[[2]bool{e.Regular, e.Executable}]
			fmt.Fprintf(&again, "%s%d:%s\x00", kind, e.Size, e.Name)
		}
		if same, err := entries([]byte(again.String())); err != nil || !slices.EqualFunc(same, list, func(a, b cell.Entry) bool { return a == b }) {
			t.Fatalf("%v: %+v, then %+v", err, list, same)
		}
	})
}
