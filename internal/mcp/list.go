package mcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callcell/callcell/envelope"
)

// Profiles is the structured content of list_profiles.
type Profiles struct {
	Profiles []ProfileInfo `json:"profiles"`
}

// ProfileInfo is what a model is told of a profile: what it may touch, and no
// source of anything.
type ProfileInfo struct {
	Name        string   `json:"name"`
	Default     bool     `json:"default" jsonschema:"whether it is the one of a call that names none"`
	Usable      bool     `json:"usable" jsonschema:"whether this host can run code under it"`
	Level       string   `json:"level,omitempty" jsonschema:"the isolation that a python program would run at"`
	Why         string   `json:"why,omitempty" jsonschema:"where it is not usable"`
	Trust       string   `json:"trust"`
	Image       string   `json:"image"`
	Hosts       []string `json:"hosts" jsonschema:"that may be reached; none: no network"`
	Fetch       bool     `json:"fetch" jsonschema:"whether the fetch tool may be used"`
	Credentials []string `json:"credentials" jsonschema:"that may be used"`
	Mounts      []string `json:"mounts" jsonschema:"directories that may be read"`
	Environment []string `json:"environment" jsonschema:"variables that may be set"`
	Limits      Limits   `json:"limits"`
}

// Limits are the ceilings of a profile.
type Limits struct {
	Wall    string `json:"wall"`
	CPUTime string `json:"cpuTime"`
	CPU     string `json:"cpu"`
	Memory  string `json:"memory"`
	Pids    string `json:"pids"`
	Scratch string `json:"scratch"`
	Output  string `json:"output" jsonschema:"of stdout and stderr together"`
	Files   string `json:"files" jsonschema:"of files that are returned"`
}

func (s *Server) addList() error {
	in, err := schemaOf[noInput]()
	if err != nil {
		return err
	}
	in.Properties = map[string]*jsonschema.Schema{} // some clients take no object without
	out, err := schemaOf[Profiles]()
	if err != nil {
		return err
	}
	const title = "List profiles"
	s.sdk.AddTool(&sdk.Tool{Name: "list_profiles", Title: title, InputSchema: in, OutputSchema: out,
		Description: "What calls may touch: the profiles to choose from, with hosts, credentials and ceilings.",
		Annotations: &sdk.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: yes(false)}}, s.list)
	return nil
}

func (s *Server) list(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	_, err := decode[noInput](req.Params.Arguments)
	if err = s.entered(ctx, req, err); err != nil {
		text := err.Error()
		if r := envelope.RefusalOf(err); r != nil {
			text += ". " + r.Hint
		}
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: line(text)}}}, nil
	}
	var all Profiles
	var text strings.Builder
	for i := range s.o.Profiles {
		info := s.info(ctx, &s.o.Profiles[i])
		info.Default = i == 0
		all.Profiles = append(all.Profiles, info)
		text.WriteString(info.text())
	}
	return &sdk.CallToolResult{StructuredContent: all, Content: []sdk.Content{&sdk.TextContent{Text: text.String()}}}, nil
}

func (s *Server) info(ctx context.Context, p *Profile) ProfileInfo {
	e := &p.Envelope
	r := &e.Resources
	info := ProfileInfo{
		Name: p.Name, Trust: max(e.Trust, envelope.TrustModel).String(), Image: e.Image, Hosts: hosts(e), Fetch: e.Network.Fetch != "" || len(e.Network.Allow) > 0,
		Credentials: slices.AppendSeq([]string{}, maps.Keys(e.Credentials)), Mounts: []string{}, Environment: slices.Clone(e.Environment),
		Limits: Limits{Wall: r.Wall.String(), CPUTime: r.CPUTime.String(), CPU: r.CPU.String(), Memory: r.Memory.String(), Pids: r.Pids.String(),
			Scratch: e.Files.Scratch.String(), Output: r.Output.Total.String(), Files: e.Files.Outputs.Bytes.String()},
	}
	slices.Sort(info.Credentials)
	if info.Environment == nil {
		info.Environment = []string{}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Files.Mounts)) {
		m := e.Files.Mounts[name]
		info.Mounts = append(info.Mounts, line(fmt.Sprintf("%s at %s: %s", name, m.Target, m.Why)))
	}
	request, err := narrowed(p, nil)
	if err != nil {
		return info
	}
	x := s.o.Runner.Explain(ctx, s.o.Caller, &envelope.Call{Profile: p.Name, Request: request, Script: &envelope.Script{Lang: "python", Code: "pass"}})
	if info.Usable = x.Refusal == nil; info.Usable {
		info.Level = x.Level.String()
	} else {
		info.Why = line(x.Refusal.Error())
	}
	return info
}

func hosts(e *envelope.Envelope) []string {
	out := []string{}
	for _, a := range e.Network.Allow {
		out = append(out, line(fmt.Sprintf("%s %v", a.Host, a.Ports)))
	}
	return out
}

func (p *ProfileInfo) text() string {
	text := "Profile " + p.Name
	if p.Default {
		text += " (the default)"
	}
	switch {
	case p.Usable:
		text += ": isolation " + p.Level
	default:
		text += ": NOT USABLE here: " + p.Why
	}
	reach := "no network"
	switch {
	case len(p.Hosts) > 0:
		reach = strings.Join(p.Hosts, ", ")
	case p.Fetch:
		reach += ", but by the fetch tool"
	}
	text += fmt.Sprintf("\n  image: %s\n  may reach: %s\n  at most: %s wall, %s CPU time, %s memory, %s processes, %s scratch\n", line(p.Image), reach, p.Limits.Wall, p.Limits.CPUTime, p.Limits.Memory, p.Limits.Pids, p.Limits.Scratch)
	for _, l := range []struct {
		name  string
		items []string
	}{{"credentials", p.Credentials}, {"mounts", p.Mounts}, {"variables", p.Environment}} {
		if len(l.items) > 0 {
			text += "  " + l.name + ": " + strings.Join(l.items, ", ") + "\n"
		}
	}
	return text
}
