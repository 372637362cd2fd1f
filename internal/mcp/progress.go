package mcp

import (
	"context"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callcell/callcell/envelope"
)

// progressEvery is how often a client is told that a call still runs.
const progressEvery = time.Second

// progress tells a client that asked for it, for as long as the call runs, how
// many seconds it has been and how many it may be. What is returned ends it.
func (s *Server) progress(ctx context.Context, req *sdk.CallToolRequest, call *envelope.Call) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return func() {}
	}
	total := s.wallOf(call)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	tell := func(elapsed time.Duration) {
		_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ // who does not hear it loses nothing
			ProgressToken: token, Progress: elapsed.Seconds(), Total: total.Seconds(),
			Message: fmt.Sprintf("%s: running for %s of at most %s", call.Tool, elapsed, total),
		})
	}
	go func() {
		defer close(done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		tell(0)
		for elapsed := progressEvery; ; elapsed += progressEvery {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				tell(elapsed)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// wallOf is how long the call may run.
func (s *Server) wallOf(call *envelope.Call) time.Duration {
	p, err := s.profile(call.Profile)
	if err != nil {
		return 0
	}
	env, err := envelope.Narrow(p.Envelope, call.Request)
	if err != nil {
		return 0
	}
	return env.Resources.Wall.Std()
}
