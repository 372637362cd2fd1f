package cli_test

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/blob"
)

// clientOf returns a client of a daemon.
func clientOf(t *testing.T, d *daemon, secret string) *client.Client {
	t.Helper()
	c, err := client.New(d.address, secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

// collected is what "callcell workspace gc" removed and kept.
func collected(t *testing.T, bin, conf string) (r blob.Report) {
	t.Helper()
	out, err := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "workspace", "gc", "--json").Output()
	if err = errors.Join(err, json.Unmarshal(out, &r)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// TestDaemonKeepsBytes: real cells get inputs by digest and of a form, and hand
// large outputs over as blobs; a daemon that is killed has them still, and a
// collection leaves them until they are let go of.
func TestDaemonKeepsBytes(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	reviewed(t, conf)
	secret := secretOf(t, bin, conf, "call")
	ctx := t.Context()
	d := startDaemon(t, bin, conf)
	c := clientOf(t, d, secret)
	text := strings.Repeat("0123456789abcdef", 1<<16)
	b, err := c.PutBlob(ctx, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.end(syscall.SIGKILL); err == nil {
		t.Error("it was not killed")
	}
	d = startDaemon(t, bin, conf)
	c = clientOf(t, d, secret)
	most := envelope.KiB
	r, err := c.RunForm(ctx, &envelope.Call{
		Argv: []string{"./join"}, Inputs: []envelope.File{b.File("in.bin"), {Name: "join", Data: envelope.Data{}, Executable: true}},
		Outputs: []string{"all.bin", "size"}, InlineOutputs: &most,
	}, []client.Part{{Name: "join", Body: strings.NewReader("#!/bin/sh\ncat in.bin more.txt > all.bin && wc -c < all.bin > size\n")}, {Name: "more.txt", Body: strings.NewReader("more\n")}})
	if err != nil || !r.OK() || len(r.Outputs) != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	all, size := r.Outputs[0], r.Outputs[1]
	if all.Blob != envelope.Digest([]byte(text+"more\n")) || all.Size != 1<<20+5 || len(all.Data) > 0 || strings.TrimSpace(string(size.Data)) != "1048581" || size.Blob != "" {
		t.Errorf("%s %d, %q", all.Blob, all.Size, size.Data)
	}
	got, err := c.GetBlob(ctx, all.Blob)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(got); errors.Join(err, got.Close()) != nil || string(data) != text+"more\n" {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if r := collected(t, bin, conf); r.Kept != 2 || r.Blobs != 0 {
		t.Errorf("%+v", r)
	}
	if err := c.DropBlob(ctx, b.Digest); err != nil {
		t.Error(err)
	}
	if r := collected(t, bin, conf); r.Kept != 1 || r.Blobs > 1 {
		t.Errorf("%+v", r)
	}
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
}

// TestDaemonKeepsTrees: real cells read and write the versions of a workspace of
// a team, which the local user's command line does not see.
func TestDaemonKeepsTrees(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	reviewed(t, conf)
	ctx := t.Context()
	secret := secretOf(t, bin, conf, "call")
	d := startDaemon(t, bin, conf)
	c := clientOf(t, d, secret)
	run := func(version int64, script string, tree *envelope.Tree) (*envelope.Result, error) {
		return c.Run(ctx, &envelope.Call{Argv: []string{"sh", "-c", script}, Tree: tree, Workspace: &envelope.Workspace{Name: "notes", Version: version}})
	}
	seed := &envelope.Tree{Files: []envelope.File{{Name: "src/run", Data: []byte("#!/bin/sh\necho ran\n"), Executable: true}}}
	if r, err := run(0, "echo one > log", seed); err != nil || !r.OK() || r.Workspace.Wrote != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := run(1, "./src/run >> log; rm src/run", nil); err != nil || !r.OK() || r.Workspace.Wrote != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	var p *client.Problem
	if _, err := run(1, "true", nil); !errors.As(err, &p) || p.Code != "conflict" || p.Status != 409 {
		t.Errorf("%v", err)
	}
	diff, err := c.DiffWorkspace(ctx, "notes", 1, 2)
	if err != nil || len(diff.Files) != 2 || !strings.Contains(diff.Files[0].Diff, "+ran\n") || diff.Files[1].Kind != envelope.ChangeRemoved {
		t.Errorf("%+v %v", diff, err)
	}
	r, err := c.ExportWorkspace(ctx, "notes", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	names := ""
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			break
		}
		names += h.Name + " "
	}
	if names != "log src/run " {
		t.Errorf("%q", names)
	}
	out, err := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "workspace", "list", "--json").Output()
	if err != nil || strings.TrimSpace(string(out)) != "[]" {
		t.Errorf("the local user has %s, %v", out, err)
	}
	if n, err := c.RemoveWorkspace(ctx, "notes", 0); err != nil || n != 2 {
		t.Errorf("%d %v", n, err)
	}
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
}
