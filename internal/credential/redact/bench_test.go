package redact

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// BenchmarkWriter compares a Writer with a plain copy, on texts of several
// kinds and for several numbers of values.
func BenchmarkWriter(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	token := func() string { return base64.RawURLEncoding.EncodeToString(noise[random.IntN(1000):][:30]) }
	line := "2026-01-02T03:04:05Z INFO server: request from 192.0.2.1 took 12.5ms, path=\"/v1/items\", status 200\n"
	texts := map[string][]byte{
		"log":    bytes.Repeat([]byte(line), 1<<20/len(line)),
		"json":   bytes.Repeat([]byte(`{"id":12345,"name":"a \"quoted\" name","path":"C:\\dir\\file","url":"https:\/\/x.test\/%20a"},`), 1<<20/97),
		"base64": []byte(base64.StdEncoding.EncodeToString(noise[:3<<18])),
		"noise":  noise,
	}
	b.Run("copy", func(b *testing.B) {
		to := make([]byte, 32<<10)
		b.SetBytes(int64(len(noise)))
		for b.Loop() {
			for rest := noise; len(rest) > 0; rest = rest[copy(to, rest):] {
			}
		}
	})
	for _, n := range []int{1, 8, 32} {
		var pairs []pair
		for i := range n {
			pairs = append(pairs, pair{fmt.Sprint("n", i), token()})
		}
		r := newRedactor(b, pairs...)
		for _, name := range []string{"log", "json", "base64", "noise"} {
			b.Run(fmt.Sprintf("%s/values=%d", name, n), func(b *testing.B) {
				text := texts[name]
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					w := r.Writer(io.Discard)
					for rest := text; len(rest) > 0; {
						piece := rest[:min(len(rest), 32<<10)]
						rest = rest[len(piece):]
						if _, err := w.Write(piece); err != nil {
							b.Fatal(err)
						}
					}
					if err := w.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for _, size := range []int{40, 4096, 64 << 10} {
		value := make([]byte, size)
		for i := range value {
			value[i] = byte(rand.Uint32())
		}
		s := newSecret(b, string(value))
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for b.Loop() {
				r, err := New([]Value{{"a", s}})
				if err != nil {
					b.Fatal(err)
				}
				r.Destroy()
			}
		})
	}
}
