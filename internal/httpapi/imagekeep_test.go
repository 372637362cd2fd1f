package httpapi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/image"
	"github.com/callcell/callcell/internal/kept"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestImageJobsOutliveTheirDaemon: the next daemon says of each job what became
// of it: as it ended; or done, where the image that its call made is there; or
// lost. Their events are their end.
func TestImageJobsOutliveTheirDaemon(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	ctx := t.Context()
	admin := s.client("blue", gateway.RoleAdmin)
	hang := make(chan struct{})
	s.images.make = func(ctx context.Context, _ broker.Caller, p *image.Plan, live broker.Live, _ func(int64)) (*image.Made, error) {
		record := &image.Record{Version: 1, Name: p.Name, Tree: envelope.Digest(nil), Call: "call of " + p.Name, Made: time.Unix(1, 0)}
		if p.Name != "oci:registry.test/early:1" {
			if err := live.Keep(ctx, record.Call); err != nil {
				return nil, err
			}
		}
		switch p.Name {
		case "oci:registry.test/bad:1":
			return &image.Made{}, &image.Error{Kind: image.KindSource, Name: p.Name, Msg: "it is not there"}
		case "oci:registry.test/done:1":
			return &image.Made{Record: record, Result: &envelope.Result{ID: record.Call}}, nil
		case "oci:registry.test/made:1": // kept, and nobody was told
			if err := s.images.Put(record); err != nil {
				t.Error(err)
			}
		}
		hang <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	pull := func(name string) *client.ImageJob {
		t.Helper()
		job, err := admin.PullImage(ctx, client.Pull{Ref: "registry.test/" + name + ":1"})
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	jobs, want := map[string]*client.ImageJob{}, map[string]string{"bad": "failed", "done": "done", "made": "done", "early": "lost"}
	for _, name := range []string{"bad", "done"} {
		jobs[name] = pull(name)
		waitFor(t, func() bool {
			now, err := admin.ImageJob(ctx, jobs[name].ID)
			return err == nil && now.State == want[name]
		})
	}
	for _, name := range []string{"made", "early"} {
		jobs[name] = pull(name)
		<-hang
	}
	for range 2 { // and the one after it
		next := s.again()
		later := next.client("blue", gateway.RoleAdmin)
		for name, job := range jobs {
			now, err := later.ImageJob(ctx, job.ID)
			if err != nil || now.State != want[name] || now.Image != job.Image || !now.Started.Equal(job.Started) || now.Ended.IsZero() {
				t.Errorf("%s: %+v %v", name, now, err)
				continue
			}
			if (now.Digest != "") != (now.State == "done") || (now.Record != nil) != (now.State == "done") || (now.Problem != nil) != (now.State == "failed") || (now.Call == "") != (name == "early" || name == "bad") {
				t.Errorf("%s: %+v", name, now)
			}
			if followed, err := later.FollowImage(ctx, job.ID, 7, func(client.ImageEvent) error { return nil }); err != nil || followed.State != now.State {
				t.Errorf("%s: %+v %v", name, followed, err)
			}
		}
		if list, err := later.ImageJobs(ctx); err != nil || len(list) != 4 || list[0].ID != jobs["early"].ID {
			t.Errorf("%+v %v", list, err)
		}
	}
}

// noJobs takes no jobs.
type noJobs struct{ kept.Jobs }

var errNoJobs = errors.New("the disk is full")

func (noJobs) BeginJob(context.Context, kept.Job) error { return errNoJobs }

// TestNoImageJobThatIsNotDurable: what cannot be noted is not begun.
func TestNoImageJobThatIsNotDurable(t *testing.T) {
	s := newStand(t, nil)
	s.config.Jobs = noJobs{s.config.Jobs}
	n := s.again()
	n.images.make = func(context.Context, broker.Caller, *image.Plan, broker.Live, func(int64)) (*image.Made, error) {
		t.Error("it is made")
		return nil, errNoJobs
	}
	admin := n.client("blue", gateway.RoleAdmin)
	if job, err := admin.PullImage(t.Context(), client.Pull{Ref: "registry.test/a:1"}); err == nil {
		t.Errorf("%+v", job)
	}
	if list, err := admin.ImageJobs(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v %v", list, err)
	}
}
