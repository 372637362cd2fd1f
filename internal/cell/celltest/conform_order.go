package celltest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

func orderCases() []testCase {
	return []testCase{
		{"features say what is enforced", testFeatures},
		{"methods out of order are ErrState", testOrder},
		{"methods after Close are ErrClosed", testAfterClose},
		{"Open under a cancelled context builds nothing", testOpenCancelled},
		{"Exec under a cancelled context runs nothing", testExecCancelled},
		{"a program that is not there has not started", testNoProgram},
		{"the same envelope is enforced the same way", testEnforced},
	}
}

func testFeatures(b *bench) {
	if !b.rt.Level().Valid() || b.rt.Level() == envelope.LevelAuto {
		b.Errorf("Level is %s", b.rt.Level())
	}
	f := b.rt.Features()
	if !f.Available {
		b.Errorf("under test, and not available: %s", f.Why)
	}
	if len(f.Enforced) == 0 {
		b.Error("Features.Enforced is empty: nobody can tell what the level enforces")
	}
	for _, line := range f.Enforced {
		if line.Name == "" || !line.On && line.Note == "" {
			b.Errorf("a feature without a name, or off without a note: %+v", line)
		}
	}
}

// steps calls every method but Close and returns what it says.
func (b *bench) steps(c cell.Cell) map[cell.Op]error {
	ctx := b.context()
	_, execErr := c.Exec(ctx, cell.Command{Argv: b.script(Exit, "0"), Env: environment()})
	_, _, getErr := c.Get(ctx, []string{"x"}, envelope.OutputCaps{Count: 1, Bytes: 1})
	return map[cell.Op]error{
		cell.OpPut:  c.Put([]envelope.File{{Name: "late"}}),
		cell.OpExec: execErr,
		cell.OpStop: c.Stop(ctx),
		cell.OpGet:  getErr,
	}
}

func testOrder(b *bench) {
	c := b.open()
	ctx := b.context()
	get := func() error {
		_, _, err := c.Get(ctx, []string{"x"}, envelope.OutputCaps{Count: 1, Bytes: 1})
		return err
	}
	puts := 0
	put := func() error {
		puts++
		return c.Put([]envelope.File{{Name: fmt.Sprintf("file%d", puts)}})
	}
	exec := func() error {
		_, err := c.Exec(ctx, cell.Command{Argv: b.script(Exit, "0"), Env: environment()})
		return err
	}
	stop := func() error { return c.Stop(ctx) }
	for _, step := range []struct {
		name string
		call func() error
		ok   bool
	}{
		{"Stop before Exec", stop, false}, {"Get before Exec", get, false},
		{"Put", put, true}, {"Put again", put, true}, {"Exec", exec, true},
		{"Put after Exec", put, false}, {"Exec again", exec, false}, {"Get before Stop", get, false},
		{"Stop", stop, true}, {"Get", get, true}, {"Get again", get, true},
		{"Put after Stop", put, false}, {"Exec after Stop", exec, false},
	} {
		err := step.call()
		if step.ok && err != nil || !step.ok && !errors.Is(err, cell.ErrState) {
			b.Errorf("%s: %v", step.name, err)
		}
	}
}

func testAfterClose(b *bench) {
	for _, used := range []bool{false, true} {
		c := b.open()
		if used {
			cmd, r := b.command(Exit, "0")
			b.exec(c, cmd, r)
			b.stop(c)
		}
		b.destroy(c)
		for op, err := range b.steps(c) {
			if !errors.Is(err, cell.ErrClosed) {
				b.Errorf("%s after Close: %v, want ErrClosed", op, err)
			}
		}
	}
}

func testOpenCancelled(b *bench) {
	var c cell.Cell
	var err error
	b.within("Open", func() { c, err = b.rt.Open(b.cancelled(), b.shape()) })
	if err == nil {
		b.destroy(c)
		b.Fatal("opened a cell")
	}
	var ce *cell.Error
	if !errors.As(err, &ce) || !errors.Is(err, context.Canceled) {
		b.Errorf("error is %v (%T), want a *cell.Error that wraps context.Canceled", err, err)
	}
}

func testExecCancelled(b *bench) {
	c := b.open()
	cmd, r := b.command(Print, "ran")
	b.within("Exec", func() { r.exit, r.err = c.Exec(b.cancelled(), cmd) })
	if !errors.Is(r.err, cell.ErrNotStarted) || !errors.Is(r.err, context.Canceled) || r.stdout.text() != "" {
		b.Errorf("error %v, output %q; want ErrNotStarted that wraps context.Canceled", r.err, r.stdout.text())
	}
}

func testNoProgram(b *bench) {
	for _, name := range []string{"no-such-program", "/no/such/program"} {
		c := b.open()
		_, r := b.command(Exit, "0")
		b.exec(c, cell.Command{Argv: []string{name}, Env: environment(), Stdout: r.stdout, Stderr: r.stderr}, r)
		if !errors.Is(r.err, cell.ErrNotStarted) || !errors.Is(r.err, fs.ErrNotExist) {
			b.Errorf("%s: exit %+v, error %v; want ErrNotStarted that wraps fs.ErrNotExist", name, r.exit, r.err)
		}
		if err := c.Stop(b.context()); !errors.Is(err, cell.ErrState) {
			b.Errorf("Stop where nothing has run: %v, want ErrState", err)
		}
	}
}

func testEnforced(b *bench) {
	digest := func(adjust ...func(*envelope.Envelope)) string {
		cmd, r := b.command(Exit, "0")
		c := b.open(adjust...)
		b.exec(c, cmd, r)
		b.checkExit(r, 0)
		b.destroy(c)
		return r.exit.Enforced
	}
	first, again := digest(), digest()
	other := digest(func(e *envelope.Envelope) { e.Resources.Memory /= 2 })
	hex, ok := strings.CutPrefix(first, "sha256:")
	if !ok || len(hex) != 64 || first != again || first == other {
		b.Errorf("digests %q, %q, and for less memory %q; want sha256:HEX, the same, and another", first, again, other)
	}
}
