package httpapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"runtime"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// TestLargeResultsAreEncodedAsOthers: as package json does it, whatever is large,
// and what was encoded is as it was.
func TestLargeResultsAreEncodedAsOthers(t *testing.T) {
	full := func() *envelope.Result {
		return reflect.New(reflect.TypeFor[envelope.Result]()).Interface().(*envelope.Result)
	}
	for _, size := range []int{1, large - 1, large, large + 1} {
		r := full()
		fill(t, reflect.ValueOf(r).Elem(), 0)
		n := enlarge(reflect.ValueOf(r).Elem(), size)
		want, err := json.Marshal(r)
		if err != nil || n < 7 {
			t.Fatalf("%d places for bytes, %v", n, err)
		}
		if got := encode(r); !bytes.Equal(got, want) {
			t.Errorf("of %d bytes each: %d bytes, not %d", size, len(got), len(want))
		}
		if again, err := json.Marshal(r); err != nil || !bytes.Equal(again, want) {
			t.Errorf("of %d bytes each: changed, %v", size, err)
		}
		if _, parts := parted(r); size >= large && len(parts) != n {
			t.Errorf("%d of %d are copied once", len(parts), n)
		}
	}
	for _, r := range []*envelope.Result{full(), {Outputs: []envelope.File{}, Changes: &envelope.Changes{Files: []envelope.Change{}}}} {
		want, err := json.Marshal(r)
		if got := encode(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

// enlarge gives each place for bytes so many, others in each, and says how many
// there are.
func enlarge(v reflect.Value, size int) (n int) {
	switch {
	case v.Type() == reflect.TypeFor[envelope.Data]():
		v.SetBytes(bytes.Repeat([]byte{byte(size)}, size))
		return 1
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return enlarge(v.Elem(), size)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			n += enlarge(v.Index(i), size)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				n += enlarge(v.Field(i), size)
			}
		}
	}
	return n
}

// TestALargeResultIsCopiedOnce: nothing else of its size is needed to encode it.
func TestALargeResultIsCopiedOnce(t *testing.T) {
	r := &envelope.Result{Outputs: []envelope.File{{Name: "a", Data: make([]byte, 12<<20)}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text := encode(r)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(len(text))+4<<20 {
		t.Errorf("%d bytes for %d", n, len(text))
	}
}
