package e2e_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/image"
	"github.com/callcell/callcell/internal/mcp"
	"github.com/callcell/callcell/internal/testing/helpers"
)

// dataImage has what the documentation says gives a model's code its usual tools.
const dataImage = "build:data"

// A dataHouse is a host on which little is installed, with dataImage built on it.
type dataHouse struct {
	state  string // directory
	wheels string // directory of what it was built of
	lock   image.Lock
	record image.Record
}

// few is a command that starts another as if little were installed here.
func few() []string {
	return []string{"/usr/bin/unshare", "--mount", "--propagation", "private", "/bin/sh", filepath.Join(helpers.Root(), "internal/e2e/testdata/data/fewer.sh"), filepath.Join(sharedDir, "few")}
}

// buildData builds it as the documentation has it, with the trust, level and floors
// that who sets none has, from an index of wheels that were fetched before.
func buildData(s *shared) (*dataHouse, error) {
	h := &dataHouse{state: filepath.Join(sharedDir, "data")}
	var err error
	if h.wheels, err = helpers.Fetched("wheels"); err != nil {
		return nil, err
	}
	roots, lock := filepath.Join(sharedDir, "roots.pem"), filepath.Join(sharedDir, "data.lock")
	text := fmt.Sprintf("version: 1\nstate: %s\nhelpers: %s\negress:\n%s  roots: %s\n", h.state, s.bin, egressConf, roots)
	if err := errors.Join(helpers.Runsc(s.bin), os.Chmod(sharedDir, 0o755), s.world.Wheels(h.wheels), // its users read it
		os.WriteFile(roots, s.world.CA(), 0o600), os.WriteFile(filepath.Join(sharedDir, "data.yaml"), []byte(text), 0o600)); err != nil {
		return nil, err
	}
	if _, err := s.with(few(), "data.yaml", "image", "host"); err != nil {
		return nil, err
	}
	out, err := s.with(few(), "data.yaml", "image", "build", "data", "--from", "host", "--pip", "numpy", "pandas", "matplotlib",
		"--index", "https://index.test/simple/", "--ca", roots, "--save-lock", lock, "--json")
	if err != nil {
		return nil, err
	}
	saved, err := os.ReadFile(lock)
	return h, errors.Join(err, json.Unmarshal([]byte(out), &h.record), json.Unmarshal(saved, &h.lock))
}

// inData is a usual stand in that house, whose calls run in dataImage at a level
// that auto makes of who wrote them.
func inData(t *testing.T, level envelope.Level) (*stand, *dataHouse) {
	t.Helper()
	s := usual(t)
	h, err := s.data()
	orSkip(t, err)
	if err := os.RemoveAll(filepath.Join(s.dir, "state")); err != nil {
		t.Fatal(err)
	}
	s.withImagesOf(t, h.state)
	s.level, s.image, s.wrap = level.String(), dataImage, few()
	return s, h
}

// trust is that of code that auto runs at the stand's level.
func (s *stand) trust() string {
	if s.level == "container" {
		return "reviewed"
	}
	return "model"
}

// TestDataImage: what was asked for is in the image, to the byte, and was put there
// where code of third parties runs.
func TestDataImage(t *testing.T) {
	s, h := inData(t, envelope.LevelUserKernel)
	sums := map[string]bool{}
	names, err := filepath.Glob(filepath.Join(h.wheels, "*.whl"))
	for _, name := range names {
		data, failed := os.ReadFile(name)
		err = errors.Join(err, failed)
		sum := sha256.Sum256(data)
		sums[hex.EncodeToString(sum[:])] = true
	}
	if err != nil || len(h.lock.Pip) != len(sums) {
		t.Errorf("%d packages of %d wheels, %v", len(h.lock.Pip), len(sums), err)
	}
	locked := map[string]bool{}
	for _, p := range h.lock.Pip {
		if locked[p.Name] = true; !sums[p.SHA256] {
			t.Errorf("%s %s is not one of them: %s", p.Name, p.Version, p.SHA256)
		}
	}
	if h.lock.Added != h.record.Added || h.record.Recipe == nil || h.record.Recipe.Base != "host" || !locked["numpy"] || !locked["pandas"] || !locked["matplotlib"] {
		t.Errorf("%+v", h.record)
	}
	out, err := s.with(nil, "data.yaml", "audit", "show", h.record.Call)
	if err != nil || !strings.Contains(out, `"level": "userkernel"`) || !strings.Contains(out, `"trust": "thirdparty"`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDataPlot: pandas reads a CSV of this repository and matplotlib writes a PNG
// out of a cell.
func TestDataPlot(t *testing.T) {
	want := highs(t)
	for _, l := range []envelope.Level{envelope.LevelContainer, envelope.LevelUserKernel} {
		t.Run(l.String(), func(t *testing.T) {
			s, h := inData(t, l)
			a := s.callcell(call{}, []string{"run", "--json", "--image", dataImage, "--trust", s.trust(), "--timeout", "10m", "--lang", "python",
				filepath.Join(helpers.Root(), "internal/e2e/testdata/data/plot.py"), "--in", weather(), "--out", "plot.png"})
			if a.ok(t); a.stdout != want || a.Level != l || a.Image != h.record.Digest() || len(a.Outputs) != 1 {
				t.Fatalf("at %s, %d files\n%s, want\n%s%s", a.Level, len(a.Outputs), a.stdout, want, a.stderr)
			}
			isPlot(t, a.Outputs[0].Data)
		})
	}
}

func weather() string { return filepath.Join(helpers.Root(), "examples/weather/weather.csv") }

// highs is what plot.py prints of the weather: how many days, and the mean high of
// each city.
func highs(t *testing.T) string {
	t.Helper()
	f, err := os.Open(weather())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 || rows[0][0] != "location" || rows[0][3] != "temp_max" {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	sum, days := map[string]float64{}, map[string]float64{}
	for _, row := range rows[1:] {
		high, err := strconv.ParseFloat(row[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum[row[0]] += high
		days[row[0]]++
	}
	text := fmt.Sprintln(len(rows) - 1)
	for _, city := range sortedKeys(sum) {
		text += fmt.Sprintf("%s %.4f\n", city, sum[city]/days[city])
	}
	return text
}

// isPlot fails the test where a picture is not the plot: its size, both lines, and
// more white than anything else.
func isPlot(t *testing.T, data []byte) {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[color.NRGBA]int{}
	size := picture.Bounds().Size()
	for y := range size.Y {
		for x := range size.X {
			counts[color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA)]++
		}
	}
	white, red, blue := counts[color.NRGBA{255, 255, 255, 255}], counts[color.NRGBA{255, 0, 0, 255}], counts[color.NRGBA{0, 0, 255, 255}]
	if size.X != 800 || size.Y != 400 || red < 200 || blue < 200 || white < size.X*size.Y/2 {
		t.Errorf("%v, white %d, red %d, blue %d of %d colours", size, white, red, blue, len(counts))
	}
}

// TestDataWork: what needs more of this host than the image of TestOwnKernel has.
func TestDataWork(t *testing.T) {
	s, _ := inData(t, envelope.LevelUserKernel)
	t.Run("a C compiler", func(t *testing.T) {
		s.t = t
		ordinaryWork(t, s, slices.DeleteFunc(works(), func(w work) bool { return w.needs != "/usr/bin/gcc" }))
	})
	t.Run("50 MB in and out", func(t *testing.T) {
		s.t = t
		muchInAndOut(t, s)
	})
}

const muchScript = `
import numpy as np
data = np.fromfile("in.bin", dtype="<u4")
print(data.size, int(data.sum(dtype=np.uint64)))
(data ^ np.uint32(0xffffffff)).tofile("out.bin")
`

func muchInAndOut(t *testing.T, s *stand) {
	t.Helper()
	const size = 50_000_000
	data := make([]byte, size)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	env := s.write("much.yaml", "version: 1\nimage: \""+dataImage+"\"\nfiles: {scratch: 256Mi, outputs: {count: 1, bytes: 64Mi}}\n"+
		"resources: {cpu: 2, cpuTime: 5m, wall: 10m, memory: 1Gi, fileSize: 64Mi}\n")
	out := filepath.Join(s.dir, "much")
	say := string(s.output("run", "--envelope", env, "--in", s.write("in.bin", string(data)), "--out", "out.bin", "--out-dir", out, "--lang", "python", s.write("much.py", muchScript)))
	var sum uint64
	for i := 0; i < size; i += 4 {
		sum += uint64(data[i]) | uint64(data[i+1])<<8 | uint64(data[i+2])<<16 | uint64(data[i+3])<<24
	}
	if want := fmt.Sprintln(size/4, sum); say != want {
		t.Errorf("%q, want %q", say, want)
	}
	for i := range data {
		data[i] ^= 0xff
	}
	if got, err := os.ReadFile(filepath.Join(out, "out.bin")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came out, %v", len(got), err)
	}
}

// TestDataByMCP: a client of others has a script that a model wrote run over a file
// of the project, with a profile that init drafts and the floors of who sets none,
// and the row names the task.
func TestDataByMCP(t *testing.T) {
	dir := installed(t)
	s, h := inData(t, envelope.LevelUserKernel)
	drafted := string(s.output("init", "--name", "data", "--image", dataImage, "--timeout", "10m"))
	_, profiles, _ := strings.Cut(drafted, "\nversion: 1\n")
	project := s.aProject()
	days, err := os.ReadFile(weather())
	if err != nil {
		t.Fatal(err)
	}
	s.write("project/weather.csv", string(days))
	const code = "import pandas as pd\n" +
		"d = pd.read_csv('weather.csv')\nprint(len(d))\nfor city, mean in d.groupby('location').temp_max.mean().items(): print(f'{city} {mean:.4f}')\n" +
		"d.tail(1).to_csv('last.csv', index=False)\n"
	argv := append([]string{"testdata/data/ask.py", code}, s.mcpServer(profiles, "--profile", "data-read", "--tree", project, "--task", "pandas-of-today")...)
	cmd := exec.Command("python3", argv...)
	cmd.Env = append(cmd.Environ(), "PYTHONPATH="+filepath.Join(dir, "python"))
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := s.world.Run(cmd); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var got struct {
		IsError bool
		Answer  mcp.Answer
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.IsError || got.Answer.Untrusted == nil {
		t.Fatalf("%v\n%s\n%s", err, out.String(), stderr.String())
	}
	a, u := got.Answer, got.Answer.Untrusted
	if u.Stdout.Text != highs(t) || a.Level != "userkernel" || a.Task != "pandas-of-today" || len(u.Changes) != 1 || u.Diff == nil || !strings.Contains(u.Diff.Text, "+location,") {
		t.Errorf("%+v\n%+v", a, u)
	}
	if _, err := os.Stat(filepath.Join(project, "last.csv")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the project was changed: %v", err)
	}
	s.rows("pandas-of-today", 1)
	row := string(s.row(a.ID))
	for _, want := range []string{`"level": "userkernel"`, `"trust": "model"`, `"task": "pandas-of-today"`, `"outcome": "completed"`, h.record.Digest()} {
		if !strings.Contains(row, want) {
			t.Errorf("the row has no %s:\n%s", want, row)
		}
	}
}
