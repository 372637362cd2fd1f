package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/render"
)

// keyCmd is "callcell key".
type keyCmd struct {
	Create keyCreateCmd `cmd:"" help:"Make a key for a team, and print its secret, once."`
	List   keyListCmd   `cmd:"" help:"List keys, oldest first."`
	Rotate keyRotateCmd `cmd:"" help:"Give a key another secret, and print it, once."`
	Revoke keyRevokeCmd `cmd:"" help:"End a key. Its calls that run are cancelled."`
}

// Help is the long text of "callcell key --help".
func (*keyCmd) Help() string {
	return `Keys are for who calls a daemon (callcell serve). They are in the state directory of this
host, and a daemon that serves it sees a change within a second. The first admin key comes
from here; with it more can be made over HTTP.

  callcell team create ops --tier enterprise
  callcell key create --team ops --role admin
  callcell key create --team ops --profile default,work-read`
}

// owned is the configuration, for a command over what a daemon has: root gives
// it as the daemon's user (serve.user).
func (a *app) owned() (*config.Config, error) {
	cfg, err := a.config()
	if err == nil {
		err = assembly.BecomeOwner(cfg.Serve.User, cfg.State)
	}
	return cfg, err
}

// withAdmin opens the teams and keys of this host for one command.
func withAdmin(a *app, do func(context.Context, *gateway.Admin) error) error {
	cfg, err := a.owned()
	if err != nil {
		return err
	}
	house, admin, err := assembly.OpenAdmin(a.ctx, cfg)
	if err != nil {
		return logFailure(err)
	}
	err = do(a.ctx, admin)
	ctx, cancel := context.WithTimeout(a.ctx, leaveTime)
	defer cancel()
	if failed := house.Close(ctx); failed != nil {
		a.say(flat(failed))
	}
	return adminFailure(err)
}

// adminFailure gives the errors that a user can mend their status and hint.
func adminFailure(err error) error {
	var field *gateway.FieldError
	switch {
	case errors.As(err, &field):
		return usage(field.Error(), field.Hint)
	case errors.Is(err, gateway.ErrUnknown):
		return &failure{exitNo, flat(err), "callcell team list and callcell key list show what there is"}
	case errors.Is(err, gateway.ErrRevoked):
		return &failure{exitNo, flat(err), "a key that was revoked stays so; callcell key create makes another"}
	case errors.Is(err, gateway.ErrExists):
		return &failure{exitNo, flat(err), ""}
	}
	return err
}

// keyCreateCmd is "callcell key create".
type keyCreateCmd struct {
	Team    string       `required:"" help:"The team that pays." placeholder:"NAME"`
	Role    gateway.Role `default:"call" help:"call runs calls, read reads rows and usage, admin manages." placeholder:"ROLE"`
	Profile []string     `help:"Profile that its calls may name; * is every one. Default: the default profile." placeholder:"NAME"`
	Label   string       `help:"What people call it." placeholder:"TEXT"`
	JSON    bool         `name:"json" help:"Print the key and its secret as JSON."`
}

// Help is the long text of "callcell key create --help".
func (*keyCreateCmd) Help() string {
	return `The secret alone is on standard output. Who has it calls the daemon: over HTTP, over MCP, or
with these commands, by daemon: {address, key} in his configuration.

  callcell key create --team ops --profile default,work-read > key
  callcell key create --team ops --role admin --profile '*'`
}

// Run makes a key. The secret alone is on standard output.
func (c *keyCreateCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if len(c.Profile) == 0 {
		c.Profile = []string{cfg.DefaultProfile}
	}
	return withAdmin(a, func(ctx context.Context, admin *gateway.Admin) error {
		k, secret, err := admin.CreateKey(ctx, gateway.Key{Team: c.Team, Role: c.Role, Profiles: c.Profile, Label: c.Label})
		if err != nil {
			return err
		}
		return a.secret(&k, secret, c.JSON)
	})
}

// secret shows a secret, which nobody can show again.
func (a *app) secret(k *gateway.Key, secret string, asJSON bool) error {
	if asJSON {
		return a.json(struct {
			Key    *gateway.Key `json:"key"`
			Secret string       `json:"secret"`
		}{k, secret}, a.outTTY)
	}
	a.say(fmt.Sprintf("key %s of team %s, role %s; its secret is shown this once:", k.ID, k.Team, k.Role))
	_, err := fmt.Fprintln(a.out, secret)
	return err
}

// keyListCmd is "callcell key list".
type keyListCmd struct {
	Team string `help:"Only keys of this team." placeholder:"NAME"`
	JSON bool   `name:"json" help:"Print each key as a line of JSON."`
}

// Help is the long text of "callcell key list --help".
func (*keyListCmd) Help() string {
	return `A line has the id, the team, the role, when it was made, its profiles and its label. No secret is
kept, so that none can be shown.

  callcell key list --team ops`
}

// Run lists keys.
func (c *keyListCmd) Run(a *app) error {
	return withAdmin(a, func(ctx context.Context, admin *gateway.Admin) error {
		keys, err := admin.Keys(ctx, c.Team)
		if err != nil {
			return err
		}
		if len(keys) == 0 && !c.JSON {
			a.none("no keys; callcell key create --help", "/v1/keys")
		}
		for i := range keys {
			if err := a.line(c.JSON, &keys[i], keyLine(&keys[i])); err != nil {
				return err
			}
		}
		return nil
	})
}

// line prints something of a list: as JSON, or as text.
func (a *app) line(asJSON bool, v any, text string) error {
	if asJSON {
		return a.json(v, false)
	}
	_, err := fmt.Fprintln(a.out, render.Line(text, 0))
	return err
}

func keyLine(k *gateway.Key) string {
	state := fmt.Sprintf("%d secrets", k.Secrets)
	if k.Secrets == 1 {
		state = "1 secret"
	}
	if !k.Revoked.IsZero() {
		state = "revoked " + k.Revoked.Local().Format(time.DateTime)
	}
	return fmt.Sprintf("%s  %-16s  %-5s  %s  %-12s  %s  %s", k.ID, k.Team, k.Role, k.Created.Local().Format(time.DateTime),
		strings.Join(k.Profiles, ","), state, k.Label)
}

// keyRotateCmd is "callcell key rotate".
type keyRotateCmd struct {
	ID      string            `arg:"" help:"The key's id."`
	Overlap envelope.Duration `default:"24h" help:"How long the old secret is still good." placeholder:"TIME"`
	JSON    bool              `name:"json" help:"Print the key and its secret as JSON."`
}

// Help is the long text of "callcell key rotate --help".
func (*keyRotateCmd) Help() string {
	return `The new secret alone is on standard output.

  callcell key rotate k_0bbd5f89f4df --overlap 1h > key`
}

// Run rotates a key.
func (c *keyRotateCmd) Run(a *app) error {
	return withAdmin(a, func(ctx context.Context, admin *gateway.Admin) error {
		k, secret, err := admin.RotateKey(ctx, c.ID, c.Overlap.Std())
		if err != nil {
			return err
		}
		return a.secret(&k, secret, c.JSON)
	})
}

// keyRevokeCmd is "callcell key revoke".
type keyRevokeCmd struct {
	ID   string `arg:"" help:"The key's id."`
	JSON bool   `name:"json" help:"Print the key as JSON."`
}

// Help is the long text of "callcell key revoke --help".
func (*keyRevokeCmd) Help() string {
	return `A daemon that serves the state sees it within a second.

  callcell key revoke k_0bbd5f89f4df`
}

// Run revokes a key.
func (c *keyRevokeCmd) Run(a *app) error {
	return withAdmin(a, func(ctx context.Context, admin *gateway.Admin) error {
		k, err := admin.RevokeKey(ctx, c.ID)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.json(&k, a.outTTY)
		}
		a.say("key " + k.ID + " is revoked")
		return nil
	})
}
