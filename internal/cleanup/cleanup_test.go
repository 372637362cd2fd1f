package cleanup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/cleanup"
)

func TestReverseOrderOnceEach(t *testing.T) {
	var got []string
	note := func(name string) cleanup.Undo {
		return func(context.Context) error { got = append(got, name); return nil }
	}
	s := cleanup.Make("a", note("a"))
	s.Add("b", note("b"))
	s.Add("c", note("c"))
	for range 2 {
		if err := s.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"c", "b", "a"}; !slices.Equal(got, want) {
		t.Fatalf("ran %v, want %v", got, want)
	}
}

func TestFailuresAndPanicsStopNothing(t *testing.T) {
	errGone, ran := errors.New("gone"), false
	s := cleanup.Make("bottom", func(context.Context) error { ran = true; return nil })
	s.Add("panics", func(context.Context) error { panic("boom") })
	s.Add("fails", func(context.Context) error { return errGone })
	err := s.Clean(t.Context())
	var p *cleanup.PanicError
	if !ran || !errors.Is(err, errGone) || !errors.As(err, &p) || p.Value != "boom" {
		t.Fatalf("ran=%v err=%v", ran, err)
	}
	if !strings.Contains(err.Error(), "fails: gone") || !strings.Contains(err.Error(), "panics: panic: boom") {
		t.Fatalf("the steps are not named: %v", err)
	}
}

func TestRelease(t *testing.T) {
	s := cleanup.Make("kept", func(context.Context) error { t.Error("ran"); return nil })
	s.Release()
	if err := s.Clean(t.Context()); err != nil || s.Len() != 0 {
		t.Fatalf("err=%v len=%d", err, s.Len())
	}
}

func TestZeroValueAndAddDuringClean(t *testing.T) {
	var s cleanup.Stack
	var got []string
	s.Add("outer", func(context.Context) error {
		s.Add("inner", func(context.Context) error { got = append(got, "inner"); return nil })
		got = append(got, "outer")
		return nil
	})
	if err := s.Clean(t.Context()); err != nil || !slices.Equal(got, []string{"outer", "inner"}) {
		t.Fatalf("err=%v ran %v", err, got)
	}
}
