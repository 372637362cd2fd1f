package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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

// Help is the long text of "callcell audit --help".
func (*auditCmd) Help() string {
	return `Every call has a row, refused ones too: its intent was durable before anything ran. The rows
stand in a chain of hashes, in the state directory (callcell config says where).`
}

// withLog opens the log for one command. Calls whose process has died without
// a word are completed as lost before it looks.
func withLog(a *app, do func(*audit.Log) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	house, err := assembly.OpenLog(a.ctx, cfg)
	if err != nil {
		return logFailure(err)
	}
	if _, err := house.Log.Recover(a.ctx); err != nil {
		a.say("calls of dead processes could not be completed: " + flat(err))
	}
	err = do(house.Log)
	ctx, cancel := context.WithTimeout(a.ctx, leaveTime)
	defer cancel()
	if failed := house.Close(ctx); failed != nil {
		a.say(flat(failed))
	}
	return logFailure(err)
}

// logFailure gives the errors of the log that a user can mend their status and
// hint.
func logFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, audit.ErrNotFound):
		return &failure{exitNo, flat(err), "callcell audit list shows the ids there are"}
	case errors.Is(err, audit.ErrAmbiguous):
		return usage(flat(err), "write more of the id")
	case errors.Is(err, audit.ErrInvalid), errors.Is(err, audit.ErrReceipt):
		return usage(flat(err), hintOfLog(err))
	case errors.Is(err, audit.ErrCorrupt):
		return &failure{exitNo, flat(err), hintOfLog(err)}
	}
	return err
}

func hintOfLog(err error) string {
	var unopened *assembly.LogError
	switch {
	case errors.As(err, &unopened):
		return unopened.Refusal().Hint
	case errors.Is(err, audit.ErrReceipt):
		return "SEQ:HEAD, both from a result's receipt"
	case errors.Is(err, audit.ErrCorrupt):
		return "callcell audit verify says where"
	case errors.Is(err, audit.ErrUnwritable):
		return "see that the state directory can be written and has room"
	}
	return ""
}

// auditListCmd is "callcell audit list".
type auditListCmd struct {
	Task    string           `help:"Only calls of this task." placeholder:"ID"`
	Tool    string           `help:"Only calls of this tool." placeholder:"NAME"`
	Outcome envelope.Outcome `help:"Only calls that ended so." placeholder:"OUTCOME"`
	Level   envelope.Level   `help:"Only calls at this level." placeholder:"LEVEL"`
	Since   time.Duration    `help:"Only calls of the last 2h." placeholder:"TIME"`
	Limit   int              `help:"At most so many, up to 1000." default:"20"`
	JSON    bool             `name:"json" help:"Print one JSON object a line."`
}

// Help is the long text of "callcell audit list --help".
func (*auditListCmd) Help() string {
	return `A line has the id, when it began, the level, how it ended, the tool and the task:

  callcell audit list --task build-42 --since 24h
  callcell audit list --outcome memory --json`
}

// Run lists rows.
func (c *auditListCmd) Run(a *app) error {
	f := audit.Filter{Task: c.Task, Tool: c.Tool, Outcome: c.Outcome, Level: c.Level, Limit: c.Limit}
	if c.Since > 0 {
		f.Since = time.Now().Add(-c.Since)
	}
	return withLog(a, func(log *audit.Log) error {
		rows, err := log.List(a.ctx, f)
		if err != nil {
			return err
		}
		for i := range rows {
			if c.JSON {
				err = a.json(&rows[i], false)
			} else {
				_, err = fmt.Fprintln(a.out, rowLine(&rows[i]))
			}
			if err != nil {
				return err
			}
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
	level, started := "-", "-"
	if r.Level.Valid() {
		level = r.Level.String()
	}
	if !r.Started.IsZero() {
		started = r.Started.Local().Format("2006-01-02 15:04:05")
	}
	return fmt.Sprintf("%s  %-19s  %-10s  %-20s  %s", render.Line(r.ID, 0), started, level,
		render.Line(how, 0), render.Line(strings.TrimSpace(r.Tool+" "+r.Task), 0))
}

// auditShowCmd is "callcell audit show".
type auditShowCmd struct {
	ID string `arg:"" help:"The call's id, or the beginning of it."`
}

// Help is the long text of "callcell audit show --help".
func (*auditShowCmd) Help() string {
	return `Prints the row as JSON: who called, with what arguments, the envelope that was in force, the
level and why, how it ended, what it used, and what was looked for when it was destroyed.
Exit status 1 where there is no such call.`
}

// Run shows one row; it is JSON in any case, for people: indented.
func (c *auditShowCmd) Run(a *app) error {
	return withLog(a, func(log *audit.Log) error {
		row, err := log.Row(a.ctx, c.ID)
		if err != nil {
			return err
		}
		return a.json(&row, true)
	})
}

// auditVerifyCmd is "callcell audit verify".
type auditVerifyCmd struct {
	Against []string `help:"A receipt kept from a result, as SEQ:HEAD: finds a tail that was cut off." placeholder:"SEQ:HEAD" sep:"none"`
	JSON    bool     `name:"json" help:"Print the report as JSON."`
}

// Help is the long text of "callcell audit verify --help".
func (*auditVerifyCmd) Help() string {
	return `Finds any event that was edited, removed, added or moved, and says where. Who holds the
store can cut off its end, or write all of it anew; a receipt that you kept elsewhere
(run --json: receipt.seq and receipt.head) finds that too:

  callcell audit verify --against 42:3f9a...

Exit status 1 where the chain is not intact.`
}

// Run verifies the chain; the exit status is 1 if anything is wrong.
func (c *auditVerifyCmd) Run(a *app) error {
	var o audit.VerifyOptions
	for _, text := range c.Against {
		receipt, err := parseReceipt(text)
		if err != nil {
			return err
		}
		o.Against = append(o.Against, receipt)
	}
	return withLog(a, func(log *audit.Log) error {
		report, err := log.Verify(a.ctx, o)
		if err != nil {
			return err
		}
		if !report.Intact() {
			a.status = exitNo
		}
		if c.JSON {
			return a.json(&report, a.outTTY)
		}
		return a.verified(&report)
	})
}

func parseReceipt(text string) (envelope.Receipt, error) {
	number, head, _ := strings.Cut(text, ":")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || head == "" {
		return envelope.Receipt{}, usage(fmt.Sprintf("--against %s: not a receipt", text), hintOfLog(audit.ErrReceipt))
	}
	return envelope.Receipt{Chain: audit.DefaultChain, Seq: seq, Head: head}, nil
}

func (p *printer) verified(r *audit.VerifyReport) error {
	var text strings.Builder
	for _, problem := range r.Problems {
		fmt.Fprintf(&text, "event %d: %s: %s\n", problem.Seq, problem.What, render.Line(problem.Detail, 0))
	}
	if r.More > 0 {
		fmt.Fprintf(&text, "and %d more\n", r.More)
	}
	word := "intact"
	if !r.Intact() {
		word = "NOT INTACT"
	}
	fmt.Fprintf(&text, "chain %s: %s: %d events, %d calls, %d open; %s\n", r.Chain, word, r.Events, r.Calls, r.Open, r.Tail)
	if r.Head != nil {
		fmt.Fprintf(&text, "head %d:%s\n", r.Head.Seq, r.Head.Head)
	}
	_, err := fmt.Fprint(p.out, text.String())
	return err
}
