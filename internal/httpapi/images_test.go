package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/httpapi"
	"github.com/callcell/callcell/internal/image"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestImagesAreSeenByAll: who calls and who reads sees what is there, and host
// is there always; only who runs this host removes.
func TestImagesAreSeenByAll(t *testing.T) {
	s := newStand(t, nil)
	record := &image.Record{Version: 1, Name: "oci:registry.test/tools:1", Tree: envelope.Digest(nil), Bytes: 7, Entries: 3, Made: time.Unix(1, 0),
		Source: &image.Source{Ref: "registry.test/tools:1", Digest: envelope.Digest([]byte("m"))}}
	above := &image.Record{Version: 1, Name: "build:data", Added: envelope.Digest(nil), Recipe: &image.Recipe{Base: record.Name}, Made: time.Unix(2, 0)}
	if err := errors.Join(s.images.Put(record), s.images.Put(above)); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, role := range []gateway.Role{gateway.RoleCall, gateway.RoleRead} {
		c := s.client("blue", role)
		list, err := c.Images(ctx)
		if err != nil || len(list) != 2 || list[1].Name != record.Name || list[1].Digest != record.Digest() || list[1].Bytes != 7 {
			t.Errorf("%s: %+v %v", role, list, err)
		}
		if one, err := c.Image(ctx, record.Name); err != nil || one.Digest != record.Digest() || !strings.Contains(string(one.Record), record.Source.Digest) {
			t.Errorf("%s: %+v %v", role, one, err)
		}
		if host, err := c.Image(ctx, "host"); err != nil || host.Digest != "" {
			t.Errorf("%s: %+v %v", role, host, err)
		}
		var p *client.Problem
		if err := c.RemoveImage(ctx, record.Name); !errors.As(err, &p) || p.Code != "role" {
			t.Errorf("%s: %v", role, err)
		}
	}
	admin := s.client("red", gateway.RoleAdmin)
	for name, want := range map[string]string{"oci:registry.test/none:1": "not_found", "../x": "request", "": "request", record.Name: "conflict"} {
		var p *client.Problem
		if err := admin.RemoveImage(ctx, name); !errors.As(err, &p) || p.Code != want {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	if err := errors.Join(admin.RemoveImage(ctx, above.Name), admin.RemoveImage(ctx, record.Name)); err != nil {
		t.Error(err)
	}
}

// TestImagesAreMadeBehind: a job tells how far it is, to its last event, which
// can be had again; one that fails says why with a code; one that is cancelled
// ends, and so does one of a daemon that ends. Only so many are under way.
func TestImagesAreMadeBehind(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	ctx := t.Context()
	admin := s.client("blue", gateway.RoleAdmin)
	record := &image.Record{Version: 1, Name: "oci:registry.test/tools:1", Tree: envelope.Digest(nil)}
	s.images.make = func(_ context.Context, who broker.Caller, p *image.Plan, live broker.Live, heard func(int64)) (*image.Made, error) {
		if who.Team != "blue" || who.Key == "" || p.Name != record.Name || p.Call.Task != "t-1" || p.Call.Profile != "" {
			t.Errorf("%+v makes %s for %q", who, p.Name, p.Call.Task)
		}
		live.Begun("call-1")
		live.Running(envelope.LevelContainer)
		for i := range int64(1000) {
			heard(i)
		}
		_, err := io.WriteString(live.Stderr, "\x1b[2Jwords\n")
		return &image.Made{Record: record, Result: &envelope.Result{ID: "call-1"}}, err
	}
	job, err := admin.PullImage(ctx, client.Pull{Ref: "oci:registry.test/tools:1"}, client.Task("t-1")) // as an image is named
	if err != nil || job.State != "running" || job.Image != record.Name || job.What != "pull" {
		t.Fatalf("%+v %v", job, err)
	}
	var heard []string
	last := 0
	done, err := admin.FollowImage(ctx, job.ID, 0, func(e client.ImageEvent) error {
		heard, last = append(heard, e.Kind), e.ID
		return nil
	})
	if err != nil || done.State != "done" || done.Digest != record.Digest() || done.Bytes != 999 || done.Call != "call-1" || strings.Join(slices.Compact(heard), " ") != "begun running progress words done" {
		t.Errorf("%q %+v %v", heard, done, err)
	}
	if again, err := admin.FollowImage(ctx, job.ID, last-1, func(client.ImageEvent) error { return nil }); err != nil || again.ID != job.ID {
		t.Errorf("%+v %v", again, err)
	}
	s.images.make = func(context.Context, broker.Caller, *image.Plan, broker.Live, func(int64)) (*image.Made, error) {
		return &image.Made{}, &image.Error{Kind: image.KindProgram, Name: "x", Msg: "it ended with status 1", Hint: "its last words"}
	}
	job, err = admin.BuildImage(ctx, client.Build{Name: "data", Run: []string{"false"}})
	if err != nil {
		t.Fatal(err)
	}
	failed, err := admin.FollowImage(ctx, job.ID, 0, func(client.ImageEvent) error { return nil })
	if err != nil || failed.State != "failed" || failed.Problem == nil || failed.Problem.Code != "image" || failed.Image != "build:data" {
		t.Errorf("%+v %v", failed, err)
	}
	s.images.make = func(ctx context.Context, _ broker.Caller, _ *image.Plan, _ broker.Live, _ func(int64)) (*image.Made, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	first, err1 := admin.PullImage(ctx, client.Pull{Ref: "registry.test/a:1"})
	_, err2 := admin.PullImage(ctx, client.Pull{Ref: "registry.test/b:1"})
	_, err3 := admin.PullImage(ctx, client.Pull{Ref: "registry.test/c:1"})
	var p *client.Problem
	if err1 != nil || err2 != nil || !errors.As(err3, &p) || p.Code != "capacity" || !p.Retry {
		t.Fatalf("%v %v %v", err1, err2, err3)
	}
	if err := admin.CancelImage(ctx, first.ID); err != nil {
		t.Error(err)
	}
	if over, err := admin.FollowImage(ctx, first.ID, 0, func(client.ImageEvent) error { return nil }); err != nil || over.State != "failed" {
		t.Errorf("%+v %v", over, err)
	}
	if list, err := admin.ImageJobs(ctx); err != nil || len(list) != 4 || list[0].State != "running" || list[1].State != "failed" || list[3].State != "done" {
		t.Errorf("%+v %v", list, err)
	}
	s.api.Close() // and what is under way ends
	if list, err := admin.ImageJobs(ctx); err != nil || list[0].State != "failed" {
		t.Errorf("%+v %v", list, err)
	}
}

// TestImagesThatAreNotMade: what cannot be a plan is refused at once, and starts
// no job.
func TestImagesThatAreNotMade(t *testing.T) {
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleAdmin)
	for _, c := range []struct{ path, body, want string }{
		{"pull", `{}`, "request"}, {"pull", `{"ref":"../x"}`, "request"}, {"pull", `{"ref":"registry.test/a:1","profile":"none"}`, "request"},
		{"pull", `{"ref":"registry.test/a:1","key":"x"}`, "request"}, {"pull", `{"ref":"registry.test/a:1","allow":[{"host":"*","ports":[443]}]}`, ""},
		{"build", `{"name":"a/b","run":["true"]}`, "request"}, {"build", `{"name":"a"}`, "image"}, {"build", `{"name":"a","pip":["x; id"],"pipIndex":"https://index.test/"}`, "image"},
		{"build", `{"name":"a","pip":["x"]}`, "request"}, {"build", `{"name":"a","pip":["x"],"pipIndex":"http://index.test/"}`, "request"},
		{"build", `{"name":"a","npm":["x"],"npmRegistry":"https://u:p@index.test/"}`, "request"}, {"build", `{"name":"a","run":["true"],"from":"oci:x/y:1"}`, "not_found"},
		{"build", `{"name":"a","run":["true"],"trust":"reviewed"}`, "request"}, {"build", `{"name":"a","run":["true"],"lock":{"version":2,"base":"host"}}`, "image"},
	} {
		a := s.do("POST", "/v1/images/"+c.path, key, c.body)
		if a.code() != c.want || strings.Contains(string(a.body), "u:p") {
			t.Errorf("%s %s: %d %s, want %s", c.path, c.body, a.StatusCode, a.body, c.want)
		}
		if c.want == "" { // what the call itself is refused for is the job's to say
			job := read[httpapi.ImageJob](t, a, http.StatusAccepted)
			waitFor(t, func() bool {
				job = read[httpapi.ImageJob](t, s.do("GET", "/v1/images/jobs/"+job.ID, key, ""), 200)
				return job.State != "running"
			})
			if job.State != "failed" || job.Problem == nil || job.Problem.Code != "unsupported" { // this stand makes none
				t.Errorf("%+v", job)
			}
		}
	}
	if list := read[httpapi.ImageJobList](t, s.do("GET", "/v1/images/jobs", key, ""), 200); len(list.Jobs) != 1 {
		t.Errorf("%+v", list)
	}
	if a := s.do("GET", "/v1/images/jobs/none", key, ""); a.code() != "not_found" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
