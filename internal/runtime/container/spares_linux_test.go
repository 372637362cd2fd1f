package container_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/runtime/link"
)

// standing is what the probe says of itself, without the numbers that no two
// cells have in common.
func (g *ground) standing(t *testing.T, env envelope.Envelope) (lines []string, enforced string) {
	t.Helper()
	e := g.call(t, env, row{lang: "python", code: postureProbe})
	if e.Code != 0 {
		t.Fatalf("%+v\n%s", e.Exit, e.out)
	}
	own := regexp.MustCompile(`(?m)^(namespace \S+ \w+:|map [ug]id_map 1000 )\[?\d+\]?`)
	return strings.Split(own.ReplaceAllString(e.out, "$1"), "\n"), e.Enforced
}

// TestSpareIsLikeAnyCell: with a network and without, a cell that was made before
// it was asked for stands as one that was not, line by line, and is enforced
// alike.
func TestSpareIsLikeAnyCell(t *testing.T) {
	open := envelope.Default()
	open.Network.Allow = []envelope.Allow{{Host: "example.com", Ports: []int{80, 443}}, {Host: "2001:db8::5", Ports: []int{443}}}
	for name, env := range map[string]envelope.Envelope{"no network": envelope.Default(), "a network": open} {
		t.Run(name, func(t *testing.T) {
			g := newGroundWith(t, link.Config{Launchers: 1}, "cells = 64", "spares = 1")
			cold, coldly := g.standing(t, env)
			g.standing(t, env)
			awaitNone(t, "spares that are not there", func() []string {
				if len(g.cellGroups()) == 0 {
					return []string{"one"}
				}
				return nil
			})
			ready := g.cellGroups()
			warm, warmly := g.standing(t, env)
			if left := g.cellGroups(); len(left) > 0 && left[0] == ready[0] {
				t.Errorf("%v was not taken", ready)
			}
			if diff := difference(warm, cold); len(diff) > 0 || !slices.Equal(warm, cold) {
				t.Errorf("%q", diff)
			}
			if coldly != warmly || coldly == "" {
				t.Errorf("enforced: %s, then %s", coldly, warmly)
			}
		})
	}
}
