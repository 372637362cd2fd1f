package broker

import (
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// An ending is one row of the table of outcomes. A zero field fits anything.
type ending struct {
	cause   string           // why the host ended the program
	signal  int              // the signal that ended it
	met     envelope.Outcome // a ceiling that was met, as an event says
	outcome envelope.Outcome
}

// endings is the table of outcomes; the first row that fits is it. The
// ceilings in it are those that can be seen to have ended the program: one
// that was met and survived is an event beside the outcome.
func endings() []ending {
	const xcpu, xfsz, bus, kill = 24, 25, 7, 9
	return []ending{
		{cause: cell.CauseWall, outcome: envelope.OutcomeWallTime},
		{cause: cell.CauseCPU, outcome: envelope.OutcomeCPUTime},
		{cause: cell.CauseMemory, outcome: envelope.OutcomeMemory},
		{cause: cell.CauseOutput, outcome: envelope.OutcomeOutput},
		{cause: cell.CauseCancel, outcome: envelope.OutcomeCancelled},
		{signal: xcpu, outcome: envelope.OutcomeCPUTime},
		{signal: xfsz, outcome: envelope.OutcomeFileSize},
		{signal: kill, met: envelope.OutcomeMemory, outcome: envelope.OutcomeMemory}, // by the kernel
		{signal: bus, met: envelope.OutcomeDisk, outcome: envelope.OutcomeDisk},      // a mapped file that could not grow
	}
}

// outcomeOf says how a program that ran has ended.
func outcomeOf(e cell.Exit) envelope.Outcome {
	for _, row := range endings() {
		if row.fits(e) {
			return row.outcome
		}
	}
	switch {
	case e.Cause != "": // a word that the seam does not have: nobody knows what it means
		return envelope.OutcomeBroken
	case e.Signal != 0:
		return envelope.OutcomeSignalled
	}
	return envelope.OutcomeCompleted
}

func (row ending) fits(e cell.Exit) bool {
	return (row.cause == "" || row.cause == e.Cause) &&
		(row.signal == 0 || row.signal == e.Signal && e.Cause == "") &&
		(!row.met.Valid() || hasEvent(e.Events, row.met))
}

func hasEvent(events []envelope.Event, met envelope.Outcome) bool {
	return slices.ContainsFunc(events, func(e envelope.Event) bool { return e.Kind == met.String() && e.Count > 0 })
}

// eventsOf returns the ceilings that were met, with the one that ended the
// call among them.
func eventsOf(e cell.Exit, outcome envelope.Outcome) []envelope.Event {
	events := slices.Clone(e.Events)
	switch outcome {
	case envelope.OutcomeCompleted, envelope.OutcomeSignalled, envelope.OutcomeCancelled, envelope.OutcomeBroken:
		return events
	}
	if !hasEvent(events, outcome) {
		events = append(events, envelope.Event{Kind: outcome.String(), Count: 1, Source: "host"})
	}
	return events
}

// exitOf says how the program ended, in the words of a Result.
func exitOf(e cell.Exit) envelope.Exit {
	exit := envelope.Exit{Code: e.Code, Signal: signalName(e.Signal), Cause: e.Cause, Source: e.Source}
	if e.Signal != 0 {
		exit.Code = -1
	}
	return exit
}
