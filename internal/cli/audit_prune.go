package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/audit"
)

// auditKeyCmd is "callcell audit key".
type auditKeyCmd struct {
	JSON bool `name:"json" help:"Print it as JSON."`
}

// Help is the long text of "callcell audit key --help".
func (*auditKeyCmd) Help() string {
	return `Keep it where the log is not: audit verify --pubkey checks receipts and checkpoints with it.
The private half is in the state directory, or where audit.key of the configuration says.

  callcell audit key > callcell.pub
  callcell audit verify --pubkey callcell.pub`
}

// Run prints the public key.
func (c *auditKeyCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	return withLog(a, func(*audit.Log) error {
		key, err := assembly.LogKey(cfg)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return a.json(map[string]string{"key": key.String()}, a.outTTY)
		}
		_, err = fmt.Fprintln(a.out, key)
		return err
	})
}

// auditPruneCmd is "callcell audit prune".
type auditPruneCmd struct {
	OlderThan time.Duration `help:"Instead of what the configuration says: calls older than 720h." placeholder:"TIME"`
	Team      *string       `help:"Only calls of this team; an empty one is of none." placeholder:"NAME"`
	JSON      bool          `name:"json" help:"Print the report as JSON."`
}

// Help is the long text of "callcell audit prune --help".
func (*auditPruneCmd) Help() string {
	return `Takes the rows of calls that have ended and are older than audit.retention of the configuration
says. What is left of each is what the chain needs, from which nothing can be guessed; an event of
the log says what was taken and who asked. It cannot be undone. The rows of a team are pruned by
the daemon (callcell serve), as the team's tier says; --older-than is for everybody's.

  callcell audit prune --older-than 720h`
}

// Run prunes.
func (c *auditPruneCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if c.OlderThan < 0 || c.OlderThan == 0 && cfg.Audit.Retention == 0 {
		return usage("rows are kept for ever, so that there is nothing to prune",
			"write audit: {retention: 720h} into the configuration, or --older-than 720h")
	}
	age := func(team string) time.Duration {
		switch {
		case c.Team != nil && team != *c.Team:
			return 0
		case c.OlderThan > 0:
			return c.OlderThan
		case team == "":
			return cfg.Audit.Retention.Std()
		}
		return 0
	}
	return withLog(a, func(log *audit.Log) error {
		over := a.meanwhile("audit prune", c.JSON, nil)
		report, err := log.Prune(a.ctx, audit.Retention{Age: age, By: localCaller().Name})
		over()
		switch {
		case report.Calls == 0 && err != nil: // nothing was done
		case c.JSON:
			err = errors.Join(err, a.json(report, a.outTTY))
		default:
			fmt.Fprintf(a.out, "%d calls pruned\n", report.Calls)
		}
		return err
	})
}

// auditEraseCmd is "callcell audit erase".
type auditEraseCmd struct {
	ID   string `arg:"" help:"The call's id, or the beginning of it."`
	Yes  bool   `help:"Do it. It cannot be undone."`
	JSON bool   `name:"json" help:"Print the whole id of the call as JSON."`
}

// Help is the long text of "callcell audit erase --help".
func (*auditEraseCmd) Help() string {
	return `Takes what the log has of one call away: who called, with what, what it did. Its id, level, times
and ending stay, and an event says who erased it. The chain stays valid. Copies that were made
before (exports, backups, what the file system keeps) are not erased.

  callcell audit erase ID --yes`
}

// Run erases one call.
func (c *auditEraseCmd) Run(a *app) error {
	if !c.Yes {
		return usage("erasing cannot be undone", "callcell audit erase "+c.ID+" --yes")
	}
	return withLog(a, func(log *audit.Log) error {
		over := a.meanwhile("audit erase", c.JSON, nil)
		id, err := log.Erase(a.ctx, c.ID, localCaller().Name)
		over()
		switch {
		case err != nil:
			return err
		case c.JSON:
			return a.json(map[string]string{"id": id}, a.outTTY)
		}
		_, err = fmt.Fprintln(a.out, id, "erased")
		return err
	})
}
