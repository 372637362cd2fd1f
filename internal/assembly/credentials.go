package assembly

import (
	"context"
	"errors"
	"os"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/credential"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/credential/source"
)

// An issuer issues the secrets of calls out of this host's sources.
type issuer struct {
	*credential.Issuer
	sources *source.Set
}

// newIssuer returns the issuer of a host. An error is of the configuration.
func newIssuer(c *config.Config) (*issuer, error) {
	s := source.Settings{
		Roots:  c.Credentials.Roots,
		Vault:  source.VaultSettings(c.Credentials.Vault),
		OAuth2: map[string]source.OAuth2Settings{},
	}
	for name, client := range c.Credentials.OAuth2 {
		s.OAuth2[name] = source.OAuth2Settings(client)
	}
	set, err := source.NewSet(s, source.Host{Home: c.State, LookupEnv: os.LookupEnv})
	var fault *source.SettingError
	if errors.As(err, &fault) {
		return nil, c.Locate(&envelope.FieldError{Reason: envelope.ReasonRequest, Field: "credentials." + fault.Field, Msg: fault.Msg, Hint: fault.Hint})
	}
	if err != nil {
		return nil, err
	}
	return &issuer{credential.NewIssuer(set, credential.Options{}), set}, nil
}

// Issue implements broker.Credentials. From the first secret on, this process
// leaves no picture of its memory.
func (i *issuer) Issue(ctx context.Context, call string, creds map[string]envelope.Credential) (*credential.Lease, error) {
	if err := secret.Harden(); err != nil {
		return nil, err
	}
	return i.Issuer.Issue(ctx, call, creds)
}

// Close waits until what sources handed out too late is taken back.
func (i *issuer) Close(ctx context.Context) error {
	err := i.Issuer.Close(ctx)
	i.sources.Close()
	return err
}
