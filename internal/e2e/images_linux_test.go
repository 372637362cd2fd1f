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

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/image"
	"github.com/callcell/callcell/internal/testing/world"
)

// command runs callcell in near, for what is not a call.
func (s *stand) command(args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	return s.commandBy(s.world.Start, args...)
}

// commandBy runs callcell where start starts it.
func (s *stand) commandBy(start func(*exec.Cmd) error, args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, "callcell"), append([]string{"--config", s.conf}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.dir}
	var out, say bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &say
	if err := start(cmd); err != nil {
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
	s.forgetItsImages(t)
	return s
}

// forgetItsImages has the trees go when the test ends: the store is this host's.
// The image that calls of the stand run in is of all tests.
func (s *stand) forgetItsImages(t *testing.T) {
	base := s.image
	t.Cleanup(func() {
		for _, r := range s.images() {
			if r.Name != base {
				s.command("image", "rm", r.Name)
			}
		}
		if _, say, status := s.command("image", "gc"); status != 0 {
			t.Errorf("gc: %d, %s", status, say)
		}
	})
}

func (s *stand) images() (all []image.Record) {
	s.t.Helper()
	out, say, _ := s.command("image", "list", "--json")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		s.t.Fatalf("%v\n%s%s", err, out, say)
	}
	return all
}

// terms are the flags of a build for the level of the stand. At container the
// packages were read, which code of third parties would be refused at; elsewhere
// nobody says who wrote them, nor where they are to be installed.
func (s *stand) terms() []string {
	args := []string{"--from", s.image, "--ca", "roots.pem"}
	if s.level == "container" {
		args = append(args, "--trust", "reviewed", "--level", "container")
	}
	return args
}

// built builds an image so, and returns its record.
func (s *stand) built(args ...string) image.Record {
	s.t.Helper()
	r := s.builtBy(s.world.Start, append(s.terms(), args...)...)
	s.ranAsStrangers(r.Call)
	return r
}

// builtBy builds one where start starts callcell.
func (s *stand) builtBy(start func(*exec.Cmd) error, args ...string) image.Record {
	s.t.Helper()
	out, say, status := s.commandBy(start, append([]string{"image", "build", "--json"}, args...)...)
	var r image.Record
	if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil {
		s.t.Fatalf("status %d, %v\n%s%s", status, err, out, say)
	}
	return r
}

// ranAsStrangers fails the test where a call that made an image did not run where
// code of third parties runs, and as such. At container it never does.
func (s *stand) ranAsStrangers(id string) {
	s.t.Helper()
	if s.level == "container" {
		return
	}
	var row struct {
		Level   envelope.Level
		Outcome envelope.Outcome
		Intent  struct {
			Envelope struct{ Trust envelope.Trust }
		}
	}
	if err := json.Unmarshal(s.row(id), &row); err != nil || row.Level != envelope.LevelUserKernel || row.Intent.Envelope.Trust != envelope.TrustThirdParty || row.Outcome != envelope.OutcomeCompleted {
		s.t.Errorf("it ran at %s as %s, and was %s: %v", row.Level, row.Intent.Envelope.Trust, row.Outcome, err)
	}
}

// TestImageIsBuilt of packages, and a rebuild by its lock is the same to the
// byte; a call finds what is installed.
func TestImageIsBuilt(t *testing.T) { imageIsBuilt(t, usual(t)) }

func imageIsBuilt(t *testing.T, s *stand) {
	t.Helper()
	need(t, pipHere)
	need(t, npmHere)
	s.forgetItsImages(t)
	m := s.world.Mark(t)
	packages := []string{"--pip", world.Package, "--npm", world.Package, "--index", "https://index.test/simple/", "--registry", "https://registry.test/npm/"}
	script := "set -e\npython3 -c 'import callcell_tiny as t; print(t.answer, t.__file__)'\nnode -p \"require('" + world.Package + "').answer\"\n" +
		"! touch /opt/callcell/x 2>/dev/null\nls /opt/callcell\n"
	says := "42 /opt/callcell/python/callcell_tiny.py\n42\nnode\npython\n"
	if s.image != "host" { // it has apt, and a list of where packages come from
		packages = append(packages, "--apt", world.Package, "--allow", "index.test")
		script, says = script+world.Package, strings.Replace(says, "\nnode", "\napt\nnode", 1)+"42\n"
	}
	r := s.built(append([]string{"tiny", "--save-lock", "tiny.lock"}, packages...)...)
	m.Only(t, "index.test:443", "registry.test:443")
	if r.Lock == nil || len(r.Lock.Pip) != 1 || r.Lock.Pip[0].Name != world.Package || !strings.Contains(string(r.Lock.NPM), "sha512-") || r.Recipe.Base != s.image ||
		s.image != "host" && (len(r.Lock.Apt) != 1 || r.Lock.Apt[0].Version != "1.0") {
		t.Errorf("%+v", r.Lock)
	}
	again := s.built(append([]string{"again", "--lock", "tiny.lock"}, packages...)...)
	if again.Added != r.Added || again.Added == "" {
		t.Errorf("by its lock: %s, then %s", r.Added, again.Added)
	}
	a := s.withImage("build:tiny", script)
	if a.ok(t); a.stdout != says || a.Image != r.Digest() || a.Level.String() != s.level {
		t.Errorf("%s, %s at %s, want %s\n%s", a.stdout, a.Image, a.Level, r.Digest(), a.stderr)
	}
	if out, _, _ := s.command("image", "inspect", "build:tiny"); !strings.Contains(out, world.Package+" 1.0") {
		t.Errorf("%s", out)
	}
}

// withImage runs a script of the shell in an image, without a network.
func (s *stand) withImage(name, script string) *answer {
	s.t.Helper()
	env := s.write("image.yaml", "version: 1\nlevel: "+s.level+"\ntrust: reviewed\nimage: \""+name+"\"\n")
	return s.callcell(call{}, []string{"run", "--json", "--envelope", env, "--", "/bin/sh", "-c", script})
}

// TestHostileInstallScript: what it leaves, it leaves in the image; it reaches
// nobody but its registry, and nothing of it lives on.
func TestHostileInstallScript(t *testing.T) { hostileInstallScript(t, usual(t)) }

func hostileInstallScript(t *testing.T, s *stand) {
	t.Helper()
	need(t, npmHere)
	s.forgetItsImages(t)
	m := s.world.Mark(t)
	s.built("hostile", "--npm", world.Hostile, "--registry", "https://registry.test/npm/", "--run", s.atStart())
	m.Only(t, "registry.test:443")
	await(t, "processes are left", func() bool { return len(running(s.bin)) == 0 })
	s.noMarkers()
	at := "/opt/callcell/node/node_modules/" + world.Hostile
	if a := s.withImage("build:hostile", "PYTHONPATH=/opt/callcell/python python3 -c pass; cat ran"); a.stdout != "in the cell" {
		t.Errorf("what runs as Python starts says %q\n%s", a.stdout, a.stderr)
	}
	s.noMarkers()
	a := s.withImage("build:hostile", "cd "+at+"; readlink shadow root; cat shadow stolen; ls -l rootsh | cut -c1-10; ls pipe; ./rootsh -p -c id; find / -name "+world.Marker+" 2>/dev/null")
	if !strings.HasPrefix(a.stdout, "/etc/shadow\n/\n-rwxr-xr-x\nuid=1000") || strings.Contains(a.stdout, "root:") || strings.Contains(a.stdout, world.Marker) || !strings.Contains(a.stderr, "'pipe'") {
		t.Errorf("%s\n%s", a.stdout, a.stderr)
	}
}

// atStart is a command of a build that leaves what runs whenever Python starts:
// it marks its cell, and this host if it runs there.
func (s *stand) atStart() string {
	code := "import os"
	for _, mark := range [][2]string{{"ran", "in the cell"}, {filepath.Join(s.dir, world.Marker), "x"}, {"/var/tmp/" + world.Marker, "x"}} {
		code += "\ntry: open(\"" + mark[0] + "\", \"w\").write(\"" + mark[1] + "\")\nexcept OSError: pass"
	}
	return "mkdir $PREFIX/python; echo '" + code + "' >$PREFIX/python/sitecustomize.py; echo 'import sitecustomize' >$PREFIX/python/x.pth"
}

// noMarkers fails the test where a hostile install script has left something on
// this host, or lives.
func (s *stand) noMarkers() {
	s.t.Helper()
	for _, dir := range []string{"/", "/root", "/etc", "/usr", "/usr/local/bin", "/home", "/var/tmp", "/opt", "/dev", "/run", s.dir} {
		if _, err := os.Lstat(filepath.Join(dir, world.Marker)); err == nil {
			s.t.Errorf("a marker in %s", dir)
		}
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		s.t.Fatalf("%v, %d processes", err, len(lines))
	}
	for _, name := range lines {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(world.Marker)) && bytes.HasPrefix(text, []byte("sh\x00")) {
			s.t.Errorf("%s lives: %q", name, text)
		}
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
// before as they were, no tree that the collector does not find, no process,
// nothing in the making, and a whole chain of rows.
func TestKilledMakings(t *testing.T) {
	kills := 5
	if long() {
		kills = 60
	}
	killedMakings(t, usual(t), kills)
}

func killedMakings(t *testing.T, s *stand, kills int) {
	t.Helper()
	need(t, npmHere)
	s.forgetItsImages(t)
	args := []string{"--npm", world.Package, "--registry", "https://registry.test/npm/"}
	before := s.built(append([]string{"kept"}, args...)...)
	began := time.Now()
	s.built(append([]string{"other"}, args...)...)
	whole := time.Since(began)
	args = append(append([]string{"image", "build", "kept", "--run", "date +%N >$PREFIX/now"}, s.terms()...), args...)
	for i := range kills {
		s.killed(whole*time.Duration(i+1)/time.Duration(kills+1), args...)
		s.killed(20*time.Millisecond*time.Duration(i), "image", "gc")
		if _, say, status := s.command("image", "gc"); status != 0 {
			t.Fatalf("gc: %d, %s", status, say)
		}
	}
	for _, r := range s.images() {
		if r.Name == s.image {
			continue
		}
		if a := s.withImage(r.Name, "ls /opt/callcell/node/node_modules/"+world.Package+"/index.js"); !a.ok(t) {
			t.Errorf("%s, made %v, before %v", r.Name, r.Made, before.Made)
		}
	}
	await(t, "processes are left", func() bool { return len(running(s.bin)) == 0 })
	if out, say, status := s.command("audit", "verify"); status != 0 || !strings.Contains(out+say, ": intact: ") {
		t.Errorf("%d: %s%s", status, out, say)
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
