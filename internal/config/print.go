package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/render"
)

// A Setting is one value in force and where it comes from.
type Setting struct {
	Field string // dotted
	Value string // as JSON, redacted
	From  string // "default", or FILE:LINE:COLUMN
}

// Settings returns every value in force, in the order of the structs. A
// secret is never among them, and neither are the arguments of a command that
// prints one: a configuration names sources.
func (c *Config) Settings() ([]Setting, error) {
	data, err := json.Marshal(c.wireOf())
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	f := flattener{dec: json.NewDecoder(bytes.NewReader(data))}
	f.dec.UseNumber()
	if err := f.value(""); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	for i := range f.out {
		f.out[i].From = c.from(f.out[i].Field)
	}
	return f.out, nil
}

// Print writes the settings, one a line.
func (c *Config) Print(w io.Writer) error {
	settings, err := c.Settings()
	if err != nil {
		return err
	}
	for _, s := range settings {
		line := render.Line(s.Field+" = "+s.Value, 0)
		if _, err := fmt.Fprintf(w, "%-56s  # %s\n", line, render.Line(s.From, 0)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) from(field string) string {
	if c.doc == nil {
		return "default"
	}
	pos, ok := c.doc.Position(field)
	if !ok {
		return "default"
	}
	return fmt.Sprintf("%s:%d:%d", c.doc.file, pos.Line, pos.Column)
}

// wireOf is the whole configuration in the shape of its file.
func (c *Config) wireOf() any {
	floors := map[string]envelope.Level{}
	for trust, level := range c.Floors {
		floors[trust.String()] = level
	}
	return struct {
		wire
		Profiles map[string]envelope.Envelope `json:"profiles"`
		Gateway  Gateway                      `json:"gateway"`
	}{
		wire{Version: Version, State: c.State, Helpers: c.Helpers, DefaultProfile: c.DefaultProfile, Floors: floors, Audit: c.Audit, Egress: c.Egress, Images: c.Images, Workspaces: c.Workspaces, Credentials: c.Credentials, Gateway: c.Gateway.file(), Serve: c.Serve,
			Daemon: c.Daemon, Telemetry: c.Telemetry, Webhooks: c.Webhooks, Health: c.Health},
		c.Profiles, c.Gateway,
	}
}

// A flattener turns a JSON document into settings, in its order.
type flattener struct {
	dec *json.Decoder
	out []Setting
}

func (f *flattener) value(path string) error {
	token, err := f.dec.Token()
	if err != nil {
		return err
	}
	delim, ok := token.(json.Delim)
	switch {
	case !ok:
		f.leaf(path, token)
		return nil
	case !f.dec.More():
		closing, err := f.dec.Token()
		f.out = append(f.out, Setting{Field: path, Value: fmt.Sprintf("%v%v", delim, closing)})
		return err
	}
	for i := 0; f.dec.More(); i++ {
		below := path + index(i)
		if delim == '{' {
			key, err := f.dec.Token()
			if err != nil {
				return err
			}
			below = path + segment(fmt.Sprint(key), path == "")
		}
		if err := f.value(below); err != nil {
			return err
		}
	}
	_, err = f.dec.Token()
	return err
}

func (f *flattener) leaf(path string, token json.Token) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(redact(path, token)); err != nil {
		text.Reset() // cannot be: a token is a string, a number, a boolean or null
	}
	f.out = append(f.out, Setting{Field: path, Value: strings.TrimSuffix(text.String(), "\n")})
}

// redact hides the arguments of a credential's command, and what of a receiver's
// address may be a secret.
func redact(path string, value any) any {
	text, ok := value.(string)
	if ok && strings.HasPrefix(path, "webhooks[") && strings.HasSuffix(path, ".url") {
		return shownURL(text)
	}
	source := path == "daemon.key" || strings.HasPrefix(path, "telemetry.headers") || strings.HasPrefix(path, "webhooks[") && strings.HasSuffix(path, ".secret") || strings.Contains(path, ".credentials") && strings.HasSuffix(path, ".source") ||
		strings.HasPrefix(path, "credentials.") && (strings.HasSuffix(path, ".secret") || strings.HasSuffix(path, ".token"))
	if !ok || !source {
		return value
	}
	if scheme, _, ok := strings.Cut(text, ":"); ok && scheme == "command" {
		return scheme + ":[redacted]"
	}
	return value
}
