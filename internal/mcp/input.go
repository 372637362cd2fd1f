package mcp

import (
	"encoding/json"

	"github.com/callcell/callcell/envelope"
)

// What every tool that runs something takes. The tags are what a model reads.
type common struct {
	Profile string          `json:"profile,omitempty" jsonschema:"name of a profile, see list_profiles; the default one where it is left out"`
	Narrow  *narrow         `json:"narrow,omitempty" jsonschema:"less than the profile gives; more than that is refused"`
	Needs   []envelope.Need `json:"needs,omitempty" jsonschema:"what it cannot do without beside what follows from it; this only makes the isolation stronger"`
	Files   []inputFile     `json:"files,omitempty" jsonschema:"files that are put into the working directory"`
	Outputs []string        `json:"outputs,omitempty" jsonschema:"files to return from the working directory; a name that ends in / is a directory"`
	Stdin   string          `json:"stdin,omitempty" jsonschema:"standard input"`

	Env map[string]string `json:"env,omitempty" jsonschema:"environment variables, of those that the profile lists"`
}

// narrow is the part of an envelope.Request that is a model's to say.
type narrow struct {
	Level       *envelope.Level            `json:"level,omitempty" jsonschema:"at least this isolation"`
	Trust       *envelope.Trust            `json:"trust,omitempty" jsonschema:"thirdparty or hostile for code that you did not write"`
	Hosts       *[]envelope.Allow          `json:"hosts,omitempty" jsonschema:"hosts it may reach, a subset of the profile's; an empty list is no network"`
	Credentials *[]string                  `json:"credentials,omitempty" jsonschema:"credentials it may use, by name; an empty list is none"`
	Mounts      *[]string                  `json:"mounts,omitempty" jsonschema:"directories it may read, by name; an empty list is none"`
	Resources   *envelope.ResourcesRequest `json:"resources,omitempty" jsonschema:"smaller ceilings"`
}

type inputFile struct {
	Name       string         `json:"name" jsonschema:"relative, slash-separated, without .."`
	Text       *string        `json:"text,omitempty" jsonschema:"its content as text"`
	Base64     *envelope.Data `json:"base64,omitempty" jsonschema:"its content as base64, instead of text"`
	Executable bool           `json:"executable,omitempty"`
}

// codeInput is the input of run_code.
type codeInput struct {
	Language string `json:"language" jsonschema:"python, node or sh"`
	Code     string `json:"code" jsonschema:"the whole program; print what you want to see"`
	common
}

// commandInput is the input of run_command.
type commandInput struct {
	Argv []string `json:"argv" jsonschema:"the program and its arguments; no shell interprets them (for a shell line: run_code with language sh)"`
	common
}

// fetchInput is the input of fetch.
type fetchInput struct {
	URL     string         `json:"url" jsonschema:"http or https"`
	Raw     bool           `json:"raw,omitempty" jsonschema:"the document as it is; otherwise the readable text of a page"`
	Bytes   *envelope.Size `json:"bytes,omitempty" jsonschema:"most of the document that is wanted: 64Ki"`
	Fresh   bool           `json:"fresh,omitempty" jsonschema:"not from the cache"`
	Profile string         `json:"profile,omitempty" jsonschema:"name of a profile, see list_profiles"`
}

// noInput is the input of list_profiles.
type noInput struct{}

// decode reads the arguments of a tool, strictly. No arguments are {}.
func decode[T any](raw json.RawMessage) (T, error) {
	var in T
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	err := envelope.Decode(raw, MaxMessage, &in)
	return in, err
}

// call makes a call of what every tool takes.
func (c *common) call(tool string) (*envelope.Call, error) {
	call := &envelope.Call{Tool: tool, Profile: c.Profile, Needs: c.Needs, Outputs: c.Outputs, Env: c.Env, Request: c.Narrow.request()}
	if c.Stdin != "" {
		call.Stdin = envelope.Data(c.Stdin)
	}
	for i, f := range c.Files {
		file, err := f.file(i)
		if err != nil {
			return nil, err
		}
		call.Inputs = append(call.Inputs, file)
	}
	return call, nil
}

func (n *narrow) request() *envelope.Request {
	if n == nil {
		return nil
	}
	r := &envelope.Request{Level: n.Level, Trust: n.Trust, Credentials: n.Credentials, Resources: n.Resources}
	if n.Hosts != nil {
		r.Network = &envelope.NetworkRequest{Allow: n.Hosts}
	}
	if n.Mounts != nil {
		r.Files = &envelope.FilesRequest{Mounts: n.Mounts}
	}
	return r
}

func (f *inputFile) file(i int) (envelope.File, error) {
	out := envelope.File{Name: f.Name, Executable: f.Executable}
	switch {
	case (f.Text == nil) == (f.Base64 == nil):
		return out, refuse(envelope.ReasonRequest, at("files", i), "has neither text nor base64, or both", "give its content as one of the two")
	case f.Text != nil:
		out.Data = envelope.Data(*f.Text)
	default:
		out.Data = *f.Base64
	}
	return out, nil
}
