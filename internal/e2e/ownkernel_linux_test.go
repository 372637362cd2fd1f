package e2e_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/testing/helpers"
)

// ownKernelImage is the image that calls of TestOwnKernel run in: programs of this
// host, in a registry of the world. A snapshot of all of this host would take a
// minute; CALLCELL_TEST_LEVEL=userkernel makes one, and plays every test in it.
const ownKernelImage = "oci:registry.test/tools/ordinary:1"

// TestOwnKernel plays at userkernel what decides there: that ordinary programs
// reach what they may over the tunnel, that nothing else leaves this host, and
// that a secret at the edge stays there.
func TestOwnKernel(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(*testing.T, *stand)
	}{
		{"files go in and out", filesInAndOut},
		{"ordinary work", func(t *testing.T, s *stand) { ordinaryWork(t, s, worksHere()) }},
		{"ordinary tools reach what is allowed", func(t *testing.T, s *stand) { toolsReach(t, s, toolsHere(), nil) }},
		{"names resolve", namesResolve},
		{"the first instruction is a query", func(t *testing.T, s *stand) { firstInstructionIsAQuery(t, s, 20) }},
		{"what is not allowed fails fast", notAllowedFailsFast},
		{"without a network there is none", withoutNetwork},
		{"denials are in the row", denialsAreInTheRow},
		{"a list is enforced", enforcedHere},
		{"a relay inside launders nothing", relayLaundersNothing},
		{"names leak nothing", namesLeakNothing},
		{"both families", bothFamilies},
		{"the host is out of reach", hostIsOutOfReach},
		{"wildcards", wildcards},
		{"spellings", spellings},
		{"another name inside", otherNamesInside},
		{"ports of a name", portsOfAName},
		{"a credential in a header arrives", headerArrives},
		{"a credential in a header goes nowhere else", headerGoesNowhereElse},
		{"answers are masked", answersAreMasked},
		{"a credential in a header is nowhere in the cell", neverHas},
		{"a killed call leaves no secret", func(t *testing.T, s *stand) { killedLeaves(t, s, "callcell-launcher") }},
		{"a credential as file and variable", fileAndEnvironment},
		{"an image is built where code of third parties runs", imageIsBuilt},
		{"a hostile install script", hostileInstallScript},
		{"whoever is killed while an image is made", func(t *testing.T, s *stand) { killedMakings(t, s, 3) }},
		{"a daemon makes images", daemonMakesImages},
		{"many commands at once", func(t *testing.T, s *stand) { startsOfStrangers(t, s, 6, 1) }},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.play(t, ownKernel(t)) })
	}
}

func enforcedHere(t *testing.T, s *stand) { enforced(t, s) }

// toolsHere are the tools that the image has.
func toolsHere() []tool {
	return slices.DeleteFunc(tools(), func(tt tool) bool { return tt.name == "java" || tt.name == "psql" })
}

// worksHere are those for which the image has the programs: a compiler is as large
// as all of it.
func worksHere() []work {
	return slices.DeleteFunc(works(), func(w work) bool { return w.needs == "/usr/bin/gcc" })
}

// ownKernel is a usual stand, whose calls run at userkernel.
func ownKernel(t testing.TB) *stand {
	t.Helper()
	s := usual(t)
	if s.level == "userkernel" {
		return s // all of this host, see level
	}
	s.toOwnKernel()
	return s
}

func (s *stand) toOwnKernel() {
	s.t.Helper()
	state, err := s.ordinary()
	if err != nil {
		s.t.Fatal(err)
	}
	s.withImagesOf(s.t, state)
	s.level, s.image = "userkernel", ownKernelImage
}

// again is another stand like it.
func (s *stand) again(t testing.TB) *stand {
	t.Helper()
	other := usual(t)
	if s.level != other.level {
		other.toOwnKernel()
	}
	return other
}

// pullOrdinary builds what the level needs, and has the image pulled. It returns
// the state directory with its record.
func pullOrdinary(s *shared) (string, error) {
	if err := errors.Join(helpers.Runsc(s.bin), os.Chmod(sharedDir, 0o755)); err != nil { // its users read it
		return "", err
	}
	stream, err := ordinaryTree()
	if err != nil {
		return "", err
	}
	if _, err := s.world.PushLayers(strings.TrimPrefix(ownKernelImage, "oci:"), nil, stream); err != nil {
		return "", err
	}
	roots, state := filepath.Join(sharedDir, "roots.pem"), filepath.Join(sharedDir, "ordinary")
	text := fmt.Sprintf("version: 1\nstate: %s\nhelpers: %s\negress:\n%s  roots: %s\n", state, s.bin, egressConf, roots)
	err = errors.Join(os.WriteFile(roots, s.world.CA(), 0o600), os.WriteFile(filepath.Join(sharedDir, "ordinary.yaml"), []byte(text), 0o600))
	if err == nil {
		_, err = s.with(nil, "ordinary.yaml", "image", "pull", "--ca", roots, ownKernelImage)
	}
	return state, err
}

// forgetImages removes what was made for all tests, where there is any: the store
// of trees is this host's.
func (s *shared) forgetImages() error {
	var errs []error
	for conf, images := range map[string][]string{"ordinary.yaml": {ownKernelImage}, "snapshot.yaml": {"host"}, "data.yaml": {dataImage, "host"}} {
		if _, err := os.Stat(filepath.Join(sharedDir, conf)); err != nil {
			continue
		}
		for _, image := range images {
			_, err := s.with(nil, conf, "image", "rm", image)
			errs = append(errs, err)
		}
		_, err := s.with(nil, conf, "image", "gc")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// with runs callcell in near, with a configuration of all tests, started by a
// command where there is one. It returns what comes to standard output.
func (s *shared) with(wrap []string, conf string, args ...string) (string, error) {
	argv := append(slices.Clone(wrap), filepath.Join(s.bin, "callcell"), "--config", filepath.Join(sharedDir, conf))
	argv = append(argv, args...)
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + sharedDir}
	var out, say strings.Builder
	c.Stdout, c.Stderr = &out, &say
	err := s.world.Start(c)
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		err = fmt.Errorf("callcell %q: %w\n%s%s", args, err, out.String(), say.String())
	}
	return out.String(), err
}

const filesScript = `
import hashlib, os
data = open("in/dir \u00e9/data.bin", "rb").read()
print(len(data), hashlib.sha256(data).hexdigest())
os.makedirs("out/deep")
open("out/deep/\u00e9.bin", "wb").write(data[::-1])
os.symlink("/etc/passwd", "out/link"); os.mkfifo("out/pipe"); os.symlink("/etc", "out/etc")
`

// filesInAndOut: the bytes are the same on both ways, and a name that is no file
// of the working directory leads nowhere.
func filesInAndOut(t *testing.T, s *stand) {
	t.Helper()
	data := make([]byte, 4<<20)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	a := s.run(call{python: filesScript, files: map[string]string{"in/dir \u00e9/data.bin": string(data)},
		out: []string{"out/deep/\u00e9.bin", "out/link", "out/pipe", "out/etc/passwd", "out/none"}})
	if a.ok(t); a.stdout != fmt.Sprintf("%d %x\n", len(data), sha256.Sum256(data)) {
		t.Errorf("what went in: %s", a.stdout)
	}
	slices.Reverse(data)
	if len(a.Outputs) != 1 || !bytes.Equal(a.Outputs[0].Data, data) || len(a.Missing) != 4 {
		t.Errorf("%d files came out, missing %+v", len(a.Outputs), a.Missing)
	}
}
