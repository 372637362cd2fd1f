package cli

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/blob"
	"github.com/callcell/callcell/internal/workspace"
)

// farShelf is a daemon's: the workspaces of the key's team. What it answers is
// held against what was asked, and bytes against their digests.
type farShelf struct{ *remote }

// missing knows that a workspace, or a version of it, is not there, or is held.
func missing(name string, number int64) func(*client.Problem) error {
	return func(p *client.Problem) error {
		switch {
		case p.Code == "not_found" && number == 0:
			return fmt.Errorf("%w: %s", workspace.ErrAbsent, name)
		case p.Code == "not_found":
			return fmt.Errorf("%w: %s has no version %d", workspace.ErrAbsent, name, number)
		case p.Code == "conflict" && p.Retry:
			return &failure{exitRefusedWait, p.Detail, "wait until that call is over"}
		case p.Code == "conflict":
			return &failure{exitUsage, p.Detail, "without a version it goes as a whole"}
		}
		return nil
	}
}

// List implements shelf.
func (d farShelf) List(ctx context.Context) ([]workspace.Version, error) {
	var list []client.WorkspaceVersion
	err := d.ask(ctx, func(ctx context.Context) (err error) {
		list, err = d.Workspaces(ctx)
		return err
	}, unknownProblem)
	if err != nil {
		return nil, err
	}
	out, err := versionsOf(list, func(last, next *workspace.Version) bool { return last.Name < next.Name })
	if err != nil {
		return nil, d.unusable(err)
	}
	return out, nil
}

// Versions implements shelf.
func (d farShelf) Versions(ctx context.Context, name string) ([]workspace.Version, error) {
	var list []client.WorkspaceVersion
	err := d.ask(ctx, func(ctx context.Context) (err error) {
		list, err = d.WorkspaceVersions(ctx, name)
		return err
	}, missing(name, 0))
	if err != nil {
		return nil, err
	}
	out, err := versionsOf(list, func(last, next *workspace.Version) bool { return last.Number > next.Number && last.Name == next.Name })
	if err == nil && (len(out) == 0 || out[0].Name != name) {
		err = odds("it has not the versions of the workspace that was asked for")
	}
	if err != nil {
		return nil, d.unusable(err)
	}
	return out, nil
}

// versionsOf reads versions, each of which comes before the next.
func versionsOf(list []client.WorkspaceVersion, before func(last, next *workspace.Version) bool) (out []workspace.Version, err error) {
	for i := range list {
		v, err := versionOf(&list[i])
		if err != nil {
			return nil, err
		}
		if len(out) > 0 && !before(&out[len(out)-1], &v) {
			return nil, odds("its versions are not in order")
		}
		out = append(out, v)
	}
	return out, nil
}

func versionOf(v *client.WorkspaceVersion) (workspace.Version, error) {
	manifest, err := blob.Parse(v.Manifest)
	if err = errors.Join(err, envelope.CheckWorkspace(v.Name)); err != nil || v.Version < 1 || v.Files < 0 || v.Bytes < 0 {
		return workspace.Version{}, odds("it has a version that is none")
	}
	return workspace.Version{Name: v.Name, Number: v.Version, Manifest: manifest, Call: v.Call, At: v.At, Files: v.Files, Bytes: v.Bytes}, nil
}

// Show implements shelf.
func (d farShelf) Show(ctx context.Context, name string, number int64) (v workspace.Version, m *workspace.Manifest, err error) {
	var content *client.WorkspaceContent
	err = d.ask(ctx, func(ctx context.Context) (err error) {
		content, err = d.ShowWorkspace(ctx, name, number)
		return err
	}, missing(name, number))
	if err != nil {
		return v, nil, err
	}
	if v, m, err = contentOf(content); err == nil && (v.Name != name || number != 0 && v.Number != number) {
		err = odds("another version than the one that was asked for")
	}
	if err != nil {
		return workspace.Version{}, nil, d.unusable(err)
	}
	return v, m, nil
}

// contentOf reads what is in a version.
func contentOf(c *client.WorkspaceContent) (v workspace.Version, m *workspace.Manifest, err error) {
	if v, err = versionOf(&c.Version); err != nil {
		return v, nil, err
	}
	m = &workspace.Manifest{Version: 1}
	for _, f := range c.Files {
		digest, err := blob.Parse(f.Digest)
		if err != nil {
			return v, nil, odds("a file without a digest")
		}
		m.Files = append(m.Files, workspace.Entry{Name: f.Name, Size: f.Bytes, Executable: f.Executable, SHA256: digest})
	}
	if err := m.Check(); err != nil {
		return v, nil, odds("%v", err)
	}
	if v.Files != len(m.Files) || v.Bytes != m.Bytes() {
		return v, nil, odds("its files are not those of the version")
	}
	return v, m, nil
}

// Read implements shelf.
func (d farShelf) Read(ctx context.Context, name string, number int64) (workspace.Version, *envelope.Tree, error) {
	v, m, err := d.Show(ctx, name, number)
	if err != nil {
		return v, nil, err
	}
	data, err := d.bytes(ctx, &v, m.Files)
	if err != nil {
		return v, nil, err
	}
	t := &envelope.Tree{}
	for _, e := range m.Files {
		t.Files = append(t.Files, envelope.File{Name: e.Name, Data: data[e.Name], Executable: e.Executable})
	}
	return v, t, nil
}

// Diff implements shelf. The files are compared here, as those of this host are.
func (d farShelf) Diff(ctx context.Context, name string, from, to int64) (list []workspace.Difference, err error) {
	var was workspace.Version
	old := &workspace.Manifest{}
	if from > 0 {
		if was, old, err = d.Show(ctx, name, from); err != nil {
			return nil, err
		}
	}
	is, now, err := d.Show(ctx, name, to)
	if err != nil {
		return nil, err
	}
	deltas := workspace.Deltas(old, now)
	var gone, made []workspace.Entry
	for i := range deltas {
		if deltas[i].Kind != envelope.ChangeAdded {
			gone = append(gone, deltas[i].Was)
		}
		if deltas[i].Kind != envelope.ChangeRemoved {
			made = append(made, deltas[i].Now)
		}
	}
	before, err := d.bytes(ctx, &was, gone)
	if err != nil {
		return nil, err
	}
	after, err := d.bytes(ctx, &is, made)
	if err != nil {
		return nil, err
	}
	for i := range deltas {
		list = append(list, deltas[i].With(before[deltas[i].Was.Name], after[deltas[i].Now.Name]))
	}
	return list, nil
}

// Remove implements shelf.
func (d farShelf) Remove(ctx context.Context, name string, upTo int64) (n int, err error) {
	err = d.ask(ctx, func(ctx context.Context) (err error) {
		n, err = d.RemoveWorkspace(ctx, name, upTo)
		return err
	}, missing(name, upTo))
	if err == nil && n < 0 {
		err = d.unusable(odds("it says not how many versions went"))
	}
	return n, err
}

// fewFiles is how many files are asked for one by one: of more the whole version
// is, since requests are counted.
const fewFiles = 16

// bytes reads files of a version. What comes has the digests that are known.
func (d farShelf) bytes(ctx context.Context, v *workspace.Version, files []workspace.Entry) (data map[string][]byte, err error) {
	data = make(map[string][]byte, len(files))
	if len(files) > fewFiles {
		err = d.archive(ctx, v, files, data)
		return data, err
	}
	for _, e := range files {
		err := d.load(ctx, func(ctx context.Context, hear hearing) error {
			r, err := d.ReadWorkspaceFile(ctx, v.Name, v.Number, e.Name)
			if err != nil {
				return err
			}
			defer r.Close()
			data[e.Name], err = fileOf(hear(r), &e)
			return err
		}, missing(v.Name, v.Number))
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

// fileOf reads a file, of which size and digest are known.
func fileOf(r io.Reader, e *workspace.Entry) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, e.Size+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) != e.Size || blob.Sum(text) != e.SHA256 {
		return nil, odds("a file is not what its digest says: %q", e.Name)
	}
	return text, nil
}

// archive reads files out of the archive of a version.
func (d farShelf) archive(ctx context.Context, v *workspace.Version, files []workspace.Entry, data map[string][]byte) error {
	wanted := make(map[string]*workspace.Entry, len(files))
	for i := range files {
		wanted[files[i].Name] = &files[i]
	}
	return d.load(ctx, func(ctx context.Context, hear hearing) error {
		r, err := d.ExportWorkspace(ctx, v.Name, v.Number)
		if err != nil {
			return err
		}
		defer r.Close()
		return unpack(io.LimitReader(hear(r), v.Bytes+int64(v.Files+1)*perFile), wanted, data)
	}, missing(v.Name, v.Number))
}

// perFile bounds what an archive has of a file beside its bytes.
const perFile = 64 << 10

// unpack reads the files that are wanted out of an archive.
func unpack(r io.Reader, wanted map[string]*workspace.Entry, data map[string][]byte) error {
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF && len(data) < len(wanted) {
			return odds("%d files are not in its archive", len(wanted)-len(data))
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		e := wanted[h.Name]
		if e == nil {
			continue
		}
		if _, twice := data[h.Name]; twice || h.Typeflag != tar.TypeReg {
			return odds("its archive has something else for %q", h.Name)
		}
		if data[h.Name], err = fileOf(archive, e); err != nil {
			return err
		}
	}
}
