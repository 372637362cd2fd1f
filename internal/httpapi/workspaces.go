package httpapi

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project/diff"
	"github.com/callcell/callcell/internal/workspace"
)

// tarType is the type of an archive.
const tarType = "application/x-tar"

// WorkspaceVersion is one version of a workspace.
type WorkspaceVersion struct {
	Name    string    `json:"name" doc:"Of the workspace"`
	Version int64     `json:"version" doc:"From 1"`
	Call    string    `json:"call" doc:"Id of the call that wrote it"`
	At      time.Time `json:"at" doc:"When it was written"`
	Files   int       `json:"files" doc:"That are in it"`
	Bytes   int64     `json:"bytes" doc:"Of all files together"`
	// Manifest is of what a version is: two with the same are alike.
	Manifest string `json:"manifest" doc:"Digest of the list of its files, sha256:HEX"`
}

func versionOf(v workspace.Version) WorkspaceVersion {
	return WorkspaceVersion{Name: v.Name, Version: v.Number, Call: v.Call, At: v.At.UTC(), Files: v.Files, Bytes: v.Bytes, Manifest: v.Manifest.Name()}
}

func versionsOf(list []workspace.Version) []WorkspaceVersion {
	out := make([]WorkspaceVersion, 0, len(list))
	for _, v := range list {
		out = append(out, versionOf(v))
	}
	return out
}

// WorkspaceList is the answer to GET /v1/workspaces.
type WorkspaceList struct {
	Workspaces []WorkspaceVersion `json:"workspaces" doc:"The newest version of each, by name"`
}

// listWorkspaces is GET /v1/workspaces.
func listWorkspaces(a *API, req *request) (any, error) {
	list, err := a.Workspaces.List(req.ctx(), req.key.Team)
	return WorkspaceList{versionsOf(list)}, err
}

// WorkspaceVersions is the answer to GET /v1/workspaces/{name}.
type WorkspaceVersions struct {
	Versions []WorkspaceVersion `json:"versions" doc:"Newest first"`
}

// readWorkspace is GET /v1/workspaces/{name}. Another team's is not told from
// none.
func readWorkspace(a *API, req *request) (any, error) {
	name, err := workspaceName(req)
	if err != nil {
		return nil, err
	}
	list, err := a.Workspaces.Versions(req.ctx(), req.key.Team, name)
	return WorkspaceVersions{versionsOf(list)}, err
}

func workspaceName(req *request) (string, error) {
	name := req.r.PathValue("name")
	return name, envelope.CheckWorkspace(name)
}

// versionNumber reads the number of a version from a parameter; fallback where it is
// not said.
func versionNumber(req *request, param string, least, fallback int64) (int64, error) {
	text := req.r.URL.Query().Get(param)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least {
		return 0, problem("request", "not the number of a version", "versions are numbers from 1").at("?" + param)
	}
	return n, nil
}

// versionIn is the workspace and the version that a request names.
func versionIn(req *request) (name string, n int64, err error) {
	if name, err = workspaceName(req); err == nil {
		n, err = versionNumber(req, "version", 1, 0)
	}
	return name, n, err
}

// WorkspaceFiles is the answer to GET /v1/workspaces/{name}/files.
type WorkspaceFiles struct {
	Version WorkspaceVersion `json:"version" doc:"That has them"`
	Files   []WorkspaceFile  `json:"files" doc:"By name"`
}

// WorkspaceFile is one file of a version.
type WorkspaceFile struct {
	Name       string `json:"name" doc:"Relative, its parts between slashes"`
	Bytes      int64  `json:"bytes" doc:"That it has"`
	Executable bool   `json:"executable,omitempty" doc:"Whether it may be executed"`
	Digest     string `json:"digest" doc:"sha256:HEX"`
}

// listFiles is GET /v1/workspaces/{name}/files.
func listFiles(a *API, req *request) (any, error) {
	name, n, err := versionIn(req)
	if err != nil {
		return nil, err
	}
	v, m, err := a.Workspaces.Show(req.ctx(), req.key.Team, name, n)
	if err != nil {
		return nil, err
	}
	out := WorkspaceFiles{Version: versionOf(v), Files: make([]WorkspaceFile, 0, len(m.Files))}
	for _, e := range m.Files {
		out.Files = append(out.Files, WorkspaceFile{e.Name, e.Size, e.Executable, e.SHA256.Name()})
	}
	return out, nil
}

// readFile is GET /v1/workspaces/{name}/file.
func readFile(a *API, req *request) (any, error) {
	name, n, err := versionIn(req)
	if err != nil {
		return nil, err
	}
	e, err := a.Workspaces.File(req.ctx(), req.key.Team, name, n, req.r.URL.Query().Get("name"))
	if err != nil {
		return nil, err
	}
	r, err := a.Workspaces.Open(req.key.Team, e)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	a.sendBlob(req, r, e.SHA256)
	return answered{}, nil
}

// The bounds of a comparison. What is left out is read as a file.
const (
	mostCompared = 256 << 10 // bytes of a file that is compared, in each version
	mostRead     = 64 << 20  // bytes of all of them
	mostDiff     = 4 << 20   // bytes of text, and of the patch
	mostPacked   = 16 << 20  // bytes that are no text, of which a patch is made
	mostLines    = 500_000   // that are compared in all: a program can make files that take 5 us for each
)

// WorkspaceDiff is the answer to GET /v1/workspaces/{name}/diff.
type WorkspaceDiff struct {
	Name  string     `json:"name" doc:"Of the workspace"`
	From  int64      `json:"from" doc:"0: nothing at all"`
	To    int64      `json:"to" doc:"The newer version"`
	Files []FileDiff `json:"files" doc:"That are not alike, by name"`
	Cut   bool       `json:"cut" doc:"Whether the text of some files is left out: they are large, or all are"`
	Patch string     `json:"patch,omitempty" doc:"All of it as git apply takes it, binary files too; absent where cut, and where it would have more than 4 MiB, or be made of more than 16 MiB that are no text. It is data of an untrusted program"`
}

// FileDiff is one file that two versions do not have alike.
type FileDiff struct {
	Name       string              `json:"name" doc:"Relative, its parts between slashes"`
	Kind       envelope.ChangeKind `json:"kind" doc:"What became of it"`
	Bytes      int64               `json:"bytes" doc:"In the newer version"`
	Executable bool                `json:"executable,omitempty" doc:"In the newer version"`
	Before     string              `json:"before,omitempty" doc:"Digest, sha256:HEX; absent where added"`
	After      string              `json:"after,omitempty" doc:"Absent where removed"`
	Diff       string              `json:"diff,omitempty" doc:"Unified. It is data of an untrusted program"`
}

// diffVersions is GET /v1/workspaces/{name}/diff.
func diffVersions(a *API, req *request) (any, error) {
	name, err := workspaceName(req)
	if err != nil {
		return nil, err
	}
	to, err := versionNumber(req, "to", 1, 0)
	if err != nil {
		return nil, err
	}
	newer, _, err := a.Workspaces.Show(req.ctx(), req.key.Team, name, to)
	if err != nil {
		return nil, err
	}
	out := WorkspaceDiff{Name: name, To: newer.Number, Files: []FileDiff{}}
	if out.From, err = versionNumber(req, "from", 0, newer.Number-1); err != nil {
		return nil, err
	}
	deltas, err := a.Workspaces.Compare(req.ctx(), req.key.Team, name, out.From, out.To)
	if err != nil {
		return nil, err
	}
	left := room{read: mostRead, text: mostDiff, lines: mostLines, packed: mostPacked}
	for i := range deltas {
		f, whole, err := a.fileDiff(req, &deltas[i], &left)
		if err = errors.Join(err, req.ctx().Err()); err != nil {
			return nil, err
		}
		out.Cut = out.Cut || !whole
		out.Files = append(out.Files, f)
	}
	if !out.Cut && left.patch.Len() <= mostDiff && left.packed >= 0 { // half a patch is none
		out.Patch = left.patch.String()
	}
	return out, nil
}

// room is what a comparison may still read and say, in bytes, and compare, in lines.
type room struct {
	read, text, lines int64
	packed            int64           // bytes that are no text, for the patch
	patch             strings.Builder // of what was compared, until it is too large
}

// add adds a file to the patch, unless that cannot be whole any more: to pack its
// bytes has its price.
func (r *room) add(f *diff.File) {
	if f.Note != "" && f.Kind != envelope.ChangeMode { // of which a patch has no bytes
		r.packed -= f.Behind
	}
	if r.patch.Len() <= mostDiff && r.packed >= 0 {
		r.patch.WriteString(f.Patch())
	}
}

// fileDiff compares one file; whole says that its text is there.
func (a *API) fileDiff(req *request, d *workspace.Delta, left *room) (f FileDiff, whole bool, err error) {
	f = FileDiff{Name: d.Name(), Kind: d.Kind, Bytes: d.Now.Size, Executable: d.Now.Executable}
	if d.Was.Name != "" {
		f.Before = d.Was.SHA256.Name()
	}
	if d.Now.Name != "" {
		f.After = d.Now.SHA256.Name()
	}
	if d.Was.Size > mostCompared || d.Now.Size > mostCompared || d.Was.Size+d.Now.Size > left.read || left.text <= 0 || left.lines <= 0 {
		return f, false, nil
	}
	left.read -= d.Was.Size + d.Now.Size
	filled, err := a.Workspaces.Fill(req.key.Team, d)
	if err != nil {
		return f, false, err
	}
	n := bytes.Count(filled.Before, []byte("\n")) + bytes.Count(filled.Change.Data, []byte("\n"))
	if left.lines -= int64(n); left.lines < 0 {
		return f, false, nil
	}
	compared := diff.Of(filled.Before, filled.Ran, &filled.Change)
	if text := compared.Raw(); int64(len(text)) <= left.text {
		f.Diff = text
	}
	left.text -= int64(len(f.Diff))
	left.add(&compared)
	return f, f.Diff != "", nil
}

// exportVersion is GET /v1/workspaces/{name}/export.
func exportVersion(a *API, req *request) (any, error) {
	name, n, err := versionIn(req)
	if err != nil {
		return nil, err
	}
	v, m, err := a.Workspaces.Show(req.ctx(), req.key.Team, name, n)
	if err != nil {
		return nil, err
	}
	req.w.Header().Set("Callcell-Version", strconv.FormatInt(v.Number, 10))
	a.sendBytes(req, tarType, func(w io.Writer) error {
		archive := tar.NewWriter(w)
		for _, e := range m.Files {
			if err := a.archive(archive, req.key.Team, v, e); err != nil {
				return err
			}
		}
		return archive.Close()
	})
	return answered{}, nil
}

// archive writes one file of a version, which is read while it is written.
func (a *API) archive(to *tar.Writer, team string, v workspace.Version, e workspace.Entry) error {
	r, err := a.Workspaces.Open(team, e)
	if err != nil {
		return err
	}
	defer r.Close()
	mode := int64(0o644)
	if e.Executable {
		mode = 0o755
	}
	err = to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.Name, Size: e.Size, Mode: mode, ModTime: v.At.UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	_, err = io.Copy(to, r)
	return err
}

// WorkspaceRemoved is the answer to DELETE /v1/workspaces/{name}.
type WorkspaceRemoved struct {
	Removed int `json:"removed" doc:"Versions. Their room is free with the next collection"`
}

// removeWorkspace is DELETE /v1/workspaces/{name}.
func removeWorkspace(a *API, req *request) (any, error) {
	name, err := workspaceName(req)
	if err != nil {
		return nil, err
	}
	upTo, err := versionNumber(req, "upTo", 1, 0)
	if err != nil {
		return nil, err
	}
	n, err := a.Workspaces.Remove(req.ctx(), req.key.Team, name, upTo)
	if err != nil {
		return nil, err
	}
	a.freed()
	return WorkspaceRemoved{n}, nil
}

// workspaceProblem is what is said of an error of workspaces, or nil.
func workspaceProblem(err error) *Problem {
	var held *workspace.HeldError
	switch {
	case errors.Is(err, workspace.ErrAbsent):
		return problem("not_found", "there is no such workspace, or it has no such version or file", "GET /v1/workspaces lists them")
	case errors.As(err, &held):
		p := problem("conflict", held.Error(), "wait until that call is over")
		p.Retry = true
		return p
	case errors.Is(err, workspace.ErrStale):
		return problem("conflict", "that is the newest version, which goes only with the whole", "name an older one, or none")
	}
	return nil
}
