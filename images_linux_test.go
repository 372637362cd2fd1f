package callcell_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callcell/callcell"
	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestImages builds an image of commands, runs a call in it, and lets go of it.
func TestImages(t *testing.T) {
	leak.Check(t)
	conf := configOf(t)
	conf.Floors = map[envelope.Trust]envelope.Level{envelope.TrustModel: envelope.LevelContainer, envelope.TrustThirdParty: envelope.LevelContainer}
	made := reviewed()
	made.Image = "build:made"
	conf.Profiles["made"] = made
	cells := open(t, conf)
	images := cells.Images()
	if list, err := images.List(); err != nil || len(list) != 0 {
		t.Errorf("%+v %v", list, err)
	}
	if r := cells.Run(t.Context(), &envelope.Call{Profile: "made", Argv: []string{"made"}}); r.Refusal == nil {
		t.Errorf("an image that is not there: %+v", r)
	}
	built, err := images.Build(t.Context(), client.Build{Name: "made", Run: []string{`mkdir -p $PREFIX/bin && printf '#!/bin/sh\necho made\n' >$PREFIX/bin/made && chmod 755 $PREFIX/bin/made`}})
	if err != nil || built.Name != "build:made" || built.Digest == "" {
		t.Fatalf("%+v %v", built, err)
	}
	if r := cells.Run(t.Context(), &envelope.Call{Profile: "made", Argv: []string{"made"}}); !r.OK() || string(r.Stdout.Head) != "made\n" || r.Image != built.Digest {
		t.Errorf("%v %+v", r.Refusal, r)
	}
	if list, err := images.List(); err != nil || len(list) != 1 || list[0] != *built {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := images.Build(t.Context(), client.Build{Name: "made", Run: []string{"echo last words; exit 3"}}); !isError(err, nil) {
		t.Errorf("a command that fails: %v", err)
	}
	if _, err := images.Build(t.Context(), client.Build{Name: "x", Pip: []string{"x"}, PipIndex: "https://user:pass@example.com/simple"}); !isError(err, nil) || strings.Contains(err.Error(), "pass@") {
		t.Errorf("an index with a password: %v", err)
	}
	if err := images.Remove(t.Context(), "build:made"); err != nil {
		t.Error(err)
	}
	if err := images.Remove(t.Context(), "build:made"); !isError(err, callcell.ErrAbsent) {
		t.Errorf("an image that is gone: %v", err)
	}
	for _, dry := range []bool{true, false} {
		if c, err := images.Collect(t.Context(), dry); err != nil || len(c.Removed) != 1 || c.Bytes == 0 {
			t.Errorf("%+v %v", c, err)
		}
	}
}

// TestCloseEndsImages: an image that is being made is not when Close has
// returned.
func TestCloseEndsImages(t *testing.T) {
	leak.Check(t)
	conf := configOf(t)
	conf.Floors = map[envelope.Trust]envelope.Level{envelope.TrustModel: envelope.LevelContainer, envelope.TrustThirdParty: envelope.LevelContainer}
	cells := open(t, conf)
	images, done := cells.Images(), make(chan error, 1)
	go func() {
		_, err := images.Build(t.Context(), client.Build{Name: "slow", Run: []string{"sleep 31415.3"}})
		done <- err
	}()
	await(t, "31415.3")
	if err := cells.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("it was made")
	}
	if list, err := images.List(); err != nil || len(list) != 0 {
		t.Errorf("%+v %v", list, err)
	}
	_, err := images.Snapshot(t.Context())
	var refusal *envelope.Refusal
	if !errors.As(err, &refusal) {
		t.Errorf("after Close: %v", err)
	}
}

// TestSnapshot makes the snapshot of this host, and runs a model's code on it, as
// the built-in profile has it.
func TestSnapshot(t *testing.T) {
	if os.Getenv("CALLCELL_LONG") == "" {
		t.Skip("it takes a minute: CALLCELL_LONG=1")
	}
	leak.Check(t)
	conf := configOf(t)
	var err error
	if conf.Helpers, err = kernelDir(); err != nil {
		t.Fatal(err)
	}
	conf.DefaultProfile = ""
	cells := open(t, conf)
	print := &envelope.Call{Script: &envelope.Script{Lang: "sh", Code: "uname -v"}}
	if r := cells.Run(t.Context(), print); r.Refusal == nil {
		t.Errorf("without a snapshot: %+v", r)
	}
	made, err := cells.Images().Snapshot(t.Context())
	if err != nil || made.Name != envelope.ImageHost {
		t.Fatalf("%+v %v", made, err)
	}
	if r := cells.Run(t.Context(), print); !r.OK() || r.Level != envelope.LevelUserKernel {
		t.Errorf("%v %+v", r.Refusal, r)
	}
	if err := cells.Images().Remove(t.Context(), made.Name); err != nil {
		t.Error(err)
	}
	if _, err := cells.Images().Collect(t.Context(), false); err != nil { // others may have the same tree
		t.Error(err)
	}
}

// TestDocumentIsOfThisHost: what a document names and this host does not have is
// refused by New, with its place.
func TestDocumentIsOfThisHost(t *testing.T) {
	for name, c := range map[string]struct{ text, field string }{
		"roots of an anchor":    {`audit: {anchors: [{http: "https://example.com", roots: DIR/none.pem}]}`, "audit.anchors[0]"},
		"roots of a collector":  {`telemetry: {endpoint: "https://example.com", roots: DIR/none.pem}`, "telemetry"},
		"roots of the sources":  {`credentials: {roots: DIR/none.pem, vault: {address: "https://example.com", token: "file:/x"}}`, "credentials.roots"},
		"a Vault without https": {`credentials: {vault: {address: "http://example.com", token: "file:/x"}}`, "credentials.vault.address"},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			cells, err := callcell.New(t.Context(), parsed(t, filepath.Clean(t.TempDir()), c.text))
			var fault *callcell.ConfigError
			if !errors.As(err, &fault) || fault.Field != c.field || !strings.HasPrefix(fault.Place, "test.yaml:1:") || fault.Hint == "" || cells != nil {
				t.Errorf("%v (%+v)", err, fault)
			}
		})
	}
}
