package broker

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// variables is the environment of every program, before what its call sets.
func variables() map[string]string {
	return map[string]string{
		"PATH":   "/usr/local/bin:/usr/bin:/bin",
		"HOME":   cell.WorkDir,
		"TMPDIR": cell.TempDir,
		"LANG":   "C.UTF-8",
		"TERM":   "dumb", // nobody interprets what it would be told to draw
	}
}

// offline are for programs that would otherwise try for minutes to reach what
// cannot be reached.
func offline() map[string]string {
	return map[string]string{"PIP_RETRIES": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "npm_config_fetch_retries": "0"}
}

// beside keeps what programs write for themselves out of a tree: all that is new
// in the working directory comes back.
func beside() map[string]string {
	return map[string]string{"HOME": cell.TempDir, "PYTHONDONTWRITEBYTECODE": "1"}
}

// pools are for libraries that would otherwise start a thread for each processor
// of the host, of which the cell has less: OpenBLAS and whatever else asks OpenMP,
// and programs in Go. On a large host those threads alone are more than
// resources.pids.
func pools(c envelope.CPU) map[string]string {
	n := strconv.FormatInt(max(1, (int64(c)+999)/1000), 10)
	return map[string]string{"OMP_NUM_THREADS": n, "GOMAXPROCS": n}
}

// An interpreter runs the scripts of one language. The code is a file of the
// working directory, under Script.FileName: a traceback then names it, and
// files that were put beside it can be imported.
type interpreter struct {
	program string
	set     map[string]string // variables of its own
}

// interpreters are those that Call.Validate lets through, by language.
func interpreters() map[string]interpreter {
	return map[string]interpreter{
		"python": {"/usr/bin/python3", map[string]string{
			"PYTHONDONTWRITEBYTECODE": "1", // nothing lives to use it
			"PYTHONUNBUFFERED":        "1", // what was printed before the end is not lost
		}},
		"node": {"node", nil},
		"sh":   {"/bin/sh", nil},
	}
}

// command works out what is to run, and with which files.
func (f *flight) command() {
	if f.call.Fetch != nil {
		return
	}
	env := variables()
	maps.Copy(env, pools(f.env.Resources.CPU))
	f.files = slices.Clip(f.call.Inputs)
	argv := f.call.Argv
	if s := f.call.Script; s != nil {
		in := interpreters()[s.Lang]
		argv = []string{in.program, s.FileName()}
		f.files = append(f.files, envelope.File{Name: s.FileName(), Data: []byte(s.Code)})
		maps.Copy(env, in.set)
	}
	if f.call.Tree != nil || f.call.Workspace != nil {
		maps.Copy(env, beside())
	}
	if len(f.env.Network.Allow) == 0 {
		maps.Copy(env, offline())
	}
	maps.Copy(env, f.call.Env) // Admits has held it against envelope.Environment
	f.out = newCapture(f.env.Resources.Output)
	f.out.live = f.live
	f.cmd = cell.Command{Argv: argv, Stdin: f.call.Stdin, Stdout: f.out.writer(&f.out.stdout), Stderr: f.out.writer(&f.out.stderr)}
	if len(f.call.Stdin) == 0 {
		f.cmd.Stdin = nil
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		f.cmd.Env = append(f.cmd.Env, name+"="+env[name])
	}
}

// setenv sets a variable of the program in place of what there was, unless the
// call sets it itself.
func (f *flight) setenv(name, value string) {
	if _, own := f.call.Env[name]; own {
		return
	}
	f.cmd.Env = slices.DeleteFunc(f.cmd.Env, func(s string) bool { return strings.HasPrefix(s, name+"=") })
	i, _ := slices.BinarySearch(f.cmd.Env, name+"=")
	f.cmd.Env = slices.Insert(f.cmd.Env, i, name+"="+value)
}

// fits reports whether the files of the call leave the program any memory:
// the scratch they are put into is memory too. Whether they fit into the
// scratch itself, the envelope says.
func fits(env *envelope.Envelope, call *envelope.Call) error {
	var bytes envelope.Size
	for _, f := range call.Inputs {
		bytes += envelope.Size(len(f.Data))
	}
	if call.Script != nil {
		bytes += envelope.Size(len(call.Script.Code))
	}
	if call.Tree != nil {
		bytes += envelope.Size(call.Tree.Bytes())
	}
	if bytes < env.Resources.Memory {
		return nil
	}
	return &envelope.FieldError{Reason: envelope.ReasonPolicy, Field: "inputs",
		Msg:  "have " + bytes.String() + ", which counts as memory, and resources.memory is " + env.Resources.Memory.String(),
		Hint: "send less, or choose a profile with more memory"}
}
