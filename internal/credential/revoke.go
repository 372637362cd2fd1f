package credential

import (
	"context"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/source"
)

// State is how a credential ended.
type State string

// The states there are. In each of them our own copy is overwritten.
const (
	Revoked State = "revoked" // at the source
	Expired State = "expired" // at the source, by itself
	Kept    State = "kept"    // the source has nothing that could be revoked: it is as it was
	Failed  State = "failed"  // it is still good, and the source was not to be moved
)

// End is how one credential ended.
type End struct {
	Name   string
	Source source.Kind
	State  State
	Why    string // why it Failed, or what becomes of what is Kept; may be empty
}

// Report is how the credentials of a call ended, by name.
type Report struct{ Ends []End }

// Complete reports whether none has Failed.
func (r Report) Complete() bool {
	for _, e := range r.Ends {
		if e.State == Failed {
			return false
		}
	}
	return true
}

// Check returns r as a line of the call's teardown report.
func (r Report) Check() envelope.Check {
	notes := make([]string, 0, len(r.Ends))
	for _, e := range r.Ends {
		note := e.Name + " " + string(e.State)
		if e.Why != "" {
			note += " (" + e.Why + ")"
		}
		notes = append(notes, note)
	}
	return envelope.Check{What: "credentials", Gone: r.Complete(), Note: strings.Join(notes, ", ")}
}

// Revoke ends the lease: it revokes at the sources, side by side, in at most
// RevokeTime, and overwrites every secret, also where a source will not. It
// goes on when ctx ends: of ctx it uses the values alone. Called again, or at
// the same time, it waits and returns the same report.
func (l *Lease) Revoke(ctx context.Context) Report {
	l.mu.Lock()
	first := !l.revoked
	l.revoked = true
	l.mu.Unlock()
	if first {
		l.end(ctx)
		close(l.ended)
	}
	<-l.ended
	return l.report
}

// end revokes and overwrites, and writes the report.
func (l *Lease) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.options.RevokeTime)
	defer cancel()
	type outcome struct {
		of  *granted
		end End
	}
	outcomes := make(chan outcome, len(l.grants))
	ends := map[*granted]End{}
	for _, g := range l.grants {
		ends[g] = End{State: Failed, Why: "it took too long"}
		go func() { outcomes <- outcome{g, l.endOne(ctx, g)} }()
	}
	for range l.grants {
		select {
		case o := <-outcomes:
			ends[o.of] = o.end
			continue
		case <-ctx.Done():
		}
		break
	}
	for _, g := range l.grants {
		g.Destroy()
	}
	if l.redactor != nil {
		l.redactor.Destroy()
	}
	for _, name := range l.Names() {
		e := ends[l.items[name].grant]
		e.Name, e.Source = name, l.items[name].kind
		l.report.Ends = append(l.report.Ends, e)
	}
}

// endOne ends what one source handed out.
func (l *Lease) endOne(ctx context.Context, g *granted) End {
	switch {
	case !g.ends.IsZero() && !l.options.Now().Before(g.ends):
		return End{State: Expired}
	case g.Revoke == nil && !g.ends.IsZero():
		return End{State: Kept, Why: "until its time is over"}
	case g.Revoke == nil:
		return End{State: Kept}
	}
	if err := g.Revoke(ctx); err != nil {
		return End{State: Failed, Why: source.FaultOf("", err).Msg}
	}
	return End{State: Revoked}
}
