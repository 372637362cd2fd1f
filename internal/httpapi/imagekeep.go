package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/callcell/callcell/internal/kept"
)

// remember has the jobs of the daemons before this one. One that was under way
// when its daemon died is done where the image that its call made is there, and
// lost where not.
func (a *API) remember(ctx context.Context) error {
	list, err := a.Jobs.ListJobs(ctx)
	if err != nil {
		return fmt.Errorf("images that were made: %w", err)
	}
	lost := 0
	for _, j := range list {
		m := &making{cancel: func() {}, clock: a.Clock, restored: true, changed: make(chan struct{})}
		if err := json.Unmarshal(j.Text, &m.state); err != nil {
			a.Log.Error("an image job cannot be read", "job", j.ID, "error", err.Error())
			continue
		}
		if j.Ended.IsZero() {
			m.state.Call = j.Call
			a.outlived(&m.state)
			if err := a.Jobs.FinishJob(ctx, keptJob(m.state)); err != nil {
				return fmt.Errorf("the image job %s: %w", j.ID, err)
			}
		}
		if m.state.State == "lost" && j.Ended.IsZero() {
			lost++
		}
		m.addLocked("done", m.state)
		a.making.all = append(a.making.all, m)
	}
	if lost > 0 {
		a.Log.Warn("images of a daemon that died were being made; they are lost", "images", lost)
	}
	return nil
}

// outlived says what became of an image whose daemon died.
func (a *API) outlived(j *ImageJob) {
	j.State, j.Ended = "lost", a.Clock.Now().UTC()
	r, err := a.Images.Get(j.Image)
	if err == nil && j.Call != "" && r.Call == j.Call {
		j.State, j.Record, j.Digest = "done", r, r.Digest()
	}
}

// keptJob is what is kept of a job.
func keptJob(j ImageJob) kept.Job {
	text := encode(j)
	if len(text) > maxMade {
		j.Record = nil
		text = encode(j)
	}
	return kept.Job{ID: j.ID, Call: j.Call, Began: j.Started, Ended: j.Ended, Text: text}
}

func (m *making) kept() kept.Job { return keptJob(m.snapshot()) }

// called is broker.Live.Keep: which call makes it is durable before that runs.
func (m *making) called(jobs kept.Jobs) func(context.Context, string) error {
	return func(ctx context.Context, call string) error { return jobs.CallJob(ctx, m.snapshot().ID, call) }
}

// made makes the end of a job durable. What the store does not take now it is
// given again later.
func (a *API) made(end ImageJob) {
	if a.tryMade(end) {
		return
	}
	a.jobs.after.Go(func() {
		tick, stop := a.Clock.Ticker(saveAgain)
		defer stop()
		for {
			select {
			case <-a.ending.Done():
				return
			case <-tick:
			}
			if a.tryMade(end) {
				return
			}
		}
	})
}

func (a *API) tryMade(end ImageJob) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ending), saveTime)
	defer cancel()
	err := a.Jobs.FinishJob(ctx, keptJob(end))
	if err != nil {
		a.Log.Error("how an image was made could not be kept", "job", end.ID, "error", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return err == nil
}

// drop forgets a job that was not begun.
func (t *makings) drop(m *making) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = slices.DeleteFunc(t.all, func(one *making) bool { return one == m })
}
