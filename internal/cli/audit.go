package cli

import (
	"context"
	"errors"

	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/audit"
)

// auditCmd is "callcell audit".
type auditCmd struct {
	hereFlag
	List   auditListCmd   `cmd:"" help:"List calls, newest first."`
	Show   auditShowCmd   `cmd:"" help:"Show one call in full."`
	Tail   auditTailCmd   `cmd:"" help:"Show the last calls, and with -f those that end from now on."`
	Export auditExportCmd `cmd:"" help:"Print calls for another system, oldest first."`
	Verify auditVerifyCmd `cmd:"" help:"Walk the chain and say where it was changed."`
	Key    auditKeyCmd    `cmd:"" help:"Print the public key that receipts and checkpoints are checked with."`
	Prune  auditPruneCmd  `cmd:"" help:"Erase the rows of calls that are older than they are to be kept."`
	Erase  auditEraseCmd  `cmd:"" help:"Erase what the log has of one call. The chain stays valid."`
}

// Help is the long text of "callcell audit --help".
func (*auditCmd) Help() string {
	return `Every call has a row, refused ones too: its intent was durable before anything ran. The rows
stand in a chain of hashes, in the state directory (callcell config says where).

  callcell audit list --since 1h
  callcell audit show ID
  callcell audit verify

Where the configuration names a daemon, list, show and tail are about its rows: those of your own
calls, with a key of role read those of its team. What else there is, is done where the daemon is.
--here is about the log of this host and user.`
}

// withLog opens the log for one command. Calls whose process has died without
// a word are completed as lost before it looks. Who has a daemon's log is refused.
func withLog(a *app, do func(*audit.Log) error) error {
	return withLogOf(a, a.grammar.Audit.hereFlag, do)
}

func withLogOf(a *app, here hereFlag, do func(*audit.Log) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if err := here.ours(cfg, "the log is that of the daemon"); err != nil {
		return err
	}
	if cfg, err = a.owned(); err != nil {
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
	case errors.Is(err, audit.ErrInvalid), errors.Is(err, audit.ErrReceipt), errors.Is(err, audit.ErrKey):
		return usage(flat(err), hintOfLog(err))
	case errors.Is(err, audit.ErrCorrupt), errors.Is(err, audit.ErrSignature), errors.Is(err, audit.ErrOpen), errors.Is(err, audit.ErrOldFormat):
		return &failure{exitNo, flat(err), hintOfLog(err)}
	}
	return err
}

func hintOfLog(err error) string {
	var unopened *assembly.LogError
	switch {
	case errors.As(err, &unopened):
		return unopened.Refusal().Hint
	case errors.Is(err, audit.ErrInvalid):
		return "ids are as callcell audit list prints them, limits from 1 to 1000"
	case errors.Is(err, audit.ErrReceipt):
		return "SEQ:HEAD, both from a result's receipt, or a file of checkpoints"
	case errors.Is(err, audit.ErrKey):
		return "callcell audit key prints it, on the host that keeps the log"
	case errors.Is(err, audit.ErrSignature):
		return "it was signed with another key, or changed since"
	case errors.Is(err, audit.ErrOpen):
		return "wait until the call has ended"
	case errors.Is(err, audit.ErrCorrupt):
		return "callcell audit verify says where"
	case errors.Is(err, audit.ErrUnwritable):
		return "see that the state directory can be written and has room"
	}
	return ""
}
