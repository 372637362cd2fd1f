package cli_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
)

// A crowd makes calls with idempotency keys, each of a task of its own, over the
// lives of several daemons.
type crowd struct {
	t    *testing.T
	mu   sync.Mutex
	made int
	sent []string          // keys, in order
	got  map[string]string // key -> the answer that was acknowledged, as JSON
}

// once makes the call of a key. The answer is what is compared: all of it but
// what the daemon says of a call that died with it.
func (c *crowd) once(to *client.Client, key string) (answer string, err error) {
	r, err := to.Run(c.t.Context(), &envelope.Call{Task: key, Argv: []string{"sh", "-c", "echo " + key}}, client.Once(key))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(r)
	return string(text), err
}

// rush makes calls, six at a time, until the daemon is gone or enough are made.
func (c *crowd) rush(address, secret string, most int, answered func(n int64)) {
	to := connect(c.t, address, secret)
	defer to.HTTP.CloseIdleConnections()
	var n atomic.Int64
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for range most / 6 {
				c.mu.Lock()
				c.made++
				key := fmt.Sprintf("once-%d", c.made)
				c.sent = append(c.sent, key)
				c.mu.Unlock()
				answer, err := c.once(to, key)
				if err != nil {
					continue // the daemon is gone, or has no turn
				}
				c.mu.Lock()
				c.got[key] = answer
				c.mu.Unlock()
				answered(n.Add(1))
			}
		})
	}
	all.Wait()
}

// again makes every call of a round once more: what was acknowledged is
// answered the same, and of the rest each has an answer now.
func (c *crowd) again(address, secret string, from int) (lost int) {
	to := connect(c.t, address, secret)
	defer to.HTTP.CloseIdleConnections()
	for _, key := range c.sent[from:] {
		answer, err := c.once(to, key)
		if err != nil {
			c.t.Errorf("%s: %v", key, err)
			continue
		}
		if was := c.got[key]; was != "" && was != answer {
			c.t.Errorf("%s was answered with\n%s\nand now with\n%s", key, was, answer)
		}
		if strings.Contains(answer, `"outcome":"lost"`) {
			lost++
		}
		c.got[key] = answer
	}
	return lost
}

func connect(t *testing.T, address, secret string) *client.Client {
	t.Helper()
	to, err := client.New(address, secret)
	if err != nil {
		t.Fatal(err)
	}
	to.HTTP.Transport = &http.Transport{MaxIdleConnsPerHost: 8}
	return to
}

// TestOnceOverKills kills a daemon under load, again and again. No call of an
// idempotency key runs twice, whatever its daemon was at when it died; what was
// acknowledged is answered the same by the next; a call that died is lost.
func TestOnceOverKills(t *testing.T) {
	rounds := 5
	if os.Getenv("CALLCELL_LONG") != "" {
		rounds = 50
	}
	bin := binaries(t)
	conf, state := stand(t)
	reviewed(t, conf)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	secret := secretOf(t, bin, conf, "call")
	c := &crowd{t: t, got: map[string]string{}}
	lost := 0
	for range rounds {
		from, victim := len(c.sent), int64(1+rng.IntN(40))
		d := startDaemon(t, bin, conf)
		c.rush(d.address, secret, 60, func(n int64) {
			if n == victim {
				_ = d.cmd.Process.Kill() // it may have been killed
			}
		})
		_ = d.end(syscall.SIGKILL)
		next := startDaemon(t, bin, conf)
		lost += c.again(next.address, secret, from)
		if err := next.end(syscall.SIGTERM); err != nil {
			t.Errorf("%v\n%s", err, strings.Join(next.log, "\n"))
		}
	}
	t.Logf("%d calls, %d of them lost", len(c.sent), lost)
	checkOnce(t, state, c)
}

// checkOnce holds the rows to what was answered: of each key one call has run,
// and it is the one of the answer.
func checkOnce(t *testing.T, state string, c *crowd) {
	t.Helper()
	log := aDayLater(t, state).log
	for _, key := range c.sent {
		rows, err := log.List(t.Context(), audit.Filter{Task: key})
		if err != nil {
			t.Fatal(err)
		}
		var ran []audit.Row
		for _, row := range rows {
			if row.Refused == nil {
				ran = append(ran, row)
			}
		}
		var r envelope.Result
		if c.got[key] != "" {
			err = json.Unmarshal([]byte(c.got[key]), &r)
		}
		if err != nil || len(ran) != 1 || ran[0].ID != r.ID || ran[0].Outcome != r.Outcome {
			t.Errorf("%s: %d calls have run, the answer is of %s %s, %v", key, len(ran), r.ID, r.Outcome, err)
		}
	}
}
