package envelope

import "time"

// Version is the only version of the envelope there is.
const Version = 1

// Envelope is what a call may touch: a permission, complete, with nothing
// left to a default of the place that enforces it. A profile is an operator's
// named Envelope; a Request narrows one.
type Envelope struct {
	Version     int                   `json:"version"`
	Level       Level                 `json:"level"`
	Trust       Trust                 `json:"trust"`
	Image       string                `json:"image"`       // "host", later "oci:REF" and "build:NAME"
	Environment []string              `json:"environment"` // names that a call may set, beside the fixed ones
	Files       Files                 `json:"files"`
	Network     Network               `json:"network"`
	Privilege   Privilege             `json:"privilege"`
	Credentials map[string]Credential `json:"credentials"`
	Resources   Resources             `json:"resources"`
	Cleanup     Cleanup               `json:"cleanup"`
	Task        Task                  `json:"task"`
	CoResidency string                `json:"coResidency"` // CoResidencyShared, CoResidencyTeam or CoResidencyNone
}

// The words of CoResidency: who else may run on the host meanwhile.
const (
	CoResidencyShared = "shared"
	CoResidencyTeam   = "team"
	CoResidencyNone   = "none"
)

// Files is the part of the file system a call may see beside its image.
type Files struct {
	Scratch Size             `json:"scratch"` // bytes of the writable place: $HOME, cwd, /tmp and /dev/shm together
	Inodes  Count            `json:"inodes"`  // files, directories and links in it
	Outputs OutputCaps       `json:"outputs"`
	Tree    TreeCaps         `json:"tree"`
	Mounts  map[string]Mount `json:"mounts"` // read-only, by the entry name a request may keep
}

// OutputCaps bounds the files that are collected after the program is dead.
type OutputCaps struct {
	Count Count `json:"count"`
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
	Source string `json:"source"` // host path; operator only
	Target string `json:"target"` // path inside the cell
	Why    string `json:"why"`    // required
}

// Network is what a call may reach. The zero value reaches nothing.
type Network struct {
	Allow   []Allow   `json:"allow"`
	Private []Private `json:"private"` // the only way to an address that is not public
	Fetch   string    `json:"fetch"`   // "" (the allow list) or FetchPublic; for the fetch tool alone
}

// FetchPublic lets the fetch tool reach any public host.
const FetchPublic = "public"

// Allow is one host a call may reach, by name or by address, on ports.
type Allow struct {
	Host     string `json:"host"`               // an exact name, *.NAME for every name below it, or an address; see Covers
	Ports    []int  `json:"ports"`              // never empty
	Protocol string `json:"protocol,omitempty"` // a Protocol word, or "": see ProtocolOn
	Inspect  bool   `json:"inspect,omitempty"`  // terminate TLS and judge every request
}

// Private is an address range that is not public and may be dialled all the
// same.
type Private struct {
	CIDR string `json:"cidr"`
	Why  string `json:"why"` // required
}

// Privilege is who the code is inside the cell.
type Privilege struct {
	// User has one value, UserNobody: a uid that no other call on the host
	// has meanwhile, with no capability and no way to gain one.
	User string `json:"user"`
}

// UserNobody is the only value of Privilege.User.
const UserNobody = "nobody"

// Credential is an operator's secret that a call may use without, where it
// can be had, ever being given it.
type Credential struct {
	Source string        `json:"source"` // "file:PATH", "command:...", "env:NAME", "vault:PATH", "oauth2:NAME"
	Scopes []string      `json:"scopes,omitempty"`
	TTL    Duration      `json:"ttl,omitempty"` // 0: as long as the call
	Use    CredentialUse `json:"use"`
}

// CredentialUse is how a call uses a credential: exactly one of Header, File
// and Env is set.
type CredentialUse struct {
	Header  string   `json:"header,omitempty"`
	Format  string   `json:"format,omitempty"`  // "Bearer {}"; "" is "{}", see FormatOrDefault
	Host    string   `json:"host,omitempty"`    // one exact name
	Port    int      `json:"port,omitempty"`    // 0 is 443, see PortOrDefault; never plain http
	Methods []string `json:"methods,omitempty"` // never empty where Header is set
	Path    string   `json:"path,omitempty"`    // prefix, byte by byte: /repos/ is not /repository
	File    bool     `json:"file,omitempty"`    // /run/credentials/NAME
	Env     string   `json:"env,omitempty"`     // name of the variable
}

// Resources are the ceilings of a call. None of them can be unlimited.
type Resources struct {
	CPU       CPU       `json:"cpu"`
	CPUTime   Duration  `json:"cpuTime"`
	Wall      Duration  `json:"wall"`
	Memory    Size      `json:"memory"`
	Pids      Count     `json:"pids"`
	FileSize  Size      `json:"fileSize"`
	OpenFiles Count     `json:"openFiles"`
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
	Calls   Count    `json:"calls"`
	CPUTime Duration `json:"cpuTime"`
	Tokens  Count    `json:"tokens"`
	Wall    Duration `json:"wall"`
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
