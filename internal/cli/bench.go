package cli

import (
	"fmt"
	"os"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/bench"
)

// benchCmd is "callcell bench".
type benchCmd struct {
	Runs    int      `short:"n" help:"Counted runs of each." default:"100"`
	Clients int      `help:"Also measure runs a second with so many at once; 0: do not." default:"4"`
	Seconds float64  `help:"How long each rate is measured." default:"3"`
	JSON    bool     `name:"json" help:"Print it as JSON."`
	Argv    []string `arg:"" optional:"" passthrough:"" help:"Your own command; /usr/bin/true by default."`
}

// Help is the long text of "callcell bench --help".
func (*benchCmd) Help() string {
	return `Runs one command in turn in each way that this host has, and prints how long each took from
nothing to nothing: a cell by itself, the whole call with its durable row, the callcell command
with all its processes, and what is installed to compare with. Compare the ratios.`
}

// Run measures and prints.
func (c *benchCmd) Run(a *app) error {
	argv := c.Argv
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		argv = []string{"/usr/bin/true"}
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	env := envelope.Default()
	env.Trust, env.Level = envelope.TrustReviewed, envelope.LevelContainer
	house, err := assembly.Open(a.ctx, assembly.Start(cfg), assembly.Options{Config: cfg, Local: &env})
	if err != nil {
		return err
	}
	defer house.Close(a.ctx)
	peers, clean, err := bench.Peers(argv)
	defer clean()
	if err != nil {
		return err
	}
	subjects := append([]bench.Subject{bench.Bare(argv)}, house.Subjects(env, argv)...)
	if self, err := os.Executable(); err == nil {
		whole := []string{self, "run", "--trust", "reviewed", "--level", "container", "--tool", "bench", "--"}
		if cfg.File() != "" {
			whole = append([]string{self, "--config", cfg.File()}, whole[1:]...)
		}
		subjects = append(subjects, bench.Command("callcell run", "the command, all its processes", append(whole, argv...)...))
	}
	return c.measure(a, append(subjects, peers...))
}

func (c *benchCmd) measure(a *app, subjects []bench.Subject) error {
	o := bench.Options{Runs: c.Runs, Warm: 3, Clients: c.Clients, Seconds: c.Seconds, Baseline: "bare exec"}
	for _, s := range subjects {
		if s.Name == "bwrap" {
			o.Baseline = s.Name
		}
	}
	if a.errTTY {
		o.Progress = func(done, of int) { fmt.Fprintf(a.err, "\r%d of %d rounds", done, of) }
		defer fmt.Fprintln(a.err)
	}
	rows, err := bench.Measure(a.ctx, subjects, o)
	if err != nil {
		return err
	}
	if c.JSON {
		return a.json(rows)
	}
	for _, r := range rows {
		fmt.Fprintf(a.out, "  %-16s %s\n", r.Name, r.What)
	}
	return bench.Print(a.out, rows, o.Baseline)
}
