package envelope

import (
	"strings"
	"testing"
)

// What every call pays before anything runs.
func BenchmarkNarrow(b *testing.B) {
	p := full()
	r := Request{Trust: ptr(TrustHostile), Resources: &ResourcesRequest{Wall: ptr(Duration(1e9))}}
	for b.Loop() {
		if _, err := Narrow(p, &r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	e := full()
	for b.Loop() {
		e.Digest()
	}
}

func BenchmarkDecodeCall(b *testing.B) {
	for name, data := range map[string]string{
		"small": `{"tool":"shell","task":"t1","argv":["ls","-l","--","a b"],"request":{"trust":"hostile","resources":{"wall":"5s"}}}`,
		"16MiB": `{"argv":["cat"],"stdin":"` + strings.Repeat("AAAA", 4<<20) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := DecodeCall([]byte(data)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValidateDefault(b *testing.B) {
	e := Default()
	for b.Loop() {
		if err := e.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}
