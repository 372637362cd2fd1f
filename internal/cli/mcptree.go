package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/mcp"
	"github.com/callcell/callcell/internal/project"
	"github.com/callcell/callcell/internal/project/diff"
)

// mcpProject is a working tree that the calls of a session run over. Each call
// has it as it is then, read with the user's rights.
type mcpProject struct {
	dir      string
	journals string
	limits   project.Limits
}

// projectOf returns the project of a session; what is read at once is bounded by
// the widest profile.
func projectOf(cfg *config.Config, dir string, profiles []mcp.Profile) *mcpProject {
	p := &mcpProject{dir: dir, journals: treesDir(cfg), limits: project.DefaultLimits()}
	var files envelope.Count
	var bytes envelope.Size
	for _, one := range profiles {
		files, bytes = max(files, one.Envelope.Files.Tree.Count), max(bytes, one.Envelope.Files.Tree.Bytes)
	}
	p.limits.Files, p.limits.Bytes = int(files), int64(bytes)
	return p
}

// Put implements mcp.Project.
func (p *mcpProject) Put(ctx context.Context, call *envelope.Call) (mcp.Compare, error) {
	tree, err := project.Read(ctx, p.dir, project.Options{Journals: p.journals, Limits: p.limits})
	if err != nil {
		r := &envelope.Refusal{Reason: envelope.ReasonSetup, Message: "the project cannot be read: " + err.Error()}
		if full := (*project.CapError)(nil); errors.As(err, &full) {
			r.Hint = full.Hint
		}
		return nil, r
	}
	call.Tree = tree.Call()
	return func(r *envelope.Result) *mcp.Changes { return compared(tree, r) }, nil
}

// compared says what a call made of a tree.
func compared(tree *project.Tree, r *envelope.Result) *mcp.Changes {
	if r.Changes == nil {
		return nil
	}
	out := &mcp.Changes{}
	was := make(map[string]project.File, len(tree.Files))
	for _, f := range tree.Files {
		was[f.Name] = f
	}
	plan := tree.Plan(r.Changes)
	twice := map[string]string{}
	for _, n := range plan.Warnings {
		twice[n.Name] = strings.TrimPrefix(twice[n.Name]+"; "+n.Why, "; ")
	}
	var text, patch strings.Builder
	for i := range plan.Changes {
		c := &plan.Changes[i]
		d := diff.Of(was[c.Name].Data, was[c.Name].Executable, c)
		text.WriteString(d.Raw())
		patch.WriteString(d.Patch())
	}
	out.Files, out.Diff, out.Patch = listed(plan, twice), text.String(), patch.String()
	if n := len(twice); n > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("look twice at what the program made of %d files: tools run them by themselves", n))
	}
	if n := len(plan.Refused); n > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d changes are never to be taken over: those that are refused", n))
	}
	if !r.Changes.Complete {
		out.Notes = append(out.Notes, "not all that the program changed in the project could be taken")
	}
	return out
}

// listed returns the changes of a plan, those first of which there is something to
// be said: only the first are shown.
func listed(plan *project.Plan, twice map[string]string) []mcp.Change {
	var out, plain []mcp.Change
	for _, n := range plan.Refused {
		out = append(out, mcp.Change{Name: n.Name, Kind: "refused", Note: n.Why})
	}
	for _, c := range plan.Changes {
		made := mcp.Change{Name: c.Name, Kind: c.Kind.String(), Note: twice[c.Name]}
		if made.Note != "" {
			out = append(out, made)
		} else {
			plain = append(plain, made)
		}
	}
	return append(out, plain...)
}
