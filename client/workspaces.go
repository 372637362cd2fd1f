package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/callcell/callcell/envelope"
)

// WorkspaceVersion is one version of a workspace.
type WorkspaceVersion struct {
	Name    string    `json:"name"`
	Version int64     `json:"version"` // from 1
	Call    string    `json:"call"`    // id of the call that wrote it
	At      time.Time `json:"at"`
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"`
	// Manifest is the digest of the list of its files, sha256:HEX: two versions
	// with the same are alike.
	Manifest string `json:"manifest"`
}

// WorkspaceFile is one file of a version.
type WorkspaceFile struct {
	Name       string `json:"name"`
	Bytes      int64  `json:"bytes"`
	Executable bool   `json:"executable"`
	Digest     string `json:"digest"` // sha256:HEX
}

// WorkspaceDiff is what makes one version of a workspace of another.
type WorkspaceDiff struct {
	Name  string     `json:"name"`
	From  int64      `json:"from"` // 0: nothing at all
	To    int64      `json:"to"`
	Files []FileDiff `json:"files"`
	Cut   bool       `json:"cut"` // whether the text of some files is left out
	// Patch is all of it as git apply takes it. A daemon leaves it out where Cut
	// is set, and where it would have more than 4 MiB. It is data of an untrusted
	// program.
	Patch string `json:"patch,omitempty"`
}

// FileDiff is one file that two versions do not have alike.
type FileDiff struct {
	Name       string              `json:"name"`
	Kind       envelope.ChangeKind `json:"kind"`
	Bytes      int64               `json:"bytes"` // in the newer version
	Executable bool                `json:"executable"`
	Before     string              `json:"before"` // digests, sha256:HEX
	After      string              `json:"after"`
	Diff       string              `json:"diff"` // unified: data of an untrusted program
}

// The bounds of what is read of a list.
const (
	maxListing  = 256 << 20 // bytes
	maxVersions = 1 << 20   // of workspaces, or the newest of each
)

// Workspaces lists the team's workspaces, each with its newest version. A call
// reads and writes one by naming it.
func (c *Client) Workspaces(ctx context.Context) ([]WorkspaceVersion, error) {
	var list struct {
		Workspaces few[WorkspaceVersion] `json:"workspaces"`
	}
	list.Workspaces.most = maxVersions
	return list.Workspaces.read(c.get(ctx, "/v1/workspaces", maxListing, &list))
}

// WorkspaceVersions lists the versions of a workspace, newest first.
func (c *Client) WorkspaceVersions(ctx context.Context, name string) ([]WorkspaceVersion, error) {
	var list struct {
		Versions few[WorkspaceVersion] `json:"versions"`
	}
	list.Versions.most = maxVersions
	return list.Versions.read(c.get(ctx, workspacePath(name, "", 0), maxListing, &list))
}

// WorkspaceFiles lists what is in a version; 0 is the newest.
func (c *Client) WorkspaceFiles(ctx context.Context, name string, version int64) ([]WorkspaceFile, error) {
	content, err := c.ShowWorkspace(ctx, name, version)
	if err != nil {
		return nil, err
	}
	return content.Files, nil
}

// WorkspaceContent is what is in a version, without the bytes.
type WorkspaceContent struct {
	Version WorkspaceVersion `json:"version"`
	Files   []WorkspaceFile  `json:"files"` // by name
}

// ShowWorkspace returns a version and what is in it; 0 is the newest.
func (c *Client) ShowWorkspace(ctx context.Context, name string, version int64) (*WorkspaceContent, error) {
	var content struct {
		Version WorkspaceVersion   `json:"version"`
		Files   few[WorkspaceFile] `json:"files"`
	}
	content.Files.most = envelope.MaxTreeFiles
	files, err := content.Files.read(c.get(ctx, workspacePath(name, "/files", version), maxListing, &content))
	return result(&WorkspaceContent{content.Version, files}, err)
}

// ReadWorkspaceFile reads one file of a version; 0 is the newest. The caller
// closes it.
func (c *Client) ReadWorkspaceFile(ctx context.Context, name string, version int64, file string) (io.ReadCloser, error) {
	path := workspacePath(name, "/file", version, "name", file)
	return c.open(ctx, path)
}

// ExportWorkspace reads a version as a tar archive; 0 is the newest. The caller
// closes it. An archive that is broken off is an error of its reader.
func (c *Client) ExportWorkspace(ctx context.Context, name string, version int64) (io.ReadCloser, error) {
	return c.open(ctx, workspacePath(name, "/export", version))
}

func (c *Client) open(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// DiffWorkspace compares two versions. to is 0 for the newest; from is negative
// for the one before the other, and 0 for nothing at all.
func (c *Client) DiffWorkspace(ctx context.Context, name string, from, to int64) (*WorkspaceDiff, error) {
	var query []string
	if from >= 0 {
		query = append(query, "from", strconv.FormatInt(from, 10))
	}
	if to > 0 {
		query = append(query, "to", strconv.FormatInt(to, 10))
	}
	d := new(WorkspaceDiff)
	return result(d, c.do(ctx, http.MethodGet, workspacePath(name, "/diff", 0, query...), nil, d))
}

// RemoveWorkspace removes the versions of a workspace up to one, or all with the
// workspace where that is 0. It returns how many.
func (c *Client) RemoveWorkspace(ctx context.Context, name string, upTo int64) (int, error) {
	var query []string
	if upTo > 0 {
		query = []string{"upTo", strconv.FormatInt(upTo, 10)}
	}
	var out struct {
		Removed *int `json:"removed"`
	}
	err := c.do(ctx, http.MethodDelete, workspacePath(name, "", 0, query...), nil, &out)
	if err == nil && out.Removed == nil {
		err = fmt.Errorf("%w: it says not how many went", ErrAnswer)
	}
	if err != nil {
		return 0, err
	}
	return *out.Removed, nil
}

// workspacePath is an address below a workspace. query is NAME, value, ...
func workspacePath(name, below string, version int64, query ...string) string {
	values := url.Values{}
	if version > 0 {
		values.Set("version", strconv.FormatInt(version, 10))
	}
	for i := 0; i+1 < len(query); i += 2 {
		values.Set(query[i], query[i+1])
	}
	path := "/v1/workspaces/" + url.PathEscape(name) + below
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return path
}
