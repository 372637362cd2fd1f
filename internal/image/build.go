package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// BuildOptions say what is installed on top of a base.
type BuildOptions struct {
	Name    string  // NAME of build:NAME
	Base    *Record // nil: the slice of this host
	Pip     []string
	NPM     []string
	Apt     []string
	Run     []string // commands of the shell; what they leave in $PREFIX is the image's
	Lock    *Lock    // install exactly that
	Network envelope.Network
	// Indexes are where packages come from, where it is not the default of
	// the base's own clients.
	PipIndex, NPMRegistry string
	// CA is a PEM file that the clients are to trust, beside their own; empty
	// is none.
	CA     []byte
	Tool   []byte // the text of callcell-image
	Limits Limits
}

// Where a build puts what it installs, below the working directory.
const prefix = "image"

// The outputs of a build.
const (
	pipFile  = "pip.json"
	npmFile  = "npm.json"
	debsFile = "debs.txt"
)

var (
	pipName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?([<>=!~]=?=?[A-Za-z0-9.*+!,<>=~-]+)?$`)
	npmName = regexp.MustCompile(`^(@[a-z0-9][a-z0-9._-]*/)?[a-zA-Z0-9][a-zA-Z0-9._-]*(@[A-Za-z0-9^~<>=.*|+-]+)?$`)
	aptName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]*(=[A-Za-z0-9.:~+-]+)?$`)
)

// PlanBuild plans to build an image: what install scripts do, they do in a
// cell, which is given no credentials and reaches what Network says.
func PlanBuild(o BuildOptions) (*Plan, error) {
	name := "build:" + o.Name
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := o.check(name); err != nil {
		return nil, err
	}
	p := &Plan{
		Name: name, Envelope: making(false, o.Network, o.Limits.Bytes), added: true,
		Forms: Forms{Dir: true, EROFS: true},
		Call: &envelope.Call{
			Tool: "image build", Argv: []string{"/bin/sh", "build.sh"},
			Inputs:  o.inputs(),
			Outputs: []string{pipFile, npmFile, debsFile},
		},
	}
	if o.Base != nil {
		p.Envelope.Image, p.base = o.Base.Name, o.Base.Digest()
	}
	p.record = func(r *envelope.Result) (*Record, error) { return o.built(name, r) }
	return p, nil
}

func (o *BuildOptions) check(name string) error {
	fail := func(msg, hint string) error { return &Error{Kind: KindSource, Name: name, Msg: msg, Hint: hint} }
	for _, list := range []struct {
		kind  string
		names []string
		good  *regexp.Regexp
	}{{"pip", o.Pip, pipName}, {"npm", o.NPM, npmName}, {"apt", o.Apt, aptName}} {
		for _, n := range list.names {
			if len(n) > 214 || !list.good.MatchString(n) {
				return fail(fmt.Sprintf("%.60q is not the name of a package for %s", n, list.kind), "NAME, or NAME with a version as "+list.kind+" writes it")
			}
		}
	}
	switch {
	case len(o.Pip)+len(o.NPM)+len(o.Apt)+len(o.Run) == 0:
		return fail("nothing is to be installed", "--pip, --npm, --apt or --run")
	case o.Base == nil && len(o.Apt) > 0:
		return fail("the slice of this host has no package lists", "install them on this host, or build --from an oci: image of Debian's")
	case o.Base != nil && o.Base.Added != "":
		return fail(o.Base.Name+" is itself built on a base", "build from that base, and name all packages")
	case o.Lock != nil && o.Lock.Base != o.baseName():
		return fail("the lock is for the base "+o.Lock.Base, "build --from that")
	}
	return nil
}

func (o *BuildOptions) baseName() string {
	if o.Base == nil {
		return envelope.ImageHost
	}
	return o.Base.Name
}

func (o *BuildOptions) baseDigest() string {
	if o.Base == nil {
		return ""
	}
	return o.Base.Digest()
}

func (o *BuildOptions) inputs() []envelope.File {
	files := []envelope.File{{Name: Tool, Data: o.Tool, Executable: true}, {Name: "build.sh", Data: []byte(o.script())}}
	if len(o.Pip) > 0 {
		text := strings.Join(o.Pip, "\n") + "\n"
		if o.Lock != nil {
			text = o.Lock.requirements()
		}
		files = append(files, envelope.File{Name: "requirements.txt", Data: []byte(text)})
	}
	if len(o.NPM) > 0 && o.Lock != nil {
		files = append(files, envelope.File{Name: prefix + "/node/package-lock.json", Data: envelope.Data(o.Lock.NPM)},
			envelope.File{Name: prefix + "/node/package.json", Data: []byte(rootPackage(o.Lock.NPM))})
	}
	if len(o.CA) > 0 {
		files = append(files, envelope.File{Name: "ca.pem", Data: o.CA})
	}
	return files
}

// rootPackage is the package.json that a lock was made for: npm keeps it in
// the lock as the package without a name.
func rootPackage(lock []byte) string {
	var l struct {
		Packages map[string]struct {
			Dependencies json.RawMessage `json:"dependencies"`
		} `json:"packages"`
	}
	if json.Unmarshal(lock, &l) != nil || l.Packages[""].Dependencies == nil {
		return "{}\n"
	}
	return `{"dependencies":` + string(l.Packages[""].Dependencies) + "}\n"
}

// built makes the record of a build that has come to its end.
func (o *BuildOptions) built(name string, r *envelope.Result) (*Record, error) {
	lock := &Lock{Version: 1, Base: o.baseName(), BaseDigest: o.baseDigest()}
	var faults []error
	if len(o.Pip) > 0 {
		list, err := pipReport(output(r, pipFile))
		lock.Pip, faults = list, append(faults, named(pipFile, err))
	}
	if len(o.NPM) > 0 {
		lock.NPM = json.RawMessage(output(r, npmFile))
		if !json.Valid(lock.NPM) {
			faults = append(faults, errors.New(npmFile+" is not JSON"))
		}
	}
	if len(o.Apt) > 0 {
		list, err := debReport(output(r, debsFile))
		lock.Apt, faults = list, append(faults, named(debsFile, err))
	}
	record := &Record{Name: name, Env: o.env(), Lock: lock, Recipe: &Recipe{
		Base: o.baseName(), BaseDigest: o.baseDigest(), Pip: o.Pip, NPM: o.NPM, Apt: o.Apt, Run: o.Run,
	}}
	if o.Base != nil {
		record.Tree = o.Base.Tree
	}
	return record, errors.Join(faults...)
}

func named(file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", file, err)
}

// env are the variables by which programs find what is installed.
func (o *BuildOptions) env() map[string]string {
	const at = cell.AddedDir
	env := map[string]string{}
	path := "/usr/local/bin:/usr/bin:/bin"
	if o.Base != nil {
		maps.Copy(env, o.Base.Env)
		if own := env["PATH"]; own != "" {
			path = own
		}
	}
	var front []string
	if len(o.Pip) > 0 {
		env["PYTHONPATH"] = at + "/python"
		front = append(front, at+"/python/bin")
	}
	if len(o.NPM) > 0 {
		env["NODE_PATH"] = at + "/node/node_modules"
		front = append(front, at+"/node/node_modules/.bin")
	}
	if len(o.Apt) > 0 {
		env["LD_LIBRARY_PATH"] = at + "/apt/usr/lib:" + at + "/apt/usr/lib/x86_64-linux-gnu:" + at + "/apt/usr/lib/aarch64-linux-gnu"
		front = append(front, at+"/apt/usr/bin", at+"/apt/bin")
	}
	if len(o.Run) > 0 {
		front = append(front, at+"/bin")
	}
	env["PATH"] = strings.Join(append(front, path), ":")
	return env
}
