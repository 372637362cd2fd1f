package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// callFlags say what to run and what it may touch; run and explain share them.
type callFlags struct {
	Envelope string `help:"YAML file with the envelope: what the call may touch. Default: a small closed one." type:"path" placeholder:"FILE" xor:"permission"`
	Profile  string `help:"Named envelope of the configuration. Flags then narrow it and cannot widen it." placeholder:"NAME" xor:"permission"`

	Level   *envelope.Level    `help:"Isolation: auto, language, container, userkernel, microvm." placeholder:"LEVEL"`
	Trust   *envelope.Trust    `help:"Who wrote the code: reviewed (you have read it), model, thirdparty, hostile." placeholder:"WHO"`
	Image   *string            `help:"Root file system: host." placeholder:"IMAGE"`
	Timeout *envelope.Duration `help:"Wall time: 30s." placeholder:"TIME"`
	Memory  *envelope.Size     `help:"Memory of the whole cell: 256Mi." placeholder:"SIZE"`
	CPU     *envelope.CPU      `name:"cpu" help:"Number of CPUs: 0.5." placeholder:"N"`
	Pids    *envelope.Count    `help:"Processes and threads at once." placeholder:"N"`
	Scratch *envelope.Size     `help:"Writable space: 64Mi." placeholder:"SIZE"`

	In    []string `help:"File for the call; it lands in the working directory as its base name, or as NAME." placeholder:"FILE[=NAME]" sep:"none"`
	Out   []string `help:"File to collect from the working directory; a name that ends in / is a directory." placeholder:"NAME" sep:"none"`
	Env   []string `help:"Environment variable for the program." placeholder:"NAME=VALUE" sep:"none"`
	Stdin string   `help:"File for the program's standard input; - is ours." placeholder:"FILE"`
	Task  string   `help:"Your own id of the work this call belongs to." placeholder:"ID"`
	Tool  string   `help:"What you call the tool; it stands in the row." placeholder:"NAME"`
	Lang  string   `help:"Run code in this language: python, node, sh. The code is the argument's file, or standard input." placeholder:"LANG"`
	Argv  []string `arg:"" optional:"" passthrough:"" help:"The code's file with --lang; else -- and the command."`
}

// usageError is a command line that makes no sense.
type usageError struct{ msg, hint string }

func (e *usageError) Error() string { return e.msg }

// call makes the call out of the flags. Files are read with the user's own
// rights, here and nowhere else.
func (f *callFlags) call(stdin io.Reader) (*envelope.Call, error) {
	c := &envelope.Call{Tool: f.Tool, Task: f.Task, Profile: f.Profile, Outputs: f.Out}
	if c.Tool == "" {
		c.Tool = "run"
	}
	if err := f.program(c, stdin); err != nil {
		return nil, err
	}
	if err := f.data(c, stdin); err != nil {
		return nil, err
	}
	for _, v := range f.Env {
		name, value, ok := strings.Cut(v, "=")
		if !ok {
			return nil, &usageError{fmt.Sprintf("--env %s: no value", v), "write NAME=VALUE; the daemon's and your own environment are never handed on"}
		}
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		if _, twice := c.Env[name]; twice {
			return nil, &usageError{fmt.Sprintf("--env %s: given twice", name), ""}
		}
		c.Env[name] = value
	}
	if f.Profile != "" {
		c.Request = f.request()
	}
	return c, nil
}

func (f *callFlags) program(c *envelope.Call, stdin io.Reader) error {
	argv := f.Argv
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if f.Lang == "" {
		if len(argv) == 0 {
			return &usageError{"nothing to run", "callcell run -- COMMAND ARG..., or --lang python FILE"}
		}
		c.Argv = argv
		return nil
	}
	if len(argv) > 1 {
		return &usageError{"--lang takes one file of code", "arguments for a script: run its interpreter, --in FILE -- python3 FILE ARG..."}
	}
	var code []byte
	var err error
	switch {
	case len(argv) == 1 && argv[0] != "-":
		code, err = readFile(argv[0], maxInput)
	case f.Stdin != "":
		return &usageError{"--stdin needs the code as a file", "callcell run --lang python FILE --stdin DATA"}
	default:
		code, err = readAll(stdin, "standard input", maxInput)
	}
	c.Script = &envelope.Script{Lang: f.Lang, Code: string(code)}
	return err
}

func (f *callFlags) data(c *envelope.Call, stdin io.Reader) (err error) {
	switch f.Stdin {
	case "":
	case "-":
		c.Stdin, err = readAll(stdin, "standard input", maxInput)
	default:
		c.Stdin, err = readFile(f.Stdin, maxInput)
	}
	if f.Stdin != "" && c.Stdin == nil {
		c.Stdin = envelope.Data{}
	}
	if err != nil {
		return err
	}
	for _, in := range f.In {
		file, err := input(in)
		if err != nil {
			return err
		}
		c.Inputs = append(c.Inputs, file)
	}
	return nil
}

// input reads FILE[=NAME].
func input(spec string) (envelope.File, error) {
	file, name, named := strings.Cut(spec, "=")
	if _, err := os.Stat(spec); err == nil { // a file whose name has a =
		file, named = spec, false
	}
	if !named {
		name = path.Base(filepath.ToSlash(file))
	}
	info, err := os.Stat(file)
	if err != nil {
		return envelope.File{}, &usageError{fmt.Sprintf("--in %s: %v", file, unwrapPath(err)), ""}
	}
	data, err := readFile(file, maxInput)
	return envelope.File{Name: name, Data: data, Executable: info.Mode()&0o100 != 0}, err
}

// maxInput bounds one file that is read for a call, in bytes.
const maxInput = 64 << 20

func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &usageError{fmt.Sprintf("%s: %v", name, unwrapPath(err)), ""}
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, &usageError{name + ": a directory", "files are given one by one: --in a.csv --in lib/b.py=lib/b.py"}
	}
	return readAll(f, name, most)
}

func readAll(r io.Reader, name string, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(b)) > most {
		return nil, &usageError{fmt.Sprintf("%s: more than %s", name, envelope.Size(most)), ""}
	}
	return b, nil
}

// unwrapPath takes the path out of a path error, where we print it ourselves.
func unwrapPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// request is the flags as a narrowing (or, for the local operator's own
// envelope, as an overlay).
func (f *callFlags) request() *envelope.Request {
	r := &envelope.Request{Level: f.Level, Trust: f.Trust, Image: f.Image}
	if f.Scratch != nil {
		r.Files = &envelope.FilesRequest{Scratch: f.Scratch}
	}
	if f.Timeout != nil || f.Memory != nil || f.CPU != nil || f.Pids != nil {
		r.Resources = &envelope.ResourcesRequest{Wall: f.Timeout, Memory: f.Memory, CPU: f.CPU, Pids: f.Pids}
	}
	return r
}
