package inside_test

import (
	"io"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/guest"
)

// BenchmarkCall is a call of a guest in a sandbox, step by step.
func BenchmarkCall(b *testing.B) {
	r := build(b)
	for name, make := range map[string]func(testing.TB, root) place{"host": onHost, "gvisor": inSandbox} {
		b.Run(name, func(b *testing.B) {
			p := make(b, r)
			var steps [4]time.Duration
			for b.Loop() {
				began := time.Now()
				lap := func(i int) {
					now := time.Now()
					steps[i] += now.Sub(began)
					began = now
				}
				s := p.stand(b)
				lap(0)
				must(b, s.Prepare(s.ctx, guest.Place{Scratch: 64 << 20, Inodes: 1024, Ports: []uint16{443}}))
				lap(1)
				s.exec(guest.Command{}, "exit", "0")
				lap(2)
				_ = s.Close()
				s.ended <- <-s.ended
				lap(3)
			}
			for i, name := range []string{"hello", "prepare", "exec", "close"} {
				b.ReportMetric(float64(steps[i].Microseconds())/1e3/float64(b.N), name+"-ms")
			}
		})
	}
}

// BenchmarkTunnel is how fast a program loads and sends through the channel.
func BenchmarkTunnel(b *testing.B) {
	r := build(b)
	for name, make := range map[string]func(testing.TB, root) place{"host": onHost, "gvisor": inSandbox} {
		b.Run(name, func(b *testing.B) {
			p := make(b, r)
			const size = 64 << 20
			for b.Loop() {
				s := p.prepared(b, guest.Place{Ports: []uint16{443}})
				go func() {
					c, err := s.Tunnels().Accept(s.ctx)
					if err != nil {
						return
					}
					began := time.Now()
					n, _ := io.Copy(io.Discard, c)
					b.ReportMetric(float64(n)/1e6/time.Since(began).Seconds(), "up-MB/s")
					began = time.Now()
					n, _ = io.CopyN(struct{ io.Writer }{c}, zeros{}, size)
					_ = c.CloseWrite()
					b.ReportMetric(float64(n)/1e6/time.Since(began).Seconds(), "down-MB/s")
					_ = c.Close()
				}()
				if _, out, _ := s.probe("load", "127.0.0.1:443", "67108864"); out != "67108864\n" {
					b.Fatal(out)
				}
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
