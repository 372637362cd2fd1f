package client

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzFew: a list is read as encoding/json reads it, or, where it is longer than it
// may be, or none, not at all.
func FuzzFew(f *testing.F) {
	for _, text := range []string{`[]`, `["a","b"]`, `["a","b","c","d"]`, `["a",1]`, `null`, `{}`, `["a",null]`, `"a"`, ` [ "a" ] `} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		const most = 3
		got, want := few[string]{most: most}, []string(nil)
		failed := json.Unmarshal(text, &want)
		if err := json.Unmarshal(text, &got); err != nil {
			if failed == nil && want != nil && len(want) <= most {
				t.Fatalf("%s: %v", text, err)
			}
			return
		}
		if failed != nil || len(got.list) > most || got.list == nil || !reflect.DeepEqual(got.list, want) {
			t.Fatalf("%s: %q, want %q: %v", text, got.list, want, failed)
		}
	})
}
