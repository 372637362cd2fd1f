package envelope

// Request narrows a profile. A field that is nil keeps what the profile says; an
// empty list means nothing at all. It names mounts and credentials by the profile's
// entry names only, and never an object of the host.
type Request struct {
	Level       *Level            `json:"level,omitempty"`
	Trust       *Trust            `json:"trust,omitempty"`
	Image       *string           `json:"image,omitempty"`
	Environment *[]string         `json:"environment,omitempty"`
	Files       *FilesRequest     `json:"files,omitempty"`
	Network     *NetworkRequest   `json:"network,omitempty"`
	Credentials *[]string         `json:"credentials,omitempty"` // entry names
	Resources   *ResourcesRequest `json:"resources,omitempty"`
	Cleanup     *CleanupRequest   `json:"cleanup,omitempty"`
}

// FilesRequest narrows Files.
type FilesRequest struct {
	Scratch *Size              `json:"scratch,omitempty"`
	Inodes  *Count             `json:"inodes,omitempty"`
	Outputs *OutputCapsRequest `json:"outputs,omitempty"`
	Tree    *TreeCapsRequest   `json:"tree,omitempty"`
	Mounts  *[]string          `json:"mounts,omitempty"` // entry names
}

// OutputCapsRequest narrows OutputCaps.
type OutputCapsRequest struct {
	Count *Count `json:"count,omitempty"`
	Bytes *Size  `json:"bytes,omitempty"`
}

// TreeCapsRequest narrows TreeCaps.
type TreeCapsRequest struct {
	Count   *Count             `json:"count,omitempty"`
	Bytes   *Size              `json:"bytes,omitempty"`
	Changes *OutputCapsRequest `json:"changes,omitempty"`
}

// NetworkRequest narrows Network.
type NetworkRequest struct {
	Allow *[]Allow `json:"allow,omitempty"` // a subset of the profile's
}

// ResourcesRequest narrows Resources.
type ResourcesRequest struct {
	CPU       *CPU              `json:"cpu,omitempty"`
	CPUTime   *Duration         `json:"cpuTime,omitempty"`
	Wall      *Duration         `json:"wall,omitempty"`
	Memory    *Size             `json:"memory,omitempty"`
	Pids      *Count            `json:"pids,omitempty"`
	FileSize  *Size             `json:"fileSize,omitempty"`
	OpenFiles *Count            `json:"openFiles,omitempty"`
	Output    *OutputCapRequest `json:"output,omitempty"`
}

// OutputCapRequest narrows OutputCap.
type OutputCapRequest struct {
	Keep  *Size `json:"keep,omitempty"`
	Total *Size `json:"total,omitempty"`
}

// CleanupRequest narrows Cleanup.
type CleanupRequest struct {
	StopGrace *Duration `json:"stopGrace,omitempty"`
}
