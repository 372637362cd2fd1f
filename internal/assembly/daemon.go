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
		return nil, noKey(c.Daemon.Key, err)
	}
	to, err := client.New(c.Daemon.Address, key)
	switch {
	case errors.Is(err, client.ErrKey):
		return nil, noKey(c.Daemon.Key, err)
	case err != nil:
		return nil, fmt.Errorf("daemon.address: %w", err)
	}
	return to, nil
}

// noKey refuses a call whose daemon's key cannot be had from its source, or is
// none. It names the source, but no command: a secret may be among its words.
func noKey(from string, err error) *envelope.Refusal {
	r := &envelope.Refusal{Reason: envelope.ReasonSetup, Field: "daemon.key", Message: err.Error(), Hint: "see that its source has the key that callcell key create printed"}
	var fault *source.Fault
	switch {
	case errors.Is(err, client.ErrKey):
		r.Message = "what it has is no key: a line end or another control character is in it"
		r.Hint = "see that its source has the key alone, as callcell key create printed it"
		if strings.HasPrefix(from, "env:") {
			r.Hint += "; a variable is taken as it is, one line end is cut off a file's and a command's"
		}
	case errors.As(err, &fault):
		r.Message, r.Hint = fault.Msg, fault.Hint
	default:
		return r
	}
	switch kind, _, _ := strings.Cut(from, ":"); kind {
	case "file", "env":
		r.Message = from + ": " + r.Message
	default:
		r.Message = kind + ": " + r.Message
	}
	return r
}

// keyTime bounds how long the source of a daemon's key may take.
const keyTime = 30 * time.Second

func keyOf(ctx context.Context, from source.Source, use func(value []byte)) error {
	ctx, cancel := context.WithTimeout(ctx, keyTime)
	defer cancel()
	return reveal(ctx, from, use)
}
