package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/render"
)

// moment is a time on the command line, see audit.ParseTime.
type moment struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) (err error) {
	m.Time, err = audit.ParseTime(string(text), time.Now())
	return err
}

// rowFlags select rows.
type rowFlags struct {
	Task    string           `help:"Only calls of this task." placeholder:"ID"`
	Key     string           `help:"Only calls of this key." placeholder:"ID" xor:"key"`
	Caller  string           `help:"Only calls of this caller, as a row has it." placeholder:"NAME" xor:"key"`
	Team    string           `help:"Only calls of this team." placeholder:"NAME"`
	Tool    string           `help:"Only calls of this tool." placeholder:"NAME"`
	Host    string           `help:"Only calls that tried to reach this host." placeholder:"HOST"`
	Outcome envelope.Outcome `help:"Only calls that ended so." placeholder:"OUTCOME"`
	Refusal envelope.Reason  `help:"Only calls that were refused for this reason." placeholder:"REASON" aliases:"reason"`
	Level   envelope.Level   `help:"Only calls at this level." placeholder:"LEVEL"`
	Open    bool             `help:"Only calls that have not ended."`
	Since   moment           `help:"Only calls of the last 2h, or since a day or time." placeholder:"TIME"`
	Until   moment           `help:"Only calls from before: as --since." placeholder:"TIME"`
}

func (c *rowFlags) filter() audit.Filter {
	f := audit.Filter{
		Task: c.Task, Caller: c.Caller, Team: c.Team, Tool: c.Tool, Host: strings.ToLower(c.Host), Outcome: c.Outcome,
		Reason: c.Refusal, Level: c.Level, Open: c.Open, Since: c.Since.Time, Until: c.Until.Time,
	}
	if c.Key != "" {
		f.Caller = "key:" + strings.TrimPrefix(c.Key, "key:")
	}
	return f
}

// auditListCmd is "callcell audit list".
type auditListCmd struct {
	rowFlags
	Before string `help:"Go on from here: the last id of the page before." placeholder:"ID"`
	Limit  int    `help:"At most so many, up to 1000." default:"20"`
	JSON   bool   `name:"json" help:"Print one JSON object a line."`
}

// Help is the long text of "callcell audit list --help".
func (*auditListCmd) Help() string {
	return `A line has the id, when it began, the level, how it ended, the tool and the task:

  callcell audit list --task build-42 --since 24h
  callcell audit list --host api.example.com --since 2026-11-01 --until 2026-12-01
  callcell audit list --refusal policy --json`
}

// Run lists rows.
func (c *auditListCmd) Run(a *app) error {
	f := c.filter()
	f.Before, f.Limit = c.Before, c.Limit
	rows, err := a.rows(f)
	if err != nil {
		return err
	}
	for i := range rows {
		if err := a.row(&rows[i], c.JSON); err != nil {
			return err
		}
	}
	if len(rows) == 0 && !c.JSON {
		a.say("no such calls")
	}
	return nil
}

// rows lists rows: the daemon's, where the configuration names one.
func (a *app) rows(f audit.Filter) (rows []audit.Row, err error) {
	d, err := a.keeper(a.grammar.Audit.hereFlag)
	switch {
	case err != nil:
		return nil, err
	case d != nil:
		rows, err = d.rows(a.ctx, f)
		return rows, logFailure(err)
	}
	err = withLog(a, func(log *audit.Log) (err error) {
		rows, err = log.List(a.ctx, f)
		return err
	})
	return rows, err
}

// oneRow finds a row by the beginning of its id, as rows does.
func (a *app) oneRow(here hereFlag, prefix string) (row audit.Row, err error) {
	d, err := a.keeper(here)
	switch {
	case err != nil:
		return row, err
	case d != nil:
		row, err = d.row(a.ctx, prefix)
		return row, logFailure(err)
	}
	err = withLogOf(a, here, func(log *audit.Log) (err error) {
		row, err = log.Row(a.ctx, prefix)
		return err
	})
	return row, err
}

// row prints one row in a line.
func (p *printer) row(r *audit.Row, asJSON bool) error {
	if asJSON {
		return p.json(r, false)
	}
	_, err := fmt.Fprintln(p.out, rowLine(r))
	return err
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
	what := strings.TrimSpace(r.Tool + " " + r.Task)
	if r.Erased != 0 {
		what = fmt.Sprintf("(erased, event %d)", r.Erased)
	}
	return fmt.Sprintf("%s  %-19s  %-10s  %-20s  %s", render.Line(r.ID, 0), started, level,
		render.Line(how, 0), render.Line(what, 0))
}

// auditShowCmd is "callcell audit show".
type auditShowCmd struct {
	ID   string `arg:"" help:"The call's id, or the beginning of it."`
	JSON bool   `name:"json" help:"Print it on one line; it is JSON in any case."`
}

// Help is the long text of "callcell audit show --help".
func (*auditShowCmd) Help() string {
	return `Prints the row as JSON: who called, with what arguments, the envelope that was in force, the
level and why, how it ended, what it used, and what was looked for when it was destroyed.
Exit status 1 where there is no such call.

  callcell audit show 01a229ca
  callcell audit show 01a229ca --json | jq .intent.envelope`
}

// Run shows one row, as JSON, which is indented for people.
func (c *auditShowCmd) Run(a *app) error {
	row, err := a.oneRow(a.grammar.Audit.hereFlag, c.ID)
	if err != nil {
		return err
	}
	return a.json(&row, !c.JSON)
}
