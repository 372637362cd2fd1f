//go:build unix

package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
)

// A line is a connection that is kept, for one request after another: the
// goroutine that asks writes the request and reads the answer, as most clients
// do. Those of net/http's Transport hand both over to two more.
type line struct {
	c net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

func newLine(b *testing.B, base string) *line {
	b.Helper()
	u, err := url.Parse(base)
	if err != nil {
		b.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return &line{c, bufio.NewReader(c), bufio.NewWriter(c)}
}

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := errors.Join(r.Write(l.w), l.w.Flush()); err != nil {
		return nil, err
	}
	return http.ReadResponse(l.r, r)
}

// A way is one of the ways to make a call.
type way struct {
	name string
	call func(i int) error
}

// BenchmarkAgainstRun makes one call after another, each round in another order:
// by the broker alone, as callcell.Run does, metered, and over HTTP, client and
// all, by net/http's Transport and by a line. What the machine does meanwhile
// meets all of them, and so does what the way before leaves behind, such as
// threads that are still awake. Beside them is what net/http costs by itself: echo
// answers with as many bytes as a result has, and bare makes the same call,
// metered, before it does so.
func BenchmarkAgainstRun(b *testing.B) {
	s := newBench(b)
	ways := s.ways(b)
	took := make([][]time.Duration, len(ways))
	order := rand.New(rand.NewPCG(1, 2)) // the same in each run
	for i := -1; i < b.N; i++ {
		if i == 0 { // what is loaded once is
			b.ResetTimer()
		}
		for _, w := range order.Perm(len(ways)) {
			at := time.Now()
			if err := ways[w].call(4 * i); err != nil { // four ways share a task
				b.Fatalf("%s %d: %v", ways[w].name, i, err)
			}
			if i >= 0 {
				took[w] = append(took[w], time.Since(at))
			}
		}
	}
	b.StopTimer()
	p50 := map[string]float64{}
	for w := range ways {
		slices.Sort(took[w])
		p50[ways[w].name] = float64(took[w][len(took[w])/2].Microseconds())
		b.ReportMetric(p50[ways[w].name], ways[w].name+"-p50-us")
		b.ReportMetric(float64(took[w][len(took[w])*99/100].Microseconds()), ways[w].name+"-p99-us")
	}
	b.ReportMetric(p50["http"]/p50["run"], "http/run")
	b.ReportMetric(p50["line"]/p50["run"], "line/run")
}

func (s *benchStand) ways(b *testing.B) []way {
	run := func(who broker.Caller) func(i int) error {
		return func(i int) error { return ran(s.broker.Run(context.Background(), who, benchCall(i)), nil) }
	}
	byLine, err := client.New(s.base, s.secret)
	if err != nil {
		b.Fatal(err)
	}
	byLine.HTTP.Transport = newLine(b, s.base)
	over := func(c *client.Client) func(i int) error {
		return func(i int) error { return ran(c.Run(context.Background(), benchCall(i))) }
	}
	echo, bare := s.floors(b)
	return []way{{"run", run(broker.Caller{Name: "local"})}, {"metered", run(s.who)}, {"http", over(s.client)}, {"line", over(byLine)},
		{"echo", echo}, {"bare", bare}}
}

func ran(r *envelope.Result, err error) error {
	if err == nil && !r.OK() {
		err = fmt.Errorf("%v %v", r.Outcome, r.Refusal)
	}
	return err
}

// floors are the ways that have nothing of ours about the call.
func (s *benchStand) floors(b *testing.B) (echo, bare func(i int) error) {
	answer, err := json.Marshal(s.broker.Run(context.Background(), broker.Caller{Name: "local"}, benchCall(0)))
	if err != nil {
		b.Fatal(err)
	}
	serve := func(call func(i int) error) func(i int) error {
		var now int // the call under way: the connection orders it
		c := &http.Client{Transport: newLine(b, "http://"+echoServer(b, answer, func() error { return call(now) }))}
		return func(i int) error {
			now = i
			text, err := json.Marshal(benchCall(i))
			if err != nil {
				return err
			}
			resp, err := c.Post("http://callcell.test", "application/json", bytes.NewReader(text))
			if err != nil {
				return err
			}
			body, err := io.ReadAll(resp.Body)
			if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Equal(body, answer)) {
				err = fmt.Errorf("%s %.100s", resp.Status, body)
			}
			return errors.Join(err, resp.Body.Close())
		}
	}
	metered := func(i int) error { return ran(s.broker.Run(context.Background(), s.who, benchCall(i)), nil) }
	return serve(func(int) error { return nil }), serve(metered)
}

// echoServer serves answer to whatever comes, after call.
func echoServer(b *testing.B, answer []byte, call func() error) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		if err = errors.Join(err, call()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})}
	go server.Serve(l)
	b.Cleanup(func() { server.Close() })
	return l.Addr().String()
}
