package envelope

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of a call. They bound what has to be held in memory before
// anything runs; an envelope's ceilings are narrower.
const (
	MaxArguments     = 4096       // of argv
	MaxArgument      = 128 << 10  // bytes of one argument and its NUL: the kernel's MAX_ARG_STRLEN
	MaxArgumentBytes = 1 << 20    // of all arguments; with the variables still below the kernel's 2 MiB
	MaxCode          = 8 << 20    // bytes of a script
	MaxVariables     = 256        // of env
	MaxVariableBytes = 256 << 10  // of all names and values of env
	MaxInputs        = 16_384     // files
	MaxInputBytes    = 1 << 30    // of all files; a JSON document holds fewer
	MaxStdin         = 64 << 20   // bytes
	MaxOutputs       = 1024       // names
	MaxLabel         = 256        // bytes of tool and of task
	MostTokens       = 10_000_000 // that maxTokens may say
)

func callChecks() []check[Call] {
	return []check[Call]{
		{"labels", "tool and task are one printable line of at most 256 bytes", checkLabels},
		{"profile", "profile is a plain name of at most 64 bytes", checkProfileName},
		{"needs", "needs are some of those that a call may declare, none twice", checkNeeds},
		{"what", "exactly one of argv, script and fetch is there", checkWhat},
		{"argv", "argv has at most 4096 arguments, each below 128 KiB and 1 MiB together, UTF-8 without NUL, and the first is not empty", checkArgv},
		{"script", "script is of a known language, python, node or sh, and its code is UTF-8 without NUL, not empty, and at most 8 MiB", checkScript},
		{"fetch", "fetch has an address of http or https, of at most 8 KiB, without user information, and no program's stdin, env, inputs, outputs, tree or workspace beside it", checkFetchCall},
		{"stdin", "stdin has at most 64 MiB", checkStdin},
		{"env", "env has at most 256 variables and 256 KiB, with names that a call may set and values that are UTF-8 without NUL", checkEnv},
		{"inputs", "inputs are at most 16384 files and 1 GiB, with relative names", checkInputs},
		{"tree", "a tree is at most 65536 files and 1 GiB, with relative names, and rules of at most 1 MiB", checkTree},
		{"workspace", "workspace has a plain name of at most 64 bytes, and a version that is not negative", checkWorkspace},
		{"blobs", "a file of inputs and tree has its bytes in data, or in a blob, sha256:HEX, whose size it may say; inlineOutputs is not negative, and there only beside outputs", checkBlobs},
		{"input-places", "no file of inputs and tree has the name of another, lies below another, or is the script's own file", checkInputPlaces},
		{"outputs", "outputs are at most 1024 relative names, a / at the end for a directory, none twice or within another", checkOutputs},
		{"max-tokens", "maxTokens is at most 10000000", checkMaxTokens},
	}
}

func checkMaxTokens(c *Call) *FieldError {
	if c.MaxTokens < 0 || c.MaxTokens > MostTokens {
		return fault("maxTokens", "is out of range", "at most "+Count(MostTokens).String()+", or leave it out for what the host gives")
	}
	return nil
}

func checkLabels(c *Call) *FieldError {
	if err := checkText("tool", c.Tool, MaxLabel); err != nil {
		return err
	}
	return checkText("task", c.Task, MaxLabel)
}

func checkProfileName(c *Call) *FieldError {
	if c.Profile == "" || nameText(c.Profile, 64, "._-") {
		return nil
	}
	return fault("profile", quote(c.Profile)+" is not a profile's name", "write a name from the list of profiles, or leave it out for the default")
}

func checkWhat(c *Call) *FieldError {
	var there []string
	for _, what := range []struct {
		field string
		given bool
	}{{"argv", len(c.Argv) > 0}, {"script", c.Script != nil}, {"fetch", c.Fetch != nil}} {
		if what.given {
			there = append(there, what.field)
		}
	}
	switch {
	case len(there) == 0:
		return fault("argv", "is missing, and so are script and fetch", "say what to do: argv, a program and its arguments, or script, or fetch")
	case len(there) > 1 && there[1] == "script":
		return fault("script", "is there beside argv", "leave one of them out; to give a script arguments, write it into inputs and name it in argv")
	case len(there) > 1:
		return fault("fetch", "is there beside "+there[0], "leave one of them out: a call is one thing")
	}
	return nil
}

func checkArgv(c *Call) *FieldError {
	if len(c.Argv) > MaxArguments {
		return fault("argv", "has more than "+strconv.Itoa(MaxArguments)+" arguments", "pass the list in a file")
	}
	total := 0
	for i, arg := range c.Argv {
		field := at("argv", i)
		if i == 0 && arg == "" {
			return fault(field, "is empty", "name the program to run")
		}
		if len(arg) >= MaxArgument {
			return fault(field, "has 128 KiB or more", "pass it in a file or on stdin")
		}
		if err := checkPlain(field, arg); err != nil {
			return err
		}
		total += len(arg) + 1
	}
	if total > MaxArgumentBytes {
		return fault("argv", "has more than 1 MiB", "pass the data in a file or on stdin")
	}
	return nil
}

// checkPlain reports whether text can be handed to a program as a string.
func checkPlain(field, text string) *FieldError {
	if strings.IndexByte(text, 0) >= 0 {
		return fault(field, "has a NUL", "a program cannot be given it: pass such data in a file or on stdin")
	}
	if !utf8.ValidString(text) {
		return fault(field, "is not UTF-8", "pass such data in a file or on stdin")
	}
	return nil
}

// FileName returns the name under which the code is put into the working
// directory: main.py, main.js or main.sh, or "" for a language there is not.
func (s Script) FileName() string {
	switch s.Lang {
	case "python":
		return "main.py"
	case "node":
		return "main.js"
	case "sh":
		return "main.sh"
	}
	return ""
}

func checkScript(c *Call) *FieldError {
	if c.Script == nil {
		return nil
	}
	switch s := c.Script; {
	case s.FileName() == "":
		return fault("script.lang", quote(s.Lang)+" is not a language", langHint(s.Lang))
	case s.Code == "":
		return fault("script.code", "is empty", "write the code to run")
	case len(s.Code) > MaxCode:
		return fault("script.code", "has more than 8 MiB", "put the data into inputs")
	}
	return checkPlain("script.code", c.Script.Code)
}

func langHint(lang string) string {
	switch strings.ToLower(lang) {
	case "py", "python3":
		return "did you mean \"python\"?"
	case "js", "javascript", "nodejs":
		return "did you mean \"node\"?"
	case "bash", "shell", "zsh":
		return "did you mean \"sh\"? For another shell, name it in argv"
	}
	return "write python, node or sh; for another, put the code into inputs and name its interpreter in argv"
}

func checkStdin(c *Call) *FieldError {
	if len(c.Stdin) > MaxStdin {
		return fault("stdin", "has more than 64 MiB", "pass the data in inputs")
	}
	return nil
}

func checkEnv(c *Call) *FieldError {
	if len(c.Env) > MaxVariables {
		return fault("env", "has more than "+strconv.Itoa(MaxVariables)+" variables", "pass the data in a file")
	}
	total := 0
	for _, name := range sorted(c.Env) {
		field := entryField("env", name)
		if err := checkVariable(field, name); err != nil {
			return err
		}
		if err := checkPlain(field, c.Env[name]); err != nil {
			return err
		}
		total += len(name) + len(c.Env[name]) + 2
	}
	if total > MaxVariableBytes {
		return fault("env", "has more than 256 KiB", "pass the data in a file")
	}
	return nil
}

func checkInputs(c *Call) *FieldError {
	if len(c.Inputs) > MaxInputs {
		return fault("inputs", "has more than "+strconv.Itoa(MaxInputs)+" files", "pass them in one archive")
	}
	total := 0
	for i, f := range c.Inputs {
		if err := checkName(at("inputs", i)+".name", f.Name); err != nil {
			return err
		}
		total += len(f.Data)
	}
	if total > MaxInputBytes {
		return fault("inputs", "have more than 1 GiB", "send less")
	}
	return nil
}

func checkBlobs(c *Call) *FieldError {
	for field, f := range c.files() {
		switch {
		case f.Blob == "" && f.Size != 0:
			return fault(field+".size", "is of a blob, and there is none", "leave it out: data has a size of its own")
		case f.Blob == "":
		case !isDigest(f.Blob):
			return fault(field+".blob", quote(f.Blob)+" is not the digest of a blob", "write sha256: and 64 hexadecimal digits in lower case")
		case len(f.Data) > 0:
			return fault(field+".blob", "is there beside data", "leave one of them out")
		case f.Size < 0:
			return fault(field+".size", "is negative", "leave it out, or write how many bytes the blob has")
		}
	}
	switch {
	case c.InlineOutputs == nil:
	case *c.InlineOutputs < 0:
		return fault("inlineOutputs", "is negative", "write a size, 64Ki, or 0B for every output as a blob")
	case len(c.Outputs) == 0:
		return fault("inlineOutputs", "is there without outputs", "leave it out, or name the outputs")
	}
	return nil
}

// isDigest reports whether text is sha256: and 64 digits in lower case.
func isDigest(text string) bool {
	digits, ok := strings.CutPrefix(text, "sha256:")
	return ok && len(digits) == 64 && strings.Trim(digits, "0123456789abcdef") == ""
}

// NamesBlobs reports whether a file of inputs or tree is named by its blob.
func (c *Call) NamesBlobs() bool {
	for _, f := range c.files() {
		if f.Blob != "" {
			return true
		}
	}
	return false
}

func checkInputPlaces(c *Call) *FieldError {
	files := map[string]string{}
	if c.Script != nil && c.Script.FileName() != "" {
		files[c.Script.FileName()] = "script"
	}
	for field, f := range c.files() {
		if other, taken := files[f.Name]; taken {
			return fault(field+".name", quote(f.Name)+" is the name of "+other+" too", "give each file a name of its own")
		}
		files[f.Name] = field
	}
	for field, f := range c.files() {
		for dir := range parents(f.Name) {
			if other, taken := files[dir]; taken {
				return fault(field+".name", quote(f.Name)+" lies below "+quote(dir)+", which is a file: "+other, "give one of them another name")
			}
		}
	}
	return nil
}

// parents yields the directories above a name, the nearest first.
func parents(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			if !yield(name[:i]) {
				return
			}
		}
	}
}

func checkOutputs(c *Call) *FieldError {
	if len(c.Outputs) > MaxOutputs {
		return fault("outputs", "has more than "+strconv.Itoa(MaxOutputs)+" names", "name a directory: NAME/")
	}
	whole := map[string]bool{} // directories that are collected whole
	for i, output := range c.Outputs {
		name, dir := strings.CutSuffix(output, "/")
		if err := checkName(at("outputs", i), name); err != nil {
			return err
		}
		if slices.ContainsFunc(c.Outputs[:i], func(before string) bool { return strings.TrimSuffix(before, "/") == name }) {
			return fault(at("outputs", i), quote(output)+" comes twice", "name it once")
		}
		if dir {
			whole[name] = true
		}
	}
	for i, output := range c.Outputs {
		for above := range parents(strings.TrimSuffix(output, "/")) {
			if whole[above] {
				return fault(at("outputs", i), quote(output)+" is within "+quote(above+"/")+", which is collected whole", "leave it out")
			}
		}
	}
	return nil
}
