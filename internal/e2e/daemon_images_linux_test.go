package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/image"
	"github.com/callcell/callcell/internal/testing/world"
)

// serving starts a daemon in near and returns a client for each key. It ends
// with the test.
func (s *stand) serving(secrets ...string) (clients []*client.Client) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, "callcell"), "--config", s.conf, "serve", "--log", "json", "--listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env = s.dir, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.dir}
	out, err := cmd.StderrPipe()
	if err == nil {
		err = s.world.Start(cmd)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	address, ended := make(chan string, 1), make(chan []string, 1)
	go func() {
		var log []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var line struct{ Msg, Address string }
			log = append(log, lines.Text())
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				address <- line.Address
			}
		}
		ended <- log
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		log := <-ended
		if err := cmd.Wait(); err != nil || s.t.Failed() {
			s.t.Errorf("the daemon: %v\n%s", err, strings.Join(log, "\n"))
		}
	})
	select {
	case at := <-address:
		for _, secret := range secrets {
			c, err := client.New(at, secret)
			if err != nil {
				s.t.Fatal(err)
			}
			c.HTTP.Transport = &http.Transport{DisableKeepAlives: true, DialContext: s.dialNear}
			clients = append(clients, c)
		}
	case log := <-ended:
		ended <- log
		s.t.Fatal("it does not serve")
	case <-time.After(60 * time.Second):
		s.t.Fatal("it does not serve")
	}
	return clients
}

// dialNear dials in near.
func (s *stand) dialNear(ctx context.Context, network, address string) (c net.Conn, err error) {
	s.world.Near(func() { c, err = new(net.Dialer).DialContext(ctx, network, address) })
	return c, err
}

// secret makes a key of a team.
func (s *stand) secret(team, role string) string {
	s.t.Helper()
	s.command("team", "create", team, "--tier", "enterprise") // it may be there
	out, say, status := s.command("key", "create", "--team", team, "--role", role, "--profile", "*")
	if status != 0 {
		s.t.Fatalf("key: %d %s", status, say)
	}
	return strings.TrimSpace(out)
}

// TestDaemonMakesImages: an admin's daemon pulls and builds, in cells, as calls
// of his that have rows; a call of another team runs in what came of it; what is
// removed is collected; and who may call may not make.
func TestDaemonMakesImages(t *testing.T) { daemonMakesImages(t, usual(t)) }

// daemonMakesImages: at container the floors are low, elsewhere what they are by
// default.
func daemonMakesImages(t *testing.T, s *stand) {
	t.Helper()
	need(t, npmHere)
	s.forgetItsImages(t)
	floors := ""
	if s.level == "container" {
		floors = "floors: {model: container, thirdparty: container}\n"
	}
	s.write("callcell.yaml", s.text+floors+"profiles:\n  default: {trust: reviewed}\n"+
		"  small: {trust: reviewed, image: \"oci:registry.test/tools/small:1\"}\n  tiny: {trust: reviewed, image: \"build:tiny\", level: "+s.level+"}\n")
	if _, err := s.world.Push("registry.test/tools/small:1"); err != nil {
		t.Fatal(err)
	}
	clients := s.serving(s.secret("ops", "admin"), s.secret("blue", "call"))
	ops, blue := clients[0], clients[1]
	reach := client.Reach{CA: string(s.world.CA())}
	ctx := t.Context()
	if _, err := blue.PullImage(ctx, client.Pull{Ref: "registry.test/tools/small:1"}); err == nil {
		t.Error("who may call pulls")
	}
	m := s.world.Mark(t)
	pulled := s.made(ops, func() (*client.ImageJob, error) {
		return ops.PullImage(ctx, client.Pull{Ref: "registry.test/tools/small:1", Reach: reach}, client.Task("pull-1"))
	})
	built := s.made(ops, func() (*client.ImageJob, error) {
		return ops.BuildImage(ctx, client.Build{Name: "tiny", From: s.image, NPM: []string{world.Package}, NPMRegistry: "https://registry.test/npm/", Reach: reach})
	})
	m.Only(t, "registry.test:443")
	s.ranAsStrangers(built.Call)
	for profile, want := range map[string]string{"small": "cat /etc/greeting", "tiny": "node -p \"require('" + world.Package + "').answer\""} {
		r, err := blue.Run(ctx, &envelope.Call{Argv: []string{"/bin/sh", "-c", want}, Profile: profile})
		digest := map[string]string{"small": pulled.Digest, "tiny": built.Digest}[profile]
		if err != nil || !r.OK() || r.Image != digest {
			t.Errorf("%s: %+v %v", profile, r, err)
		}
	}
	out, say, _ := s.command("audit", "show", pulled.Call)
	if !strings.Contains(out, `"image pull"`) || !strings.Contains(out, `"pull-1"`) || !strings.Contains(out, `"ops"`) {
		t.Errorf("its row: %.400s%s", out, say)
	}
	refused, err := ops.PullImage(ctx, client.Pull{Ref: "denied.test/x:1", Reach: reach})
	if err != nil {
		t.Fatal(err)
	}
	if over, err := ops.FollowImage(ctx, refused.ID, 0, func(client.ImageEvent) error { return nil }); err != nil || over.State != "failed" || over.Problem == nil || over.Problem.Code != "image" {
		t.Errorf("%+v %v", over, err)
	}
	for _, name := range []string{pulled.Image, built.Image} {
		if err := ops.RemoveImage(ctx, name); err != nil {
			t.Error(err)
		}
	}
	if c, err := ops.CollectImages(ctx, false); err != nil || len(c.Removed) != 2 || len(c.Missing) > 0 {
		t.Errorf("%+v %v", c, err)
	}
	list, err := blue.Images(ctx)
	list = slices.DeleteFunc(list, func(i client.Image) bool { return i.Name == s.image })
	if err != nil || len(list) > 0 {
		t.Errorf("%+v %v", list, err)
	}
}

// made begins a job and waits until its image is there.
func (s *stand) made(c *client.Client, begin func() (*client.ImageJob, error)) *client.ImageJob {
	s.t.Helper()
	job, err := begin()
	if err != nil {
		s.t.Fatal(err)
	}
	var kinds []string
	job, err = c.FollowImage(s.t.Context(), job.ID, 0, func(e client.ImageEvent) error {
		kinds = append(kinds, e.Kind)
		return nil
	})
	if err != nil || job.State != "done" || kinds[0] != "begun" || kinds[len(kinds)-1] != "done" || job.Bytes == 0 {
		s.t.Fatalf("%q %+v %v", kinds, job, err)
	}
	var r image.Record
	if err := json.Unmarshal(job.Record, &r); err != nil || r.Digest() != job.Digest || r.Call != job.Call {
		s.t.Errorf("%s %v", job.Record, err)
	}
	return job
}
