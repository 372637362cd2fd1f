package mcp

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/trace"
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
	if !s.begin() {
		return s.refused(refuse(envelope.ReasonCapacity, "", "the session has ended", "begin another one"))
	}
	defer s.calls.Done()
	began := time.Now()
	t := trace.Start(s.o.Traces, parentOf(req), time.Now, began)
	defer t.End()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	call, compare, err := s.admit(ctx, req, make)
	if err != nil {
		return s.refused(s.entered(ctx, req, err))
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		r := refuse(envelope.ReasonCapacity, "", fmt.Sprintf("%d calls of this session run already", s.o.Calls), "wait for one of them")
		r.Retry = true
		return s.refused(s.entered(ctx, req, r))
	}
	defer s.progress(ctx, req, call)()
	t.Add(trace.Span{}, trace.Data{Name: "receive", Start: began, End: time.Now()})
	ctx = s.heard(ctx, req)
	result := s.o.Runner.Run(trace.With(ctx, t), s.o.Caller, call)
	span := t.Begin(trace.Span{}, "render")
	defer func() { span.End(false) }()
	return s.answer(result, compare)
}

// parentOf is the span that a request was made under, as its _meta says, or the
// head of its HTTP request; the zero value is none.
func parentOf(req *sdk.CallToolRequest) trace.Parent {
	text, _ := req.Params.Meta["traceparent"].(string)
	if text == "" && req.Extra != nil {
		text = req.Extra.Header.Get("Traceparent")
	}
	p, _ := trace.Parse(text)
	return p
}

// entered counts a call that does not come to the runner, and says why it is
// refused: what is wrong with it, or that there were too many.
func (s *Server) entered(ctx context.Context, req *sdk.CallToolRequest, err error) error {
	if s.o.Entered == nil {
		return err
	}
	s.heard(ctx, req)
	return cmp.Or(s.o.Entered(), err)
}

// heard says that a call is counted, and returns the context that it is made with.
func (s *Server) heard(ctx context.Context, req *sdk.CallToolRequest) context.Context {
	if s.o.Heard == nil || req.Extra == nil {
		return ctx
	}
	return s.o.Heard(ctx, req.Extra.Header)
}

// task is the task of a call: that its request names, or the session's.
func (s *Server) task(req *sdk.CallToolRequest) string {
	if s.o.TaskOf == nil || req.Extra == nil {
		return s.o.Task
	}
	return cmp.Or(s.o.TaskOf(req.Extra.Header), s.o.Task)
}

// admit makes the call: of the arguments, within the profile, over the project.
func (s *Server) admit(ctx context.Context, req *sdk.CallToolRequest, make maker) (*envelope.Call, Compare, error) {
	nothing := func(*envelope.Result) *Changes { return nil }
	call, err := make(req)
	if err != nil {
		return nil, nil, err
	}
	p, err := s.profile(call.Profile)
	if err != nil {
		return nil, nil, err
	}
	call.Task, call.Profile = s.task(req), p.Name
	if call.Request, err = narrowed(p, call.Request); err != nil {
		return nil, nil, err
	}
	if s.o.Project == nil || call.Fetch != nil {
		return call, nothing, nil
	}
	compare, err := s.o.Project.Put(ctx, call)
	return call, compare, err
}

// answer shows a result. compare is nil where nothing ran.
func (s *Server) answer(r *envelope.Result, compare Compare) *sdk.CallToolResult {
	stored := s.files.add(r.ID, r.Outputs)
	a := structured(r, stored, int(s.o.Show))
	if a.Task == "" {
		a.Task = s.o.Task
	}
	out := &sdk.CallToolResult{StructuredContent: a, IsError: failed(r)}
	var links []sdk.Content
	for i, f := range stored {
		if f.URI != "" {
			links = append(links, linkTo(f.URI, kept{r.ID, r.Outputs[i].Name, r.Outputs[i].Data}))
		}
	}
	if compare != nil && a.Untrusted != nil {
		links = append(links, s.changed(a, r.ID, compare(r))...)
	}
	out.Content = append([]sdk.Content{&sdk.TextContent{Text: textOf(a, r)}}, links...)
	return out
}

func linkTo(uri string, k kept) *sdk.ResourceLink {
	size := int64(len(k.data))
	return &sdk.ResourceLink{URI: uri, Name: name(k.name), Size: &size, MIMEType: k.mime()}
}

// maxChanges bounds how many changed files are listed.
const maxChanges = 200

// changed shows what became of the project, and keeps the whole diff.
func (s *Server) changed(a *Answer, id string, c *Changes) (links []sdk.Content) {
	if c == nil {
		return nil
	}
	u := a.Untrusted
	for _, f := range c.Files[:min(len(c.Files), maxChanges)] {
		u.Changes = append(u.Changes, Change{Name: name(f.Name), Kind: f.Kind, Note: line(f.Note)})
	}
	if more := len(c.Files) - maxChanges; more > 0 {
		a.Warnings = append(a.Warnings, fmt.Sprintf("%d changes more are not listed: the diff has them", more))
	}
	for _, n := range c.Notes {
		a.Warnings = append(a.Warnings, line(n))
	}
	if c.Diff == "" {
		return nil
	}
	u.Diff = stream(envelope.Stream{Head: envelope.Data(c.Diff), Total: int64(len(c.Diff))}, int(s.o.Show))
	k := kept{id + "-project", "changes.diff", []byte(c.Patch)}
	if int64(len(k.data)) > s.files.max || !s.files.keep(k) {
		return nil
	}
	u.DiffURI = k.uri(rawResource)
	return []sdk.Content{linkTo(u.DiffURI, k)}
}

// refused is the answer to a call that did not come to the broker, so that it
// has no row.
func (s *Server) refused(err error) *sdk.CallToolResult {
	refusal := envelope.RefusalOf(err)
	if refusal == nil {
		s.o.Log.Error("a call could not be made", "error", err.Error())
		refusal = refuse(envelope.ReasonSetup, "", err.Error(), "see the server's log")
	}
	return s.answer(&envelope.Result{Task: s.o.Task, Refusal: refusal}, nil)
}
