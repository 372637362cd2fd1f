package config

import (
	"encoding/json"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/gateway"
)

// Gateway is how much who may call. Teams and keys are in the store.
type Gateway struct {
	Tiers     map[string]gateway.Tier `json:"tiers"`
	AtOnce    envelope.Count          `json:"atOnce"`    // calls at once, of all teams
	Wait      envelope.Duration       `json:"wait"`      // for a turn, at most
	MaxTokens envelope.Count          `json:"maxTokens"` // of a result, where the call does not say
}

// Limits returns what holds for the host.
func (g *Gateway) Limits() gateway.Limits {
	return gateway.Limits{AtOnce: g.AtOnce, Wait: g.Wait, MaxTokens: g.MaxTokens}
}

func defaultGateway() Gateway {
	l := gateway.DefaultLimits()
	return Gateway{Tiers: gateway.DefaultTiers(), AtOnce: l.AtOnce, Wait: l.Wait, MaxTokens: l.MaxTokens}
}

// gatewayFile is Gateway as a file has it: a tier says what differs from the
// default tier of its name, or from free.
type gatewayFile struct {
	Tiers     map[string]json.RawMessage `json:"tiers"`
	AtOnce    envelope.Count             `json:"atOnce"`
	Wait      envelope.Duration          `json:"wait"`
	MaxTokens envelope.Count             `json:"maxTokens"`
}

func (g *Gateway) file() gatewayFile {
	return gatewayFile{AtOnce: g.AtOnce, Wait: g.Wait, MaxTokens: g.MaxTokens}
}

// takeGateway takes over what the file says of the gateway.
func (c *Config) takeGateway(f gatewayFile) error {
	c.Gateway.AtOnce, c.Gateway.Wait, c.Gateway.MaxTokens = f.AtOnce, f.Wait, f.MaxTokens
	for _, name := range sortedKeys(f.Tiers) {
		tier, ok := c.Gateway.Tiers[name]
		if !ok {
			tier = c.Gateway.Tiers[gateway.DefaultTier]
		}
		if err := envelope.Decode(f.Tiers[name], int64(len(f.Tiers[name])), &tier); err != nil {
			return c.doc.Locate(err, "gateway.tiers"+segment(name, false))
		}
		c.Gateway.Tiers[name] = tier
	}
	return nil
}

func checkTiers(c *Config) error {
	for _, name := range sortedKeys(c.Gateway.Tiers) {
		field := "gateway.tiers" + segment(name, false)
		if !profileName().MatchString(name) {
			return bad(field, "not a name for a tier", "use a-z, 0-9 and -, at most 64 of them")
		}
		t := c.Gateway.Tiers[name]
		year := int64(365 * 24 * time.Hour)
		for _, v := range []struct {
			field string
			value int64
			most  int64
			text  string
		}{
			{"tokens", int64(t.Tokens), 1_000_000_000_000, "1000000M"},
			{"calls", int64(t.Calls), 1_000_000_000_000, "1000000M"},
			{"cpuTime", int64(t.CPUTime), 100 * year, "876000h"},
			{"rate", int64(t.Rate), gateway.MaxRate, "100k"},
			{"keys", int64(t.Keys), gateway.MaxKeys, "100k"},
			{"atOnce", int64(t.AtOnce), 4096, "4096"},
			{"keyAtOnce", int64(t.KeyAtOnce), 4096, "4096"},
			{"waiting", int64(t.Waiting), 4096, "4096"},
			{"retention", int64(t.Retention), 100 * year, "876000h"},
		} {
			if v.value < 1 || v.value > v.most {
				return bad(field+"."+v.field, "out of range", "write more than nothing, and at most "+v.text)
			}
		}
	}
	return nil
}

func checkGateway(c *Config) error {
	g := &c.Gateway
	switch {
	case g.AtOnce < 1 || g.AtOnce > 4096:
		return bad("gateway.atOnce", "out of range", "write 1 to 4096")
	case g.Wait < seconds(1)/10 || g.Wait > seconds(300):
		return bad("gateway.wait", "out of range", "write 100ms to 5m")
	case g.MaxTokens < 1 || g.MaxTokens > envelope.MostTokens:
		return bad("gateway.maxTokens", "out of range", "write 1 to 10M")
	}
	return nil
}
