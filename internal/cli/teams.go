package cli

import (
	"context"
	"encoding/csv"
	"fmt"
	"strconv"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/gateway"
)

// teamCmd is "callcell team".
type teamCmd struct {
	Create teamCreateCmd `cmd:"" help:"Add a team."`
	List   teamListCmd   `cmd:"" help:"List teams."`
	Set    teamSetCmd    `cmd:"" help:"Change a team's tier or budget, or suspend it."`
}

// Help is the long text of "callcell team --help".
func (*teamCmd) Help() string {
	return `A team pays for its keys: its tier and budget are theirs together.

  callcell team create ops --tier pro
  callcell key create --team ops
  callcell usage --team ops`
}

// teamCreateCmd is "callcell team create".
type teamCreateCmd struct {
	Name   string         `arg:"" help:"Its name: a-z, 0-9, - and _."`
	Tier   string         `help:"What it gets: a tier of the configuration. Default: free." placeholder:"TIER"`
	Tokens envelope.Count `help:"Tokens a month, instead of the tier's." placeholder:"N"`
	JSON   bool           `name:"json" help:"Print the team as JSON."`
}

// Help is the long text of "callcell team create --help".
func (*teamCreateCmd) Help() string {
	return `callcell config prints what each tier gets (gateway.tiers).

  callcell team create ops --tier pro
  callcell team create trial --tokens 100000`
}

// Run adds a team.
func (c *teamCreateCmd) Run(a *app) error {
	return withAdmin(a, func(ctx context.Context, admin *gateway.Admin) error {
		t, err := admin.CreateTeam(ctx, gateway.Team{Name: c.Name, Tier: c.Tier, Tokens: int64(c.Tokens)})
		if err == nil && c.JSON {
			return a.json(&t, a.outTTY)
		}
		if err == nil {
			a.say("team " + t.Name + ", tier " + t.Tier)
		}
		return err
	})
}

// teamListCmd is "callcell team list".
type teamListCmd struct {
	JSON bool `name:"json" help:"Print each team as a line of JSON."`
}

// Help is the long text of "callcell team list --help".
func (*teamListCmd) Help() string {
	return `A line has the name, the tier, when it was made, and a budget of its own:

  callcell team list`
}

// Run lists teams.
func (c *teamListCmd) Run(a *app) error {
	return withAdmin(a, func(ctx context.Context, admin *gateway.Admin) error {
		teams, err := admin.Teams(ctx)
		if err != nil {
			return err
		}
		if len(teams) == 0 && !c.JSON {
			a.none("no teams; callcell team create --help", "/v1/teams")
		}
		for i := range teams {
			if err := a.line(c.JSON, &teams[i], teamLine(&teams[i])); err != nil {
				return err
			}
		}
		return nil
	})
}

func teamLine(t *gateway.Team) string {
	text := fmt.Sprintf("%-16s  %-12s  %s", t.Name, t.Tier, t.Created.Local().Format(time.DateTime))
	if t.Tokens > 0 {
		text += fmt.Sprintf("  %d tokens a month", t.Tokens)
	}
	if t.Suspended {
		text += "  suspended"
	}
	return text
}

// teamSetCmd is "callcell team set".
type teamSetCmd struct {
	Name      string          `arg:"" help:"The team."`
	Tier      *string         `help:"Another tier." placeholder:"TIER"`
	Tokens    *envelope.Count `help:"Tokens a month; 0 for the tier's." placeholder:"N"`
	Suspended *bool           `negatable:"" help:"Whether its keys may call nothing."`
	JSON      bool            `name:"json" help:"Print the team as JSON."`
}

// Help is the long text of "callcell team set --help".
func (*teamSetCmd) Help() string {
	return `What is not given stays as it is.

  callcell team set ops --tier business
  callcell team set ops --tokens 5M
  callcell team set ops --suspended`
}

// Run changes a team.
func (c *teamSetCmd) Run(a *app) error {
	return withAdmin(a, func(ctx context.Context, admin *gateway.Admin) error {
		change := gateway.TeamChange{Tier: c.Tier, Suspended: c.Suspended}
		if c.Tokens != nil {
			n := int64(*c.Tokens)
			change.Tokens = &n
		}
		t, err := admin.SetTeam(ctx, c.Name, change)
		if err == nil && c.JSON {
			return a.json(&t, a.outTTY)
		}
		if err == nil {
			a.say(teamLine(&t))
		}
		return err
	})
}

// usageCmd is "callcell usage".
type usageCmd struct {
	Team string        `help:"Only this team." placeholder:"NAME"`
	From gateway.Month `help:"From this month on: 2026-11." placeholder:"MONTH"`
	To   gateway.Month `help:"Up to this month." placeholder:"MONTH"`
	CSV  bool          `name:"csv" help:"Print a table of comma-separated values." xor:"as"`
	JSON bool          `name:"json" help:"Print each line as JSON." xor:"as"`
}

// Help is the long text of "callcell usage --help".
func (*usageCmd) Help() string {
	return `Prints what each key has used in each month (UTC): calls that ran, tokens of their arguments
and results, CPU time and wall time. Calls of the local user are not metered; callcell audit
has all calls.

  callcell usage --team ops --from 2026-11`
}

// Run prints usage.
func (c *usageCmd) Run(a *app) error {
	return withAdmin(a, func(ctx context.Context, admin *gateway.Admin) error {
		list, err := admin.Usage(ctx, gateway.UsageQuery{Team: c.Team, From: c.From, To: c.To})
		if err != nil {
			return err
		}
		if c.CSV {
			return a.usageTable(list)
		}
		if len(list) == 0 && !c.JSON {
			a.none("nothing was used", "/v1/usage")
		}
		for i := range list {
			u := &list[i]
			text := fmt.Sprintf("%s  %-16s  %s  %8d calls  %10d tokens  %s cpu  %s wall", u.Month, u.Team, u.Key, u.Calls, u.Tokens(),
				u.CPU.Round(time.Millisecond), u.Wall.Round(time.Millisecond))
			if err := a.line(c.JSON, u, text); err != nil {
				return err
			}
		}
		return nil
	})
}

// usageTable writes usage for a spreadsheet. Its words are ours: names of teams
// and keys begin with a letter or a digit, so that none is a formula.
func (a *app) usageTable(list []gateway.Usage) error {
	w := csv.NewWriter(a.out)
	if err := w.Write([]string{"month", "team", "key", "calls", "argument_tokens", "result_tokens", "cpu_seconds", "wall_seconds"}); err != nil {
		return err
	}
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	s := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
	for i := range list {
		u := &list[i]
		if err := w.Write([]string{u.Month.String(), u.Team, u.Key, n(u.Calls), n(u.Arguments), n(u.Result), s(u.CPU), s(u.Wall)}); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
