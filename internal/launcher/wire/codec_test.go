package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// fill sets every field to something that is not its zero value; n makes the
// values of two calls differ.
func fill(v reflect.Value, n int) {
	switch v.Interface().(type) {
	case Cause:
		v.SetUint(uint64(1 + n%int(causeEnd-1)))
		return
	case Level:
		v.SetUint(uint64(1 + n%int(levelEnd-1)))
		return
	case Kind:
		v.SetUint(uint64(1 + n%int(kindEnd-1)))
		return
	case TreeFile:
		v.SetUint(uint64(1 + n%int(treeFileEnd-1)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n+i)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range 3 {
			fill(v.Index(i), n+i)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n+i)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d\x00\xff", n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(-int64(n) - 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(n%200) + 1)
	default:
		panic("fill: " + v.Kind().String())
	}
}

// bodies returns one filled body of each type.
func bodies(tb testing.TB) []Body {
	tb.Helper()
	var all []Body
	for t := TypeOpen; ; t++ {
		b := newBody(t)
		if b == nil {
			break
		}
		fill(reflect.ValueOf(b).Elem(), int(t))
		all = append(all, b)
	}
	return all
}

func encode(tb testing.TB, m Message) []byte {
	tb.Helper()
	b, err := Encode(m)
	if err != nil {
		tb.Fatalf("Encode(%#v): %v", m.Body, err)
	}
	return b
}

func TestEveryTypeRoundTrips(t *testing.T) {
	all := bodies(t)
	if len(all) != int(TypeCount) {
		t.Fatalf("%d bodies, want %d: newBody must know every type", len(all), TypeCount)
	}
	for _, b := range all {
		m := Message{Seq: 0xdeadbeef, Body: b}
		got, err := Decode(encode(t, m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%T: %+v, %v; want %+v", b, got.Body, err, b)
		}
	}
}

func TestZeroBodiesRoundTrip(t *testing.T) {
	for ty := TypeOpen; ty <= TypeCount; ty++ {
		m := Message{Body: newBody(ty)}
		if ty == TypeFailed {
			m.Body = &Failed{Kind: KindSetup} // no kind is no failure
		}
		if ty == TypeOpenTree {
			m.Body = &OpenTree{File: TreeListing} // no file is none to open
		}
		got, err := Decode(encode(t, m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%T: %+v, %v", m.Body, got.Body, err)
		}
	}
}

func TestTypesAreTheirOwn(t *testing.T) {
	for ty := range math.MaxUint8 + 1 {
		b := newBody(Type(ty))
		if known := ty >= 1 && ty <= int(TypeCount); (b != nil) != known {
			t.Errorf("type %d: body %T", ty, b)
		}
		if b != nil && b.Type() != Type(ty) {
			t.Errorf("type %d: %T says it is %d", ty, b, b.Type())
		}
	}
}

// TestSweptBytes pins what the reaper, which is C, writes by hand.
func TestSweptBytes(t *testing.T) {
	got := encode(t, Message{Body: &Swept{Left: 0x0102}})
	if want := []byte{24, 0, 0, 0, 0, 0x02, 0x01, 0, 0}; !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
}

func TestDecodeTakesExactlyTheMessage(t *testing.T) {
	for _, b := range bodies(t) {
		whole := encode(t, Message{Seq: 7, Body: b})
		for n := range whole {
			refuse(t, fmt.Sprintf("%T cut to %d bytes", b, n), whole[:n])
		}
		refuse(t, fmt.Sprintf("%T and a byte", b), append(bytes.Clone(whole), 0))
	}
}

// refuse checks that bytes are malformed, and that nothing of them is handed
// out.
func refuse(t *testing.T, what string, b []byte) {
	t.Helper()
	if m, err := Decode(b); !errors.Is(err, ErrMalformed) || m != (Message{}) {
		t.Errorf("%s: %+v, %v; want the zero message and ErrMalformed", what, m, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	exited := encode(t, Message{Body: &Exited{Known: true, Cause: CauseCancel}})
	kill := encode(t, Message{Body: &Kill{Slot: 1, Cause: CauseCancel}})
	failed := encode(t, Message{Body: &Failed{Kind: KindState}})
	hello := encode(t, Message{Body: &Hello{Kernel: "k", Missing: []string{"x"}}})
	with := func(b []byte, at int, v ...byte) []byte {
		b = bytes.Clone(b)
		copy(b[at:], v)
		return b
	}
	missing := len(hello) - 4 - 3 - 2 // reaper, the one string, the count
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"nothing", nil},
		{"a type alone", []byte{byte(TypeDone)}},
		{"type 0", []byte{0, 0, 0, 0, 0}},
		{"the type after the last", []byte{byte(TypeCount) + 1, 0, 0, 0, 0}},
		{"flag 2", with(exited, 5+4, 2)},
		{"flag 255", with(exited, 5+4, 255)},
		{"Exited's cause out of the set", with(exited, 5+4+1, byte(causeEnd))},
		{"Kill's cause out of the set", with(kill, 5+4, byte(causeEnd))},
		{"kind 0", with(failed, 5, 0)},
		{"kind out of the set", with(failed, 5, byte(kindEnd))},
		{"a string longer than any", with(failed, 6, 0xff, 0xff)},
		{"a list longer than any", with(hello, missing, maxItems+1, 0)},
		{"a list longer than the message", with(hello, missing, maxItems, 0)},
		{"a message longer than any", make([]byte, MaxMessage+1)},
	} {
		refuse(t, c.name, c.b)
	}
	if got := hello[missing]; got != 1 {
		t.Fatalf("the test looks for the list's length in the wrong place: %d", got)
	}
}

func TestEncodeHoldsTheBounds(t *testing.T) {
	long := strings.Repeat("x", maxString)
	for _, c := range []struct {
		name string
		body Body
		ok   bool
	}{
		{"a string at the bound", &Get{Name: long}, true},
		{"a string over it", &Get{Name: long + "x"}, false},
		{"two of them", &Closed{Checks: []Check{{What: long, Note: long[:8000]}}}, true},
		{"a message over the bound", &Closed{Checks: []Check{{What: long, Note: long}}}, false},
		{"a list at the bound", &Hello{Missing: make([]string, maxItems)}, true},
		{"a list over it", &Hello{Missing: make([]string, maxItems+1)}, false},
		{"as many ports and addresses", &Open{Spec: Spec{Ports: make([]uint16, maxItems), Addrs: make([][16]byte, maxItems)}}, true},
		{"a port over it", &Open{Spec: Spec{Ports: make([]uint16, maxItems+1)}}, false},
		{"an address over it", &Open{Spec: Spec{Addrs: make([][16]byte, maxItems+1)}}, false},
		{"a list far over it", &Hello{Missing: make([]string, 1<<16+1)}, false},
		{"no kind", &Failed{}, false},
		{"a cause out of the set", &Kill{Cause: causeEnd}, false},
	} {
		b, err := Encode(Message{Body: c.body})
		if (err == nil) != c.ok || err != nil && (b != nil || !errors.Is(err, ErrMalformed)) {
			t.Errorf("%s: %d bytes, %v", c.name, len(b), err)
		}
		if err != nil {
			continue
		}
		if m, err := Decode(b); err != nil || !reflect.DeepEqual(m.Body, c.body) {
			t.Errorf("%s does not round-trip: %v", c.name, err)
		}
	}
}

// TestDecodeAllocatesInProportion decodes what claims to be much and is
// little.
func TestDecodeAllocatesInProportion(t *testing.T) {
	closed := encode(t, Message{Body: &Closed{Checks: make([]Check, maxItems)}})
	open := encode(t, Message{Body: &Open{Spec: Spec{Ports: make([]uint16, maxItems), Addrs: make([][16]byte, maxItems)}}})
	for name, b := range map[string][]byte{
		"64 ports and 64 addresses":        open,
		"64 addresses, of which one comes": open[:len(open)-63*16],
		"64 checks":                        closed,
		"64 checks, of which none comes":   closed[:7],
		"64 strings, of which none comes":  append(encode(t, Message{Body: &Hello{}})[:5+4+2+1+4+4+32+3*2+1], maxItems, 0),
		"a long string that is not there":  append(encode(t, Message{Body: &Get{}})[:9], 0, 0x20),
	} {
		const rounds = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			_, _ = Decode(b)
		}
		runtime.ReadMemStats(&after)
		if per := (after.TotalAlloc - before.TotalAlloc) / rounds; per > uint64(1024+20*len(b)) {
			t.Errorf("%s: %d bytes of input took %d bytes of memory", name, len(b), per)
		}
	}
}

func FuzzDecode(f *testing.F) {
	seeds := bodies(f)
	if len(seeds) == 0 {
		f.Fatal("no seeds")
	}
	for _, b := range seeds {
		f.Add(encode(f, Message{Seq: 1, Body: b}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || m != (Message{}) {
				t.Fatalf("%+v, %v; want the zero message and ErrMalformed", m, err)
			}
			return
		}
		if again, err := Encode(m); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%v\n%s\n%s", err, hex.Dump(b), hex.Dump(again))
		}
	})
}
