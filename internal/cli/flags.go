package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/config"
)

// callFlags say what to run and what it may touch; run and explain share them.
type callFlags struct {
	Envelope string `help:"YAML file with the envelope: what the call may touch. Default: a small closed one." placeholder:"FILE" xor:"permission"`
	Profile  string `help:"Named envelope of the configuration. Flags then narrow it and cannot widen it." placeholder:"NAME" xor:"permission"`

	Level   *envelope.Level    `help:"Isolation: auto, language, container, userkernel, microvm." placeholder:"LEVEL"`
	Trust   *envelope.Trust    `help:"Who wrote the code: reviewed (you have read it), model, thirdparty, hostile." placeholder:"WHO"`
	Image   *string            `help:"Root that the cell sees: host, oci:REF or build:NAME." placeholder:"IMAGE"`
	Timeout *envelope.Duration `help:"Wall time. The default envelope has 30s." placeholder:"TIME"`
	Memory  *envelope.Size     `help:"Memory of the whole cell. The default envelope has 256Mi." placeholder:"SIZE"`
	CPU     *envelope.CPU      `name:"cpu" help:"Number of CPUs: 0.5. The default envelope has 1." placeholder:"N"`
	Pids    *envelope.Count    `help:"Processes and threads at once. The default envelope has 64." placeholder:"N"`
	Scratch *envelope.Size     `help:"Writable space. The default envelope has 64Mi." placeholder:"SIZE"`

	Allow []string `help:"Host that may be reached: NAME, *.NAME or an address; ports (443 where none is named), and what is spoken: tls, http, postgres, tcp." placeholder:"HOST[:PORT,PORT][/PROTOCOL]" sep:"none"`

	Need []envelope.Need `help:"What the call cannot do without, beside what is derived: native-packages, system-calls, kernel-features, data-transform, third-party-code, tenant-secrets, network. It never makes the level weaker." placeholder:"NEED"`

	treeFlags

	In    []string `help:"File for the call; it lands in the working directory as its base name, or as NAME." placeholder:"FILE[=NAME]" sep:"none"`
	Out   []string `help:"File to collect from the working directory; a name that ends in / is a directory." placeholder:"NAME" sep:"none"`
	Env   []string `help:"Environment variable for the program." placeholder:"NAME=VALUE" sep:"none"`
	Stdin string   `help:"File for the program's standard input; - is ours." placeholder:"FILE"`
	Task  string   `help:"Your own id of the work this call belongs to." placeholder:"ID"`
	Tool  string   `help:"What you call the tool; it stands in the row." placeholder:"NAME"`
	Lang  string   `help:"Run code in this language: python, node, sh. The code is in FILE, or comes on standard input." placeholder:"LANG"`
	File  string   `arg:"" optional:"" help:"The code, with --lang; - is standard input. A command comes after --."`
}

// builder makes a house over runtimes, which it takes over.
type builder func(*assembly.Runtimes, assembly.Options) (*assembly.House, error)

// open starts the processes of a call, reads the call meanwhile, and builds its
// house. On an error nothing is left open.
func (f *callFlags) open(a *app, cfg *config.Config, build builder) (*envelope.Call, *assembly.House, error) {
	runtimes := a.start(cfg)
	call, local, err := f.read(a)
	if err != nil {
		if failed := runtimes.Close(); failed != nil {
			a.say(failed.Error())
		}
		return nil, nil, err
	}
	house, err := build(runtimes, assembly.Options{Config: cfg, Local: local, Watch: &watch{p: &a.printer}, Version: a.version})
	return call, house, err
}

// far makes the call for a daemon, which was opened with err: flags narrow what
// its profile has.
func (f *callFlags) far(a *app, d *remote, err error) (*envelope.Call, place, error) {
	if err != nil {
		return nil, nil, err
	}
	if f.Envelope != "" {
		return nil, nil, usage("--envelope: the daemon at "+d.address+" makes the call, and its profiles say what that may touch", "--profile NAME, and flags to narrow it")
	}
	call, err := f.call(a)
	if err == nil {
		call.Request, err = f.request()
	}
	return call, d, err
}

// read makes the call and, without a profile, its envelope. It holds of the
// rights that we were started with what the user's own files need.
func (f *callFlags) read(a *app) (*envelope.Call, *envelope.Envelope, error) {
	if err := assembly.DropPrivileges(); err != nil {
		return nil, nil, err
	}
	call, err := f.call(a)
	if err != nil {
		return nil, nil, err
	}
	local, err := f.local(call)
	return call, local, err
}

// call makes the call out of the flags. Files are read with the user's own
// rights, here and nowhere else.
func (f *callFlags) call(a *app) (*envelope.Call, error) {
	c := &envelope.Call{Tool: f.Tool, Task: f.Task, Profile: f.Profile, Needs: f.Need, Outputs: f.Out}
	if c.Tool == "" {
		c.Tool = "run"
	}
	for _, fill := range []func(*app, *envelope.Call) error{f.program, f.stdin, f.inputs, f.env, f.fill} {
		if err := fill(a, c); err != nil {
			return nil, err
		}
	}
	if f.Profile == "" {
		return c, nil
	}
	var err error
	c.Request, err = f.request()
	return c, err
}

// program sets what is to run.
func (f *callFlags) program(a *app, c *envelope.Call) error {
	switch {
	case f.Lang == "" && f.File != "":
		return usage(fmt.Sprintf("what is to be done with %s?", f.File),
			"a file of code: --lang python FILE; a command: callcell run -- COMMAND ARG...")
	case f.Lang == "" && len(a.command) == 0:
		return usage("nothing to run", "callcell run -- COMMAND ARG..., or --lang python FILE")
	case f.Lang == "":
		c.Argv = a.command
		return nil
	case a.dashed:
		return usage("--lang takes one file of code and no arguments",
			"for a script with arguments: --in FILE -- python3 FILE ARG...")
	case (f.File == "" || f.File == "-") && f.Stdin != "":
		return usage("--stdin needs the code in a file", "callcell run --lang python FILE --stdin DATA")
	}
	code, err := f.code(a)
	c.Script = &envelope.Script{Lang: f.Lang, Code: string(code)}
	return err
}

func (f *callFlags) code(a *app) ([]byte, error) {
	if f.File != "" && f.File != "-" {
		return readFile(f.File, envelope.MaxCode)
	}
	a.waiting("the code")
	return readAll(a.stdin, "standard input", envelope.MaxCode)
}

func (f *callFlags) stdin(a *app, c *envelope.Call) (err error) {
	switch f.Stdin {
	case "":
		return nil
	case "-":
		a.waiting("the program's input")
		c.Stdin, err = readAll(a.stdin, "standard input", envelope.MaxStdin)
	default:
		c.Stdin, err = readFile(f.Stdin, envelope.MaxStdin)
	}
	return err
}

// waiting says, to somebody at a terminal, why nothing happens.
func (a *app) waiting(what string) {
	if isTerminal(a.stdin) {
		a.say("reading " + what + " from the terminal, up to Ctrl-D")
	}
}

func (f *callFlags) inputs(_ *app, c *envelope.Call) error {
	left := int64(envelope.MaxInputBytes)
	for _, spec := range f.In {
		file, err := input(spec, min(left, maxInput))
		if err != nil {
			return err
		}
		left -= int64(len(file.Data))
		c.Inputs = append(c.Inputs, file)
	}
	return nil
}

func (f *callFlags) env(_ *app, c *envelope.Call) error {
	for _, v := range f.Env {
		name, value, ok := strings.Cut(v, "=")
		if !ok {
			return usage(fmt.Sprintf("--env %s: no value", v), "write NAME=VALUE; your own environment is never handed on")
		}
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		if _, twice := c.Env[name]; twice {
			return usage(fmt.Sprintf("--env %s: given twice", name), "give it once")
		}
		c.Env[name] = value
	}
	return nil
}

// request is the flags as a narrowing (or, for the local operator's own
// envelope, as an overlay).
func (f *callFlags) request() (*envelope.Request, error) {
	r := &envelope.Request{Level: f.Level, Trust: f.Trust, Image: f.Image}
	if len(f.Allow) > 0 {
		allow, err := allowed("--allow", f.Allow)
		if err != nil {
			return nil, err
		}
		r.Network = &envelope.NetworkRequest{Allow: &allow}
	}
	if f.Scratch != nil {
		r.Files = &envelope.FilesRequest{Scratch: f.Scratch}
	}
	if f.Timeout != nil || f.Memory != nil || f.CPU != nil || f.Pids != nil {
		r.Resources = &envelope.ResourcesRequest{Wall: f.Timeout, Memory: f.Memory, CPU: f.CPU, Pids: f.Pids}
	}
	return r, nil
}

// local is the envelope of a local user who named no profile: the file's or
// the default one, with the flags over it. Variables that he sets are ones
// that he allows, as far as any call may set them.
func (f *callFlags) local(call *envelope.Call) (*envelope.Envelope, error) {
	if f.Profile != "" {
		return nil, nil
	}
	env := envelope.Default()
	if f.Envelope != "" {
		data, err := readFile(f.Envelope, config.MaxYAML)
		if err != nil {
			return nil, err
		}
		if env, err = config.DecodeEnvelope(f.Envelope, data, env); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(call.Env)) {
		if !slices.Contains(env.Environment, name) && envelope.CheckVariable(name) == nil {
			env.Environment = append(env.Environment, name)
		}
	}
	request, err := f.request()
	if err != nil {
		return nil, err
	}
	if f.Envelope == "" {
		f.fit(&env)
	}
	env, err = envelope.Overlay(env, request)
	return &env, err
}
