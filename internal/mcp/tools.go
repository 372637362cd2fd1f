package mcp

import (
	"context"
	"fmt"
	"runtime/debug"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callcell/callcell/envelope"
)

// A maker makes the call of a tool out of its arguments.
type maker func(*sdk.CallToolRequest) (*envelope.Call, error)

// addTools adds what there is to the server.
func (s *Server) addTools() error {
	code, err := schemaOf[codeInput]()
	if err != nil {
		return err
	}
	command, err := schemaOf[commandInput]()
	if err != nil {
		return err
	}
	fetch, err := schemaOf[fetchInput]()
	if err != nil {
		return err
	}
	answer, err := schemaOf[Answer]()
	if err != nil {
		return err
	}
	code.Properties["language"].Enum = []any{"python", "node", "sh"}
	add := func(name, title, text string, in any, hints sdk.ToolAnnotations, make maker) {
		hints.Title = title
		s.sdk.AddTool(&sdk.Tool{Name: name, Title: title, Description: text, InputSchema: in, OutputSchema: answer, Annotations: &hints}, s.handler(make))
	}
	add("run_code", "Run code in a sandbox", "Run a program in python, node or sh, in a sandbox of its own."+s.over()+
		" It has no network and no files but what its profile and this call give it; pass files in, name those to return.", code, s.runHints(), s.code)
	add("run_command", "Run a command in a sandbox", "Run one program with its arguments in a sandbox of its own, without a shell."+s.over(), command, s.runHints(), s.command)
	add("fetch", "Fetch a document", "Get one document over http or https, as readable text or as it is. Nothing of it is executed.", fetch,
		sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: yes(true)}, s.fetch)
	return s.addList()
}

func (s *Server) over() string {
	if s.o.Project == nil {
		return ""
	}
	return " The working directory is a copy of the project: what is changed there is shown as a diff, and not applied."
}

// runHints are those of what runs something. It changes nothing outside its
// sandbox; the world is open where some profile has a network.
func (s *Server) runHints() sdk.ToolAnnotations {
	open := false
	for _, p := range s.o.Profiles {
		open = open || len(p.Envelope.Network.Allow) > 0
	}
	return sdk.ToolAnnotations{DestructiveHint: yes(open), OpenWorldHint: yes(open)}
}

func yes(b bool) *bool { return &b }

func (s *Server) code(req *sdk.CallToolRequest) (*envelope.Call, error) {
	in, err := decode[codeInput](req.Params.Arguments)
	if err != nil {
		return nil, err
	}
	call, err := in.call("run_code")
	if err == nil {
		call.Script = &envelope.Script{Lang: in.Language, Code: in.Code}
	}
	return call, err
}

func (s *Server) command(req *sdk.CallToolRequest) (*envelope.Call, error) {
	in, err := decode[commandInput](req.Params.Arguments)
	if err != nil {
		return nil, err
	}
	call, err := in.call("run_command")
	if err == nil {
		call.Argv = in.Argv
	}
	return call, err
}

func (s *Server) fetch(req *sdk.CallToolRequest) (*envelope.Call, error) {
	in, err := decode[fetchInput](req.Params.Arguments)
	if err != nil {
		return nil, err
	}
	call := &envelope.Call{Tool: "fetch", Profile: in.Profile, Fetch: &envelope.Fetch{URL: in.URL, Text: !in.Raw, Fresh: in.Fresh}}
	if in.Bytes != nil {
		call.Fetch.Bytes = *in.Bytes
	}
	return call, nil
}

// handler runs the calls of one tool. It never returns an error of the
// protocol: what went wrong is for the model to see.
func (s *Server) handler(make maker) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (out *sdk.CallToolResult, err error) {
		defer func() {
			if v := recover(); v != nil {
				s.o.Log.Error("a failure of our own", "tool", req.Params.Name, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
				out, err = s.refused(refuse(envelope.ReasonSetup, "", "a failure of our own; the call may have run", "see the server's log")), nil
			}
		}()
		return s.handle(ctx, req, make), nil
	}
}

func (s *Server) handle(ctx context.Context, req *sdk.CallToolRequest, make maker) *sdk.CallToolResult {
	s.calls.Add(1)
	defer s.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	call, err := s.admit(ctx, req, make)
	if err != nil {
		return s.refused(err)
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		r := refuse(envelope.ReasonCapacity, "", fmt.Sprintf("%d calls of this session run already", MaxCalls), "wait for one of them")
		r.Retry = true
		return s.refused(r)
	}
	defer s.progress(ctx, req, call)()
	result := s.o.Runner.Run(ctx, s.o.Caller, call)
	return s.answer(call, result)
}

// admit makes the call: of the arguments, within the profile, over the project.
func (s *Server) admit(ctx context.Context, req *sdk.CallToolRequest, make maker) (*envelope.Call, error) {
	call, err := make(req)
	if err != nil {
		return nil, err
	}
	p, err := s.profile(call.Profile)
	if err != nil {
		return nil, err
	}
	call.Task, call.Profile = s.o.Task, p.Name
	if call.Request, err = narrowed(p, call.Request); err != nil {
		return nil, err
	}
	if s.o.Project != nil && call.Fetch == nil {
		err = s.o.Project.Put(ctx, call)
	}
	return call, err
}

// answer shows a result.
func (s *Server) answer(call *envelope.Call, r *envelope.Result) *sdk.CallToolResult {
	stored := s.files.add(r.ID, r.Outputs)
	a := structured(r, stored, int(s.o.Show))
	if a.Task == "" {
		a.Task = s.o.Task
	}
	if s.o.Project != nil && call != nil && a.Untrusted != nil {
		s.changed(a.Untrusted, call, r)
	}
	out := &sdk.CallToolResult{StructuredContent: a, IsError: failed(r), Content: []sdk.Content{&sdk.TextContent{Text: textOf(a, r)}}}
	for i, f := range stored {
		if f.URI != "" {
			size := f.Bytes
			out.Content = append(out.Content, &sdk.ResourceLink{URI: f.URI, Name: f.Name, Size: &size, MIMEType: kept{r.ID, r.Outputs[i].Name, r.Outputs[i].Data}.mime()})
		}
	}
	return out
}

// changed shows what became of the project.
func (s *Server) changed(u *Untrusted, call *envelope.Call, r *envelope.Result) {
	if diff := s.o.Project.Diff(call, r); diff != "" {
		u.Diff = stream(envelope.Stream{Head: envelope.Data(diff), Total: int64(len(diff))}, int(s.o.Show))
	}
}

// refused is the answer to a call that did not come to the broker, so that it
// has no row.
func (s *Server) refused(err error) *sdk.CallToolResult {
	refusal := envelope.RefusalOf(err)
	if refusal == nil {
		s.o.Log.Error("a call could not be made", "error", err.Error())
		refusal = refuse(envelope.ReasonSetup, "", err.Error(), "see the server's log")
	}
	return s.answer(nil, &envelope.Result{Task: s.o.Task, Refusal: refusal})
}
