package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/image"
	"github.com/callcell/callcell/internal/testing/world"
)

// command runs callcell in near, for what is not a call.
func (s *stand) command(args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, "callcell"), append([]string{"--config", s.conf}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.dir}
	var out, say bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &say
	if err := s.world.Start(cmd); err != nil {
		s.t.Fatal(err)
	}
	err := cmd.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		s.t.Fatal(err)
	}
	return out.String(), say.String(), cmd.ProcessState.ExitCode()
}

// imageStand is a stand whose trees go when it ends: the store is this host's.
func imageStand(t *testing.T) *stand {
	t.Helper()
	s := usual(t)
	t.Cleanup(func() {
		for _, r := range s.images() {
			s.command("image", "rm", r.Name)
		}
		if _, say, status := s.command("image", "gc"); status != 0 {
			t.Errorf("gc: %d, %s", status, say)
		}
	})
	return s
}

func (s *stand) images() (all []image.Record) {
	s.t.Helper()
	out, say, _ := s.command("image", "list", "--json")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		s.t.Fatalf("%v\n%s%s", err, out, say)
	}
	return all
}

// built builds an image and returns its record.
func (s *stand) built(args ...string) image.Record {
	s.t.Helper()
	out, say, status := s.command(append([]string{"image", "build", "--json", "--trust", "reviewed", "--level", "container", "--ca", "roots.pem"}, args...)...)
	var r image.Record
	if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil {
		s.t.Fatalf("status %d, %v\n%s%s", status, err, out, say)
	}
	return r
}

// TestImageIsBuilt of packages, and a rebuild by its lock is the same to the
// byte; a call finds what is installed.
func TestImageIsBuilt(t *testing.T) {
	need(t, "/usr/lib/python3/dist-packages/pip")
	need(t, "/usr/bin/npm")
	s := imageStand(t)
	m := s.world.Mark(t)
	packages := []string{"--pip", world.Package, "--npm", world.Package, "--index", "https://index.test/simple/", "--registry", "https://registry.test/npm/"}
	r := s.built(append([]string{"tiny", "--save-lock", "tiny.lock"}, packages...)...)
	m.Only(t, "index.test:443", "registry.test:443")
	if r.Lock == nil || len(r.Lock.Pip) != 1 || r.Lock.Pip[0].Name != world.Package || !strings.Contains(string(r.Lock.NPM), "sha512-") || r.Recipe.Base != "host" {
		t.Errorf("%+v", r.Lock)
	}
	again := s.built(append([]string{"again", "--lock", "tiny.lock"}, packages...)...)
	if again.Added != r.Added || again.Added == "" {
		t.Errorf("by its lock: %s, then %s", r.Added, again.Added)
	}
	script := "set -e\npython3 -c 'import callcell_tiny as t; print(t.answer, t.__file__)'\nnode -p \"require('" + world.Package + "').answer\"\n" +
		"! touch /opt/callcell/x 2>/dev/null\nls /opt/callcell\n"
	a := s.withImage("build:tiny", script)
	if a.ok(t); a.stdout != "42 /opt/callcell/python/callcell_tiny.py\n42\nnode\npython\n" || a.Image != r.Digest() {
		t.Errorf("%s %s, want %s\n%s", a.stdout, a.Image, r.Digest(), a.stderr)
	}
	if out, _, _ := s.command("image", "inspect", "build:tiny"); !strings.Contains(out, world.Package+" 1.0") {
		t.Errorf("%s", out)
	}
}

// withImage runs a script of the shell in an image, without a network.
func (s *stand) withImage(name, script string) *answer {
	s.t.Helper()
	env := s.write("image.yaml", "version: 1\nlevel: container\ntrust: reviewed\nimage: \""+name+"\"\n")
	return s.callcell(call{}, []string{"run", "--json", "--envelope", env, "--", "/bin/sh", "-c", script})
}

// TestHostileInstallScript: what it leaves, it leaves in the image; it reaches
// nobody but its registry, and nothing of it lives on.
func TestHostileInstallScript(t *testing.T) {
	need(t, "/usr/bin/npm")
	s := imageStand(t)
	m := s.world.Mark(t)
	s.built("hostile", "--npm", world.Hostile, "--registry", "https://registry.test/npm/")
	m.Only(t, "registry.test:443")
	for _, dir := range []string{"/", "/root", "/etc", "/usr", "/usr/local/bin", "/home", "/var/tmp", "/opt", "/dev", "/run", s.dir} {
		if _, err := os.Lstat(filepath.Join(dir, world.Marker)); err == nil {
			t.Errorf("a marker in %s", dir)
		}
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatalf("%v, %d processes", err, len(lines))
	}
	for _, name := range lines {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(world.Marker)) && bytes.HasPrefix(text, []byte("sh\x00")) {
			t.Errorf("%s lives: %q", name, text)
		}
	}
	at := "/opt/callcell/node/node_modules/" + world.Hostile
	a := s.withImage("build:hostile", "cd "+at+"; readlink shadow root; cat shadow stolen; ls -l rootsh | cut -c1-10; ls pipe; ./rootsh -p -c id; find / -name "+world.Marker+" 2>/dev/null")
	if !strings.HasPrefix(a.stdout, "/etc/shadow\n/\n-rwxr-xr-x\nuid=1000") || strings.Contains(a.stdout, "root:") || strings.Contains(a.stdout, world.Marker) || !strings.Contains(a.stderr, "'pipe'") {
		t.Errorf("%s\n%s", a.stdout, a.stderr)
	}
}

// TestImageIsPulled by tag, by digest, and not by another digest; what a layer
// hides is not there, and nothing is pulled from elsewhere.
func TestImageIsPulled(t *testing.T) {
	s := imageStand(t)
	digest, err := s.world.Push("registry.test/tools/small:1")
	if err != nil {
		t.Fatal(err)
	}
	m := s.world.Mark(t)
	out, say, status := s.command("image", "pull", "--json", "--ca", "roots.pem", "oci:registry.test/tools/small:1")
	var r image.Record
	if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil || r.Source == nil || r.Source.Digest != digest {
		t.Fatalf("status %d, %v, %+v, want %s\n%s", status, err, r.Source, digest, say)
	}
	m.Only(t, "registry.test:443")
	a := s.withImage("oci:registry.test/tools/small:1", "cat /etc/greeting /data/table.csv; echo $GREETING $PATH; cat /etc/gone /usr/bin/suid; echo x > /etc/greeting; cat /etc/passwd; echo /*")
	want := "hello of the image\na,b\n1,2\nhi /bin\n#!/bin/sh\nroot:x:0:0:"
	if !strings.HasPrefix(a.stdout, want) || strings.Contains(a.stdout, "hidden") || strings.Contains(a.stdout, "/home") || a.Image != r.Digest() {
		t.Errorf("%s\n%s\n%s", a.stdout, a.stderr, a.end())
	}
	if _, say, status := s.command("image", "pull", "--ca", "roots.pem", "oci:registry.test/tools/small@"+digest); status != 0 {
		t.Errorf("by digest: %d %s", status, say)
	}
	other := strings.Replace(digest, digest[7:15], "00000000", 1)
	for _, ref := range []string{"oci:registry.test/tools/small@" + other, "oci:registry.test/tools/none:1", "oci:denied.test/x:1"} {
		if _, say, status := s.command("image", "pull", "--ca", "roots.pem", ref); status == 0 || !strings.Contains(say, "callcell: ") {
			t.Errorf("%s: %d %s", ref, status, say)
		}
	}
	if all := s.images(); len(all) != 2 {
		t.Errorf("%d images", len(all))
	}
}

// TestKilledMakings: whoever is killed while an image is made leaves the ones
// before as they were, no tree that the collector does not find, and nothing in
// the making.
func TestKilledMakings(t *testing.T) {
	need(t, "/usr/bin/npm")
	s := imageStand(t)
	args := []string{"--npm", world.Package, "--registry", "https://registry.test/npm/"}
	before := s.built(append([]string{"kept"}, args...)...)
	began := time.Now()
	s.built(append([]string{"other"}, args...)...)
	whole := time.Since(began)
	kills := 5
	if long() {
		kills = 60
	}
	for i := range kills {
		s.killed(whole*time.Duration(i+1)/time.Duration(kills+1), append([]string{"image", "build", "kept", "--trust", "reviewed", "--level", "container", "--ca", "roots.pem", "--run", "date +%N >$PREFIX/now"}, args...)...)
		s.killed(20*time.Millisecond*time.Duration(i), "image", "gc")
		if _, say, status := s.command("image", "gc"); status != 0 {
			t.Fatalf("gc: %d, %s", status, say)
		}
	}
	for _, r := range s.images() {
		if a := s.withImage(r.Name, "ls /opt/callcell/node/node_modules/"+world.Package+"/index.js"); !a.ok(t) {
			t.Errorf("%s, made %v, before %v", r.Name, r.Made, before.Made)
		}
	}
	await(t, "trees in the making are left", func() bool {
		left, err := os.ReadDir("/var/lib/callcell/images/staging") // launcher.conf's default
		return err != nil || len(left) == 0
	})
}

// killed runs callcell in near and kills it after a while.
func (s *stand) killed(after time.Duration, args ...string) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, "callcell"), append([]string{"--config", s.conf}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.dir}
	if err := s.world.Start(cmd); err != nil {
		s.t.Fatal(err)
	}
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait() // killed, or done before
	kill.Stop()
}
