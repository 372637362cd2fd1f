package gateway

import (
	"time"

	"github.com/callcell/callcell/envelope"
)

// Tier is what a team gets.
type Tier struct {
	Tokens    envelope.Count    `json:"tokens"`    // a month, of the team
	Calls     envelope.Count    `json:"calls"`     // a month, of the team
	CPUTime   envelope.Duration `json:"cpuTime"`   // a month, of the team
	Rate      envelope.Count    `json:"rate"`      // calls in any 60 seconds, of a key
	Keys      envelope.Count    `json:"keys"`      // that are not revoked
	AtOnce    envelope.Count    `json:"atOnce"`    // calls at once, of the team
	KeyAtOnce envelope.Count    `json:"keyAtOnce"` // calls at once, of a key
	Waiting   envelope.Count    `json:"waiting"`   // calls of the team that wait for their turn
	Retention envelope.Duration `json:"retention"` // of the team's rows in the audit log
}

const (
	hour = envelope.Duration(time.Hour)
	day  = 24 * hour
)

// DefaultTier is the tier of a team that was made without one.
const DefaultTier = "free"

// DefaultTiers returns the tiers of a host that configures none.
func DefaultTiers() map[string]Tier {
	return map[string]Tier{
		DefaultTier: {Tokens: 2_000_000, Calls: 100_000, CPUTime: 20 * hour, Rate: 120, Keys: 2,
			AtOnce: 8, KeyAtOnce: 4, Waiting: 64, Retention: 7 * day},
		"pro": {Tokens: 20_000_000, Calls: 1_000_000, CPUTime: 200 * hour, Rate: 300, Keys: 10,
			AtOnce: 16, KeyAtOnce: 8, Waiting: 128, Retention: 30 * day},
		"business": {Tokens: 100_000_000, Calls: 5_000_000, CPUTime: 1_000 * hour, Rate: 600, Keys: 30,
			AtOnce: 32, KeyAtOnce: 16, Waiting: 256, Retention: 90 * day},
		"enterprise": {Tokens: 200_000_000, Calls: 20_000_000, CPUTime: 4_000 * hour, Rate: 1_200, Keys: MaxKeys,
			AtOnce: 64, KeyAtOnce: 64, Waiting: 512, Retention: 180 * day},
	}
}

// The bounds of a host.
const (
	MaxTeams = 10_000
	MaxKeys  = 100_000 // of a team, and of all teams together
	// MaxRate bounds what the log of one key's rate takes: 8 bytes a call.
	MaxRate = 100_000
)

// Limits are what holds for the host, whoever calls.
type Limits struct {
	AtOnce    envelope.Count    // calls at once, of all teams
	Wait      envelope.Duration // for a turn, at most
	MaxTokens envelope.Count    // of a result, where the call does not say
}

// DefaultLimits returns the limits of a host that configures none.
func DefaultLimits() Limits {
	return Limits{AtOnce: 32, Wait: envelope.Duration(10 * time.Second), MaxTokens: 25_000}
}

// orDefaults fills in what is not set.
func (l Limits) orDefaults() Limits {
	d := DefaultLimits()
	if l.AtOnce == 0 {
		l.AtOnce = d.AtOnce
	}
	if l.Wait == 0 {
		l.Wait = d.Wait
	}
	if l.MaxTokens == 0 {
		l.MaxTokens = d.MaxTokens
	}
	return l
}
