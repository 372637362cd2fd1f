package cli

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
)

// The exit statuses of callcell itself. A program that completed passes its
// own through, so a status alone cannot tell who set it: --json can.
const (
	exitNo          = 1   // audit: no such call, or the log is not intact
	exitUsage       = 120 // the command line is wrong
	exitRefusedMend = 121 // refused: request, permission, policy
	exitRefusedHost = 122 // refused: isolation, unsupported, setup
	exitRefusedWait = 123 // refused: rate, budget, capacity
	exitWallTime    = 124 // as timeout(1)
	exitOwn         = 125 // our own failure, a broken cell
	exitCancelled   = 130 // 128+SIGINT, whatever it was cancelled by
	exitKilled      = 137 // 128+SIGKILL: another ceiling ended the program
	exitSignalBase  = 128
)

// exitDoc is the table for help texts.
const exitDoc = `Exit status:

  the program's own if it completed, 128+N if signal N ended it
  120 usage                  124 wall time
  121 refused: mend it       125 our own failure
  122 refused by this host   130 cancelled
  123 refused: try again     137 another ceiling ended the program`

// exitOf returns the status for a result. cancelled says that the user has
// cancelled the call, at whatever step it was.
func exitOf(r *envelope.Result, cancelled bool) int {
	if r.Refusal != nil {
		if r.Refusal.Reason == envelope.ReasonSetup && cancelled {
			return exitCancelled
		}
		return exitOfRefusal(r.Refusal.Reason)
	}
	switch r.Outcome {
	case envelope.OutcomeCompleted:
		return r.Exit.Code
	case envelope.OutcomeSignalled:
		return exitSignalBase + signalNumber(r.Exit.Signal)
	case envelope.OutcomeWallTime:
		return exitWallTime
	case envelope.OutcomeCancelled:
		return exitCancelled
	case envelope.OutcomeBroken, envelope.OutcomeLost:
		return exitOwn
	}
	return exitKilled
}

func exitOfRefusal(reason envelope.Reason) int {
	switch reason {
	case envelope.ReasonRate, envelope.ReasonBudget, envelope.ReasonCapacity:
		return exitRefusedWait
	case envelope.ReasonIsolation, envelope.ReasonUnsupported, envelope.ReasonSetup:
		return exitRefusedHost
	}
	return exitRefusedMend
}

// signalNumber is the number of a signal's name; those of real time have their
// number in it.
func signalNumber(name string) int {
	if n := unix.SignalNum(name); n != 0 {
		return int(n)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(name, "SIG"))
	if err != nil || n < 0 || n >= exitSignalBase {
		return 0
	}
	return n
}
