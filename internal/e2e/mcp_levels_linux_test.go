package e2e_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callcell/callcell/internal/testing/world"
)

// modelsProfiles are those of the tests of callcell mcp, by the image that their
// calls run in.
const modelsProfiles = `defaultProfile: plain
profiles:
  plain: {trust: model, image: IMAGE}
  read: {trust: reviewed, image: IMAGE}
  web: {image: IMAGE, network: {allow: [{host: allowed.test, ports: [443]}], fetch: public}}
`

// profiles are the profiles of a model's calls, and the floors. At userkernel those
// are what everybody has who sets none: the level is what auto makes of a model's
// code. At container they are lowered.
func (s *stand) profiles() string {
	text := strings.ReplaceAll(modelsProfiles, "IMAGE", strconv.Quote(s.image))
	if s.level == "container" {
		text = "floors: {reviewed: container, model: container, thirdparty: userkernel, hostile: microvm}\n" + text
	}
	return text
}

// atLevels plays a test of what assistants do at each level that it may come to.
func atLevels(t *testing.T, play func(*testing.T, *stand)) {
	for _, make := range []func(testing.TB) *stand{usual, ownKernel} {
		s := make(t)
		t.Run(s.level, func(t *testing.T) {
			s.t = t
			play(t, s)
		})
		if level() != "container" {
			return // the second is as the first
		}
	}
}

// alive are the processes of this host by which a program of a call lives: it, or
// the kernel that it is in.
func (s *stand) alive(line string) []int {
	if s.level == "userkernel" {
		return s.processes("callcell-runsc")
	}
	return inCells(line)
}

// first is the first process of the cell that a program of a call is in, as this
// host sees it, or 0.
func (s *stand) first(line string) int {
	pids := s.alive(line)
	for _, pid := range pids {
		parent := parentOf(pid)
		if s.level == "container" && parent > 1 {
			return parent
		}
		if s.level == "userkernel" && parent > 0 && !slices.Contains(pids, parent) {
			return pid
		}
	}
	return 0
}

// parentOf is the parent of a process, or 0 where it is gone.
func parentOf(pid int) (parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, found := strings.Cut(string(stat), ") ")
	var state string
	if _, scanned := fmt.Sscan(rest, &state, &parent); err != nil || !found || scanned != nil {
		return 0
	}
	return parent
}

// saying is a script of the shell that says to the world that it runs, and becomes
// a program.
func (s *stand) saying(line string) string {
	return "curl -sSk 'https://allowed.test" + said(line) + "' >/dev/null; exec " + line
}

// said reports whether it has said so since.
func (s *stand) said(m world.Mark, line string) bool {
	return slices.ContainsFunc(m.Hits(), func(h world.Hit) bool { return h.Path == said(line) })
}

func said(line string) string { return "/say?text=" + url.QueryEscape(line) }

// A hanging is a call that hangs.
type hanging struct {
	line  string     // its program
	ended chan error // of the call
}

// hang calls a program that hangs, and waits until it does.
func (s *stand) hang(ctx context.Context, session *sdk.ClientSession, line string) *hanging {
	s.t.Helper()
	h, m := &hanging{line, make(chan error, 1)}, s.world.Mark(s.t)
	go func() {
		_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "run_code", Arguments: map[string]any{"language": "sh", "code": s.saying(line), "profile": "web"}})
		h.ended <- err
	}()
	until(s.t, "it runs", time.Minute, func() bool { return s.said(m, line) && len(s.alive(line)) > 0 })
	return h
}
