package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/bench"
	"github.com/callcell/callcell/internal/config"
)

// benchCmd is "callcell bench".
type benchCmd struct {
	Runs    int     `short:"n" help:"Counted runs of each." default:"100"`
	Clients int     `help:"Also measure runs a second with so many at once; 0: do not." default:"4"`
	Seconds float64 `help:"How long each rate is measured." default:"3"`
	JSON    bool    `name:"json" help:"Print it as JSON."`
}

// Help is the long text of "callcell bench --help".
func (*benchCmd) Help() string {
	return `Runs one command in turn in each way that this host has, and prints how long each took from
nothing to nothing: a cell by itself, the whole call with its durable row, the callcell command
with all its processes, and what is installed to compare with. Compare the ratios. What an
empty call costs at each level is kept in the state directory, for placement.

  callcell bench
  callcell bench -n 50 --clients 0 -- python3 -c pass`
}

// Run measures and prints.
func (c *benchCmd) Run(a *app) error {
	if c.Runs < 1 || c.Clients < 0 || c.Seconds <= 0 {
		return usage("-n and --seconds are more than 0, --clients is not less", "callcell bench -n 50 --clients 0")
	}
	argv := a.command
	if len(argv) == 0 {
		argv = []string{"/usr/bin/true"}
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	env := envelope.Default()
	env.Trust, env.Level = envelope.TrustReviewed, envelope.LevelContainer
	house, err := assembly.Open(a.ctx, assembly.Start(cfg), assembly.Options{Config: cfg, Local: &env, Watch: &watch{p: &a.printer}})
	if err != nil {
		return err
	}
	ctx, stop := a.interruptible()
	defer stop()
	defer func() {
		if err := house.Close(context.WithoutCancel(ctx)); err != nil {
			a.say(flat(err))
		}
	}()
	peers, clean, err := bench.Peers(argv)
	defer clean()
	if err != nil {
		return err
	}
	subjects := append([]bench.Subject{bench.Bare(argv)}, house.Subjects(env, argv)...)
	return c.measure(ctx, a, cfg, append(append(subjects, whole(cfg, argv)...), peers...))
}

// whole is the command itself, with all its processes.
func whole(cfg *config.Config, argv []string) []bench.Subject {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	line := []string{self}
	if cfg.File() != "" {
		line = append(line, "--config", cfg.File())
	}
	line = append(line, "run", "--trust", "reviewed", "--level", "container", "--tool", "bench", "--")
	return []bench.Subject{bench.Command("callcell run", "the command, all its processes", append(line, argv...)...)}
}

// show measures, and shows how far that is.
func (c *benchCmd) show(ctx context.Context, a *app, subjects []bench.Subject, o bench.Options) ([]bench.Row, error) {
	if a.errTTY {
		o.Progress = func(done, of int) { fmt.Fprintf(a.err, "\r%d of %d rounds", done, of) }
		defer fmt.Fprintln(a.err)
		return bench.Measure(ctx, subjects, o)
	}
	var rounds walked
	o.Progress = func(done, of int) { rounds.set(int64(done), int64(of)) }
	defer a.meanwhile("bench", c.JSON, rounds.now("rounds"))()
	return bench.Measure(ctx, subjects, o)
}

func (c *benchCmd) measure(ctx context.Context, a *app, cfg *config.Config, subjects []bench.Subject) error {
	o := bench.Options{Runs: c.Runs, Warm: 3, Clients: c.Clients, Seconds: c.Seconds, Baseline: "bare exec"}
	for _, s := range subjects {
		if s.Name == "bwrap" {
			o.Baseline = s.Name
		}
	}
	rows, err := c.show(ctx, a, subjects, o)
	if err != nil {
		return orCancelled(ctx, err)
	}
	if len(a.command) == 0 { // an empty call: placement goes by it
		if err := bench.TableOf(rows, time.Now()).Save(cfg.State); err != nil {
			a.say(flat(err))
		}
	}
	if c.JSON {
		return a.json(rows, a.outTTY)
	}
	for _, r := range rows {
		fmt.Fprintf(a.out, "  %-16s %s\n", r.Name, r.What)
	}
	return bench.Print(a.out, rows, o.Baseline)
}
