package cli

import (
	"github.com/callcell/callcell/envelope"
)

// The exit statuses of callcell itself. A program that completed passes its
// own through, so a status alone cannot tell who set it: --json can.
const (
	exitUsage       = 120 // the command line is wrong
	exitRefusedMend = 121 // refused: request, permission, policy
	exitRefusedHost = 122 // refused: isolation, unsupported, setup
	exitRefusedWait = 123 // refused: rate, budget, capacity
	exitWallTime    = 124 // as timeout(1)
	exitOwn         = 125 // our own failure, a broken cell
	exitKilled      = 137 // 128+SIGKILL: another ceiling ended the program
	exitCancelled   = 130
	exitSignalBase  = 128
)

// exitDoc is the table for help texts.
const exitDoc = `Exit status: the program's own if it completed, 128+N if signal N ended it.
120 usage   121 refused: mend the call   122 refused: not on this host   123 refused: try again
124 wall time   125 our own failure   130 cancelled   137 another ceiling ended the program`

// exitOf returns the status for a result.
func exitOf(r *envelope.Result, signal int) int {
	if r.Refusal != nil {
		switch r.Refusal.Reason {
		case envelope.ReasonRate, envelope.ReasonBudget, envelope.ReasonCapacity:
			return exitRefusedWait
		case envelope.ReasonIsolation, envelope.ReasonUnsupported, envelope.ReasonSetup:
			return exitRefusedHost
		}
		return exitRefusedMend
	}
	switch r.Outcome {
	case envelope.OutcomeCompleted:
		return r.Exit.Code
	case envelope.OutcomeSignalled:
		return exitSignalBase + signal
	case envelope.OutcomeWallTime:
		return exitWallTime
	case envelope.OutcomeCancelled:
		return exitCancelled
	case envelope.OutcomeBroken, envelope.OutcomeLost:
		return exitOwn
	}
	return exitKilled
}
