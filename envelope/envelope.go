package envelope

import "time"

// Version is the only version of the envelope there is.
const Version = 1

// Envelope is what a call may touch: a permission, complete, with nothing
// left to a default of the place that enforces it. A profile is an operator's
// named Envelope; a Request narrows one.
type Envelope struct {
	Version     int                   `json:"version"`     // of this form: 1
	Level       Level                 `json:"level"`       // at which the call runs, exactly, or auto
	Trust       Trust                 `json:"trust"`       // who wrote the code
	Image       string                `json:"image"`       // the root that the cell sees: host, oci:REF or build:NAME
	Environment []string              `json:"environment"` // names of variables that a call may set, beside the fixed ones
	Files       Files                 `json:"files"`
	Network     Network               `json:"network"`
	Privilege   Privilege             `json:"privilege"`
	Credentials map[string]Credential `json:"credentials"` // by the entry name that a request may keep
	Resources   Resources             `json:"resources"`
	Cleanup     Cleanup               `json:"cleanup"`
	Task        Task                  `json:"task"`
	CoResidency string                `json:"coResidency" enum:"shared,team,none"` // who else may run on the host meanwhile: shared is anybody, team the same team alone, none nobody
}

// The words of CoResidency: who else may run on the host meanwhile.
const (
	CoResidencyShared = "shared"
	CoResidencyTeam   = "team"
	CoResidencyNone   = "none"
)

// Files is the part of the file system a call may see beside its image.
type Files struct {
	Scratch Size             `json:"scratch"` // of the writable place: $HOME, cwd, /tmp and /dev/shm together
	Inodes  Count            `json:"inodes"`  // files, directories and links in it
	Outputs OutputCaps       `json:"outputs"`
	Tree    TreeCaps         `json:"tree"`
	Mounts  map[string]Mount `json:"mounts"` // read-only, by the entry name a request may keep
}

// OutputCaps bounds the files that are collected after the program is dead.
type OutputCaps struct {
	Count Count `json:"count"` // of files
	Bytes Size  `json:"bytes"` // of all of them together
}

// TreeCaps bounds a working tree that goes in, and what of it comes back. A
// count of 0 admits none.
type TreeCaps struct {
	Count   Count      `json:"count"`   // files that go in
	Bytes   Size       `json:"bytes"`   // of all of them together
	Changes OutputCaps `json:"changes"` // new and changed files that come back; removed ones count too
}

// Mount is an operator's read-only view of a host directory.
type Mount struct {
	Source string `json:"source"` // directory of the host; the operator alone sees it
	Target string `json:"target"` // path inside the cell
	Why    string `json:"why"`    // required: what the call needs it for
}

// Network is what a call may reach. The zero value reaches nothing.
type Network struct {
	Allow   []Allow   `json:"allow"`   // what may be reached; what no entry covers is not
	Private []Private `json:"private"` // ranges of addresses that are not public and may be dialled all the same; there is no other way to one
	Fetch   string    `json:"fetch"`   // "" (the allow list) or public (any public host); for the fetch tool alone
}

// FetchPublic lets the fetch tool reach any public host.
const FetchPublic = "public"

// Allow is one host a call may reach, by name or by address, on ports.
type Allow struct {
	Host     string `json:"host"`                                            // an exact name, *.NAME for every name below it, or an address
	Ports    []int  `json:"ports"`                                           // 1 to 65535, never empty
	Protocol string `json:"protocol,omitempty" enum:"tls,http,postgres,tcp"` // left out: tls on port 443 and http on port 80; other ports want one
	Inspect  bool   `json:"inspect,omitempty"`                               // terminate TLS and judge every request
}

// Private is an address range that is not public and may be dialled all the
// same.
type Private struct {
	CIDR string `json:"cidr"` // in canonical form: 10.1.0.0/16
	Why  string `json:"why"`  // required: what the call needs it for
}

// Privilege is who the code is inside the cell.
type Privilege struct {
	// User has one value, nobody: a uid that no other call on the host has
	// meanwhile, with no capability and no way to gain one.
	User string `json:"user" enum:"nobody"`
}

// UserNobody is the only value of Privilege.User.
const UserNobody = "nobody"

// Credential is an operator's secret that a call may use without, where it
// can be had, ever being given it.
type Credential struct {
	Source string        `json:"source"`           // where the operator has it: file:PATH, command:..., env:NAME, vault:PATH, oauth2:NAME
	Scopes []string      `json:"scopes,omitempty"` // that are asked of the source
	TTL    Duration      `json:"ttl,omitempty"`    // how long it is good; 0: as long as the call
	Use    CredentialUse `json:"use"`              // how the call uses it
}

// CredentialUse is how a call uses a credential: exactly one of Header, File
// and Env is set.
type CredentialUse struct {
	Header  string   `json:"header,omitempty"`  // name of the header that it is added in, to requests to the host
	Format  string   `json:"format,omitempty"`  // of the header, with {} for the value: "Bearer {}"; "" is {}
	Host    string   `json:"host,omitempty"`    // one exact name
	Port    int      `json:"port,omitempty"`    // 0 is 443; never plain http
	Methods []string `json:"methods,omitempty"` // of the requests that it is added to; never empty where there is a header
	Path    string   `json:"path,omitempty"`    // prefix of their paths, byte by byte: /repos/ is not /repository
	File    bool     `json:"file,omitempty"`    // whether the call finds it as /run/credentials/NAME
	Env     string   `json:"env,omitempty"`     // name of the variable that the call finds it in
}

// Resources are the ceilings of a call. None of them can be unlimited.
type Resources struct {
	CPU       CPU       `json:"cpu"`       // processors, of the whole cell
	CPUTime   Duration  `json:"cpuTime"`   // user and system, of every process of the cell together
	Wall      Duration  `json:"wall"`      // from the first instruction of the program to its end
	Memory    Size      `json:"memory"`    // of the whole cell, its files included
	Pids      Count     `json:"pids"`      // processes and threads at once
	FileSize  Size      `json:"fileSize"`  // of one file
	OpenFiles Count     `json:"openFiles"` // of one process at once
	Output    OutputCap `json:"output"`
}

// OutputCap bounds what the program writes to stdout and stderr.
type OutputCap struct {
	Keep  Size `json:"keep"`  // retained of each stream, head and tail
	Total Size `json:"total"` // of both together; beyond it the call ends as output
}

// Cleanup is how a call ends.
type Cleanup struct {
	StopGrace Duration `json:"stopGrace"` // between TERM and KILL
}

// Task are the ceilings of all calls of one task together.
type Task struct {
	Calls   Count    `json:"calls"`   // of the task
	CPUTime Duration `json:"cpuTime"` // that they use
	Tokens  Count    `json:"tokens"`  // that they are charged: arguments and results
	Wall    Duration `json:"wall"`    // from the beginning of its first call
}

// Default returns the small closed envelope that is used where nobody said
// otherwise: no network, no mounts, no credentials.
func Default() Envelope {
	return Envelope{
		Version:     Version,
		Level:       LevelAuto,
		Trust:       TrustModel,
		Image:       ImageHost,
		Environment: []string{},
		Files: Files{
			Scratch: 64 * MiB, Inodes: 16_000,
			Outputs: OutputCaps{Count: 16, Bytes: 32 * MiB},
			Tree:    TreeCaps{Count: 12_000, Bytes: 48 * MiB, Changes: OutputCaps{Count: 2_000, Bytes: 32 * MiB}},
			Mounts:  map[string]Mount{},
		},
		Network:     Network{Allow: []Allow{}, Private: []Private{}},
		Privilege:   Privilege{User: UserNobody},
		Credentials: map[string]Credential{},
		Resources: Resources{
			CPU: 1000, CPUTime: Duration(20 * time.Second), Wall: Duration(30 * time.Second),
			Memory: 256 * MiB, Pids: 64, FileSize: 32 * MiB, OpenFiles: 256,
			Output: OutputCap{Keep: 64 * KiB, Total: 64 * MiB},
		},
		Cleanup:     Cleanup{},
		Task:        Task{Calls: 200, CPUTime: Duration(10 * time.Minute), Tokens: 200_000, Wall: Duration(2 * time.Hour)},
		CoResidency: CoResidencyShared,
	}
}

// ImageHost is the read-only slice of this host's own /usr.
const ImageHost = "host"
