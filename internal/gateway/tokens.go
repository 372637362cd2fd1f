package gateway

import (
	"fmt"

	"github.com/callcell/callcell/envelope"
)

// Counter counts tokens. It is called concurrently.
type Counter interface {
	// Count returns how many tokens a text has. It is never more than the
	// text has bytes. Where there are more than most, it may return any number
	// above most.
	Count(text []byte, most int64) int64
}

// manyTokens is more than any budget.
const manyTokens = 1 << 40

// arguments counts what a model wrote for a call.
func (g *Gateway) arguments(c *envelope.Call) (n int64) {
	add := func(text string) { n += g.counter.Count([]byte(text), manyTokens) }
	for _, arg := range c.Argv {
		add(arg)
	}
	if c.Script != nil {
		add(c.Script.Code)
	}
	if c.Fetch != nil {
		add(c.Fetch.URL)
	}
	for name, value := range c.Env {
		add(name)
		add(value)
	}
	return n + g.counter.Count(c.Stdin, manyTokens)
}

// worst is the most tokens that the result of a call may have: what it asks
// for, and never more than its bytes.
func (g *Gateway) worst(c *envelope.Call, e *envelope.Envelope) int64 {
	most := int64(c.MaxTokens)
	if most == 0 {
		most = int64(g.limits.MaxTokens)
	}
	if c.Fetch == nil {
		return min(most, 2*int64(e.Resources.Output.Keep))
	}
	if c.Fetch.Bytes > 0 {
		return min(most, int64(c.Fetch.Bytes))
	}
	return most
}

// trim cuts a result to most tokens and returns how many it has. The end of
// what came is worth as much as its beginning, stderr as much as stdout: each
// part gets an equal share, and what one leaves is for the next.
func (g *Gateway) trim(r *envelope.Result, most int64) (n int64) {
	parts := []*envelope.Data{&r.Stderr.Tail, &r.Stdout.Tail, &r.Stderr.Head, &r.Stdout.Head}
	if r.Fetched != nil {
		parts = append(parts, &r.Fetched.Body)
	}
	counts := make([]int64, len(parts))
	for i, p := range parts {
		counts[i] = g.counter.Count(*p, most)
		n += counts[i]
	}
	if n <= most {
		return n
	}
	n = 0
	for share, i := range bySize(counts) {
		n += g.cut(parts[i], counts[i], (most-n)/int64(len(parts)-share))
	}
	r.Stdout.Truncated = r.Stdout.Truncated || int64(len(r.Stdout.Head)+len(r.Stdout.Tail)) < r.Stdout.Total
	r.Stderr.Truncated = r.Stderr.Truncated || int64(len(r.Stderr.Head)+len(r.Stderr.Tail)) < r.Stderr.Total
	if r.Fetched != nil {
		r.Fetched.Cut = r.Fetched.Cut || counts[len(counts)-1] > g.counter.Count(r.Fetched.Body, most)
	}
	r.Warnings = append(r.Warnings, fmt.Sprintf("maxTokens: the result was cut to %d tokens", most))
	return n
}

// bySize returns the indices of counts, smallest first: what a small part
// leaves of its share is for the larger ones.
func bySize(counts []int64) []int {
	order := make([]int, len(counts))
	for i := range order {
		order[i] = i
		for j := i; j > 0 && counts[order[j]] < counts[order[j-1]]; j-- {
			order[j], order[j-1] = order[j-1], order[j]
		}
	}
	return order
}

// cut shortens a part that has n tokens to at most most, and returns how many
// it has then.
func (g *Gateway) cut(part *envelope.Data, n, most int64) int64 {
	text := *part
	for n > most {
		keep := int64(len(text)) * most / n
		if keep >= int64(len(text)) {
			keep = int64(len(text)) - 1
		}
		text = text[:max(keep, 0)]
		n = g.counter.Count(text, manyTokens)
	}
	*part = text
	return n
}
