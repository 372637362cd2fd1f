package envelope

// Call is one invocation of a tool: data, not permission. It names nothing of
// the host: inputs are bytes, or digests of what the caller's own team keeps.
type Call struct {
	Tool    string   `json:"tool,omitempty"`    // what the caller calls it; for the row
	Task    string   `json:"task,omitempty"`    // the caller's own id of the work this belongs to
	Profile string   `json:"profile,omitempty"` // an operator's envelope by name; "" is the default one
	Request *Request `json:"request,omitempty"` // takes something away from the profile
	Needs   []Need   `json:"needs,omitempty"`   // what the call cannot do without; they come on top of what is derived, and make the level stronger or have it refused

	// Exactly one of Argv, Script and Fetch says what to do. A fetch runs
	// nothing, so nothing of what follows goes with it.
	Argv   []string `json:"argv,omitempty"`   // a program and its arguments; no shell is between
	Script *Script  `json:"script,omitempty"` // code for an interpreter of the image
	Fetch  *Fetch   `json:"fetch,omitempty"`  // one document to get

	Stdin     Data              `json:"stdin,omitempty"`     // what the program reads on its standard input
	Env       map[string]string `json:"env,omitempty"`       // variables by their names, of those that the envelope names
	Inputs    []File            `json:"inputs,omitempty"`    // files that stand in the working directory when the program starts
	Tree      *Tree             `json:"tree,omitempty"`      // stands in the working directory; Result.Changes says what became of it
	Workspace *Workspace        `json:"workspace,omitempty"` // a tree that lives on; beside Tree only where it has no version yet
	Outputs   []string          `json:"outputs,omitempty"`   // relative names of files that are collected when the program is dead; one that ends in / is a directory, collected whole
	// InlineOutputs is the most bytes of an output that are in the result. A
	// larger one is kept as a blob of the caller's team, and named there. nil:
	// all are in the result.
	InlineOutputs *Size `json:"inlineOutputs,omitempty"`
	// MaxTokens is the most tokens that the caller takes of stdout, stderr and a
	// fetched body together; 0 is what the host gives. Beyond it the result is
	// cut, and says so. It is for callers who are metered.
	MaxTokens Count `json:"maxTokens,omitempty"`
}

// Script is code in a language that the image has an interpreter for.
type Script struct {
	Lang string `json:"lang" enum:"python,node,sh"` // language of the interpreter
	Code string `json:"code"`                       // its text, UTF-8
}

// Data is bytes: standard base64 with padding in JSON, and never null.
type Data []byte

// File is a regular file that goes into a cell or comes out of one.
type File struct {
	Name       string `json:"name"`                 // relative, its parts between slashes
	Data       Data   `json:"data"`                 // its bytes; empty where a blob has them
	Executable bool   `json:"executable,omitempty"` // whether it may be executed
	// Blob is the digest of its bytes, sha256:HEX, where a blob has them that
	// the caller's own team keeps.
	Blob string `json:"blob,omitempty"`
	Size int64  `json:"size,omitempty"` // of the blob, in bytes; of an input 0 is any
}
