package cgroup

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestLimitsValidate(t *testing.T) {
	good := Limits{Memory: 4096, Pids: 1, CPU: MinCPU}
	if err := good.validate(4096); err != nil {
		t.Error(err)
	}
	for _, bad := range []Limits{
		{},
		{Memory: 4095, Pids: 1, CPU: 1000},
		{Memory: -1, Pids: 1, CPU: 1000},
		{Memory: math.MaxInt64, Pids: 1, CPU: 1000},
		{Memory: 4096, Pids: 0, CPU: 1000},
		{Memory: 4096, Pids: -5, CPU: 1000},
		{Memory: 4096, Pids: 1, CPU: MinCPU - 1},
		{Memory: 4096, Pids: 1, CPU: math.MaxInt64},
	} {
		if err := bad.validate(4096); !errors.Is(err, ErrLimits) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestSettings(t *testing.T) {
	limits := Limits{Memory: 256<<20 + 77, Pids: 64, CPU: 1500}
	for version, want := range map[int][]string{
		1: {
			"memory.limit_in_bytes=268435456", "memory.memsw.limit_in_bytes=268439552", "memory.swappiness=0",
			"memory.kmem.tcp.limit_in_bytes=67108864",
			"pids.max=64", "cpu.cfs_period_us=100000", "cpu.cfs_quota_us=150000",
		},
		2: {
			"memory.max=268435456", "memory.swap.max=0", "memory.oom.group=1",
			"pids.max=64", "cpu.max=150000 100000",
		},
	} {
		var got []string
		for _, s := range settings(version, limits, 4096) {
			got = append(got, s.file+"="+s.value)
		}
		if !slices.Equal(got, want) {
			t.Errorf("version %d:\n got %q\nwant %q", version, got, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "0", "-", "i3f9-cell-12", strings.Repeat("z", 64)} {
		if err := checkName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "a/b", "A", "a_b", "a.b", "a b", "ä", "a\x00", strings.Repeat("z", 65)} {
		if err := checkName(bad); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
