package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/render"
)

// auditCmd is "callcell audit".
type auditCmd struct {
	List   auditListCmd   `cmd:"" help:"List calls, newest first."`
	Show   auditShowCmd   `cmd:"" help:"Show one call in full."`
	Verify auditVerifyCmd `cmd:"" help:"Walk the chain and say where it was changed."`
}

func withLog(a *app, do func(*audit.Log) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	house, err := assembly.OpenLog(a.ctx, cfg)
	if err != nil {
		return err
	}
	if _, err := house.Log.Recover(a.ctx); err != nil {
		fmt.Fprintln(a.err, "callcell: calls of dead processes could not be completed:", err)
	}
	return errors.Join(do(house.Log), house.Close(a.ctx))
}

// auditListCmd is "callcell audit list".
type auditListCmd struct {
	Task    string           `help:"Only calls of this task." placeholder:"ID"`
	Tool    string           `help:"Only calls of this tool." placeholder:"NAME"`
	Outcome envelope.Outcome `help:"Only calls that ended so." placeholder:"OUTCOME"`
	Level   envelope.Level   `help:"Only calls at this level." placeholder:"LEVEL"`
	Since   time.Duration    `help:"Only calls of the last 2h." placeholder:"TIME"`
	Limit   int              `help:"At most so many." default:"20"`
	JSON    bool             `name:"json" help:"Print one JSON object a line."`
}

// Run lists rows.
func (c *auditListCmd) Run(a *app) error {
	return withLog(a, func(log *audit.Log) error {
		f := audit.Filter{Task: c.Task, Tool: c.Tool, Outcome: c.Outcome, Level: c.Level, Limit: c.Limit}
		if c.Since > 0 {
			f.Since = time.Now().Add(-c.Since)
		}
		rows, err := log.List(a.ctx, f)
		if err != nil {
			return err
		}
		for i := range rows {
			if c.JSON {
				if err := a.json(&rows[i]); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintln(a.out, rowLine(&rows[i]))
		}
		return nil
	})
}

// rowLine is one row in a line.
func rowLine(r *audit.Row) string {
	how := "running"
	switch {
	case r.Damaged != "":
		how = "DAMAGED: " + r.Damaged
	case r.Outcome.Valid():
		how = r.Outcome.String()
	case r.Reason.Valid():
		how = "refused: " + r.Reason.String()
	}
	level := "-"
	if r.Level.Valid() {
		level = r.Level.String()
	}
	return fmt.Sprintf("%s  %s  %-10s  %-18s  %s", r.ID, r.Started.Local().Format("2006-01-02 15:04:05"), level,
		render.Line(how, 0), render.Line(strings.TrimSpace(r.Tool+" "+r.Task), 0))
}

// auditShowCmd is "callcell audit show".
type auditShowCmd struct {
	ID string `arg:"" help:"The call's id, or the beginning of it."`
}

// Run shows one row; it is JSON in any case.
func (c *auditShowCmd) Run(a *app) error {
	return withLog(a, func(log *audit.Log) error {
		row, err := log.Row(a.ctx, c.ID)
		if err != nil {
			return err
		}
		a.outTTY = true // for people: indented
		return a.json(&row)
	})
}

// auditVerifyCmd is "callcell audit verify".
type auditVerifyCmd struct {
	Against []string `help:"A receipt kept from a result, as SEQ:HEAD: finds a tail that was cut off." placeholder:"SEQ:HEAD" sep:"none"`
	JSON    bool     `name:"json" help:"Print the report as JSON."`
}

// Run verifies the chain; the exit status is 1 if anything is wrong.
func (c *auditVerifyCmd) Run(a *app) error {
	return withLog(a, func(log *audit.Log) error {
		var o audit.VerifyOptions
		for _, text := range c.Against {
			receipt, err := parseReceipt(text)
			if err != nil {
				return err
			}
			o.Against = append(o.Against, receipt)
		}
		report, err := log.Verify(a.ctx, o)
		if err != nil {
			return err
		}
		if !report.Intact() {
			a.status = 1
		}
		if c.JSON {
			return a.json(&report)
		}
		a.verified(&report)
		return nil
	})
}

func parseReceipt(text string) (r envelope.Receipt, err error) {
	seq, head, ok := strings.Cut(text, ":")
	if _, err := fmt.Sscan(seq, &r.Seq); err != nil || !ok {
		return r, &usageError{fmt.Sprintf("--against %s: not a receipt", text), "SEQ:HEAD, both from a result's receipt"}
	}
	r.Chain, r.Head = audit.DefaultChain, head
	return r, nil
}

func (p *printer) verified(r *audit.VerifyReport) {
	for _, problem := range r.Problems {
		fmt.Fprintf(p.out, "event %d: %s: %s\n", problem.Seq, problem.What, render.Line(problem.Detail, 0))
	}
	if r.More > 0 {
		fmt.Fprintf(p.out, "and %d more\n", r.More)
	}
	word := "intact"
	if !r.Intact() {
		word = "NOT INTACT"
	}
	fmt.Fprintf(p.out, "chain %s: %s: %d events, %d calls, %d open; %s\n", r.Chain, word, r.Events, r.Calls, r.Open, r.Tail)
	if r.Head != nil {
		fmt.Fprintf(p.out, "head %d:%s\n", r.Head.Seq, r.Head.Head)
	}
}
