package httpapi

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/gateway"
)

// Metrics are the numbers of a daemon, in the text that Prometheus reads. No
// label is a word of a caller's, so that there is a bounded number of series. It
// is safe for concurrent use.
//
// The form is written here and not by Prometheus' own library: that costs every
// start of the command line a millisecond, and a daemon needs six counters.
type Metrics struct {
	load func() gateway.Load
	more func() []assembly.Number

	mu       sync.Mutex // guards what follows
	counters map[string]map[string]float64
	took     map[string]*histogram
}

// NewMetrics returns the numbers of a daemon with a gateway.
func NewMetrics(load func() gateway.Load) *Metrics {
	return &Metrics{load: load, more: func() []assembly.Number { return nil }, counters: map[string]map[string]float64{}, took: map[string]*histogram{}}
}

// Add adds numbers of others', those of one name together. It comes before the
// first reader.
func (m *Metrics) Add(more func() []assembly.Number) { m.more = more }

// family is what is said of a number.
type family struct{ name, kind, help string }

func counterFamilies() []family {
	return []family{
		{"callcell_calls_total", "counter", "Calls that ran, by the level and how they ended."},
		{"callcell_refusals_total", "counter", "Calls that were refused, by the reason."},
		{"callcell_tokens_total", "counter", "Tokens that were charged, of arguments and of results."},
		{"callcell_leftovers_total", "counter", "Calls whose teardown was not complete."},
		{"callcell_http_requests_total", "counter", "Requests, by operation and status."},
	}
}

// add adds to a counter. labels are NAME, value, ...: words of ours.
func (m *Metrics) add(name string, n float64, labels ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.counters[name]
	if of == nil {
		of = map[string]float64{}
		m.counters[name] = of
	}
	of[labelText(labels)] += n
}

func labelText(labels []string) string {
	var parts []string
	for i := 0; i+1 < len(labels); i += 2 {
		parts = append(parts, labels[i]+"="+strconv.Quote(labels[i+1]))
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// A histogram counts times up to each of its bounds, which double from a
// millisecond on.
type histogram struct {
	upTo  [bounds]uint64
	sum   float64
	count uint64
}

const bounds = 17 // the last is 65 s

func (h *histogram) observe(d time.Duration) {
	h.sum += d.Seconds()
	h.count++
	for i := range h.upTo {
		if d <= time.Millisecond<<i {
			h.upTo[i]++
		}
	}
}

// call counts a call that has ended.
func (m *Metrics) call(r *envelope.Result) {
	if r.Teardown != nil && !r.Teardown.Complete {
		m.add("callcell_leftovers_total", 1)
	}
	if r.Refusal != nil {
		m.add("callcell_refusals_total", 1, "reason", r.Refusal.Reason.String())
		return
	}
	m.add("callcell_calls_total", 1, "level", r.Level.String(), "outcome", r.Outcome.String())
	m.add("callcell_tokens_total", float64(r.Usage.ArgumentTokens), "of", "arguments")
	m.add("callcell_tokens_total", float64(r.Usage.ResultTokens), "of", "results")
	m.mu.Lock()
	defer m.mu.Unlock()
	for step, d := range map[string]time.Duration{"setup": r.Usage.Setup, "run": r.Usage.Wall, "all": r.Usage.Total} {
		if m.took[step] == nil {
			m.took[step] = new(histogram)
		}
		m.took[step].observe(d)
	}
}

// request counts an answer. operation is of the table of routes, "" for what is
// none of it.
func (m *Metrics) request(operation string, status int) {
	m.add("callcell_http_requests_total", 1, "operation", operation, "status", strconv.Itoa(status))
}

// MetricsServer returns a server of the numbers at GET /metrics, for whoever can
// reach it: by a name that is the daemon's, and for the pages of no origin.
func (a *API) MetricsServer() *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.Metrics)
	h := a.recovering(a.headers(a.host(originIn(nil, mux))))
	return &http.Server{Handler: h, DisableGeneralOptionsHandler: true, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug)}
}

// ServeHTTP serves the numbers. MetricsServer says to whom.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = io.WriteString(w, m.text()) // who does not read is gone
}

func (m *Metrics) text() string {
	var b strings.Builder
	head := func(f family) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind) }
	load := m.load()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	for _, g := range []struct {
		family
		value uint64
	}{
		{family{"callcell_running", "gauge", "Calls that run now, or whose answer is being taken."}, uint64(load.Running)},
		{family{"callcell_waiting", "gauge", "Calls that wait for their turn now."}, uint64(load.Waiting)},
		{family{"go_goroutines", "gauge", "Goroutines of this process."}, uint64(runtime.NumGoroutine())},
		{family{"go_memstats_heap_inuse_bytes", "gauge", "Memory of this process that is in use."}, memory.HeapInuse},
	} {
		head(g.family)
		fmt.Fprintf(&b, "%s %d\n", g.name, g.value)
	}
	last := ""
	for _, n := range m.more() {
		if n.Name != last {
			head(family{n.Name, n.Kind, n.Help})
		}
		last = n.Name
		fmt.Fprintf(&b, "%s%s %s\n", n.Name, labelText(n.Labels), number(n.Value))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range counterFamilies() {
		head(f)
		for _, labels := range slices.Sorted(maps.Keys(m.counters[f.name])) {
			fmt.Fprintf(&b, "%s%s %s\n", f.name, labels, number(m.counters[f.name][labels]))
		}
	}
	head(family{"callcell_call_seconds", "histogram", "What a call took, by step: setup, run, and all of it."})
	for _, step := range slices.Sorted(maps.Keys(m.took)) {
		m.took[step].write(&b, "callcell_call_seconds", step)
	}
	return b.String()
}

func (h *histogram) write(b *strings.Builder, name, step string) {
	for i, n := range h.upTo {
		fmt.Fprintf(b, "%s_bucket{step=%q,le=%q} %d\n", name, step, number((time.Millisecond << i).Seconds()), n)
	}
	fmt.Fprintf(b, "%s_bucket{step=%q,le=\"+Inf\"} %d\n%s_sum{step=%q} %s\n%s_count{step=%q} %d\n",
		name, step, h.count, name, step, number(h.sum), name, step, h.count)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// counted is a Runner whose calls are counted.
type counted struct {
	Runner
	metrics *Metrics
}

// RunLive implements Runner.
func (c counted) RunLive(ctx context.Context, who broker.Caller, call *envelope.Call, live broker.Live) *envelope.Result {
	r := c.Runner.RunLive(ctx, who, call, live)
	c.metrics.call(r)
	return r
}
