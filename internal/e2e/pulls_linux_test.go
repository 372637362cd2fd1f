package e2e_test

import (
	"os"
	"testing"
	"time"
)

// TestKilledPulls: whoever is killed while an image is pulled leaves the image whole
// or none, nothing in the making, and nothing that keeps the next pull from it.
func TestKilledPulls(t *testing.T) {
	const name = "oci:registry.test/tools/small:1"
	s := imageStand(t)
	if _, err := s.world.Push("registry.test/tools/small:1"); err != nil {
		t.Fatal(err)
	}
	pull := []string{"image", "pull", "--ca", "roots.pem", name}
	gone := func() {
		t.Helper()
		s.command("image", "rm", name) // it may not be there
		if _, say, status := s.command("image", "gc"); status != 0 {
			t.Fatalf("gc: %d, %s", status, say)
		}
	}
	works := func(when string) {
		t.Helper()
		a := s.withImage(name, "cat /etc/greeting")
		if a.ok(t); a.stdout != "hello of the image\n" {
			t.Errorf("%s: %q", when, a.stdout)
		}
	}
	began := time.Now()
	if _, say, status := s.command(pull...); status != 0 {
		t.Fatalf("%d %s", status, say)
	}
	whole := time.Since(began)
	const kills = 6
	for i := range kills {
		gone()
		s.killed(whole*time.Duration(i+1)/(kills+1), pull...)
		if _, say, status := s.command("image", "gc"); status != 0 {
			t.Fatalf("gc after the kill: %d, %s", status, say)
		}
		if len(s.images()) > 0 {
			works("killed when it was there already")
		}
	}
	if _, say, status := s.command(pull...); status != 0 {
		t.Fatalf("after the kills: %d %s", status, say)
	}
	works("after the kills")
	await(t, "trees in the making are left", func() bool {
		left, err := os.ReadDir("/var/lib/callcell/images/staging") // launcher.conf's default
		return err != nil || len(left) == 0
	})
}
