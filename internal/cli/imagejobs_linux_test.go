package cli_test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

// TestImageJobsOutliveADaemon: a job that was answered as accepted is known to
// the next daemon, which says what became of it, when the one that took it is
// killed at once.
func TestImageJobsOutliveADaemon(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	secret := secretOf(t, bin, conf, "admin")
	type job struct{ ID, State, Image string }
	var taken []job
	for range 2 {
		d := startDaemon(t, bin, conf)
		status, _, body := ask(t, d, "POST", "/v1/images/pull", secret, `{"ref":"registry.invalid/tools:1"}`)
		var j job
		if err := json.Unmarshal(body, &j); err != nil || status != 202 || j.ID == "" {
			t.Fatalf("%d %s %v", status, body, err)
		}
		if err := d.end(syscall.SIGKILL); err == nil {
			t.Error("it was not killed")
		}
		taken = append(taken, j)
	}
	d := startDaemon(t, bin, conf)
	for _, j := range taken {
		status, _, body := ask(t, d, "GET", "/v1/images/jobs/"+j.ID, secret, "")
		var now job
		if err := json.Unmarshal(body, &now); err != nil || status != 200 || now.State != "lost" && now.State != "failed" || now.Image != "oci:registry.invalid/tools:1" {
			t.Errorf("%d %s %v", status, body, err)
		}
	}
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
}
