package assembly

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/credential/source"
)

// Daemon returns a client of the daemon that the configuration names, with the
// key from its source. An error is a refusal.
func Daemon(ctx context.Context, c *config.Config) (*client.Client, error) {
	set, err := source.NewSet(source.Settings{}, source.Host{Home: c.State, LookupEnv: os.LookupEnv})
	if err != nil {
		return nil, err
	}
	defer set.Close()
	from, err := set.Open(envelope.Credential{Source: c.Daemon.Key})
	key := ""
	if err == nil {
		err = keyOf(ctx, from, func(value []byte) { key = string(value) })
	}
	if err != nil {
		r := &envelope.Refusal{Reason: envelope.ReasonSetup, Field: "daemon.key", Message: err.Error(), Hint: "see that its source has the key that callcell key create printed"}
		var fault *source.Fault
		if errors.As(err, &fault) {
			r.Message, r.Hint = fault.Msg, fault.Hint
			if kind, _, _ := strings.Cut(c.Daemon.Key, ":"); kind == "file" || kind == "env" { // no command is shown
				r.Message = c.Daemon.Key + ": " + r.Message
			}
		}
		return nil, r
	}
	to, err := client.New(c.Daemon.Address, key)
	if err != nil {
		return nil, fmt.Errorf("daemon.address: %w", err)
	}
	return to, nil
}

// keyTime bounds how long the source of a daemon's key may take.
const keyTime = 30 * time.Second

func keyOf(ctx context.Context, from source.Source, use func(value []byte)) error {
	ctx, cancel := context.WithTimeout(ctx, keyTime)
	defer cancel()
	return reveal(ctx, from, use)
}
