//go:build linux

package seccomp

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// small is a policy that compiles; tests break one thing in it.
func small() Policy {
	return Policy{
		Arch: unix.AUDIT_ARCH_X86_64, Default: eperm, Newest: 100, Newer: enosys,
		Rules: []Rule{
			{Name: "a", Nr: 7, Action: Allow},
			{Name: "b", Nr: 3, Action: eperm, Cases: []Case{{When: []Cond{int32Is(0, 5)}, Then: Allow}}},
		},
	}
}

func TestCompileRefusesWhatCannotBeMeant(t *testing.T) {
	cond := func(p *Policy) *Cond { return &p.Rules[1].Cases[0].When[0] }
	tests := map[string]func(*Policy){
		"default allow":        func(p *Policy) { p.Default = Allow },
		"newer allow":          func(p *Policy) { p.Newer = Allow },
		"default zero":         func(p *Policy) { p.Default = 0 },
		"two rules":            func(p *Policy) { p.Rules[0].Nr = 3 },
		"x32 number":           func(p *Policy) { p.Rules[0].Nr = x32 },
		"no action":            func(p *Policy) { p.Rules[0].Action = 0 },
		"success without call": func(p *Policy) { p.Rules[0].Action = Errno(0) },
		"errno out of range":   func(p *Policy) { p.Rules[0].Action = Errno(4096) },
		"trap":                 func(p *Policy) { p.Rules[0].Action = unix.SECCOMP_RET_TRAP },
		"empty case":           func(p *Policy) { p.Rules[1].Cases[0].When = nil },
		"many conditions": func(p *Policy) {
			p.Rules[1].Cases[0].When = make([]Cond, arguments+1)
		},
		"case without action":   func(p *Policy) { p.Rules[1].Cases[0].Then = 0 },
		"argument six":          func(p *Policy) { cond(p).Arg = arguments },
		"argument minus one":    func(p *Policy) { cond(p).Arg = -1 },
		"no bits":               func(p *Policy) { *cond(p) = Cond{} },
		"value outside of mask": func(p *Policy) { cond(p).Value = 1 << 32 },
	}
	for name, breakIt := range tests {
		t.Run(name, func(t *testing.T) {
			p := small()
			if _, err := Compile(p); err != nil {
				t.Fatal("before:", err)
			}
			breakIt(&p)
			if filter, err := Compile(p); !errors.Is(err, ErrPolicy) || filter != nil {
				t.Errorf("got %d instructions and %v, want ErrPolicy", len(filter), err)
			}
		})
	}
}

func TestCompileRefusesWhatTheKernelWould(t *testing.T) {
	p := small()
	for nr := range uint32(1200) {
		p.Rules = append(p.Rules, Rule{Nr: 1000 + 2*nr, Action: Allow})
	}
	if _, err := Compile(p); !errors.Is(err, ErrTooLong) {
		t.Errorf("got %v, want ErrTooLong", err)
	}
}

// A subtree longer than a conditional jump reaches is jumped over.
func TestCompileFarJumps(t *testing.T) {
	p := small()
	p.Newest = 5000
	for nr := range uint32(900) {
		p.Rules = append(p.Rules, Rule{Nr: 1000 + 2*nr, Action: Allow})
	}
	c := compare(t, p)
	far := 0
	for _, in := range c.tree {
		if in.Code == opJump {
			far++
		}
	}
	if far == 0 {
		t.Error("no far jump: the test tests nothing")
	}
	for nr := range uint32(5010) {
		c.ask(t, call{arch: p.Arch, nr: nr})
	}
}

// Compile must not sort what belongs to its caller.
func TestCompileLeavesThePolicyAlone(t *testing.T) {
	p := small()
	if _, err := Compile(p); err != nil {
		t.Fatal(err)
	}
	if p.Rules[0].Name != "a" || p.Rules[1].Name != "b" {
		t.Errorf("rules moved: %+v", p.Rules)
	}
}

func TestCompileLastNumber(t *testing.T) {
	for _, newest := range []uint32{0, 1, x32 - 1, 1<<32 - 2, 1<<32 - 1} {
		p := small()
		p.Newest = newest
		c := compare(t, p)
		for _, nr := range []uint32{0, 1, 2, 3, 4, 7, 8, x32 - 1, x32, 1<<32 - 2, 1<<32 - 1} {
			c.ask(t, call{arch: p.Arch, nr: nr})
		}
	}
}

func TestActionString(t *testing.T) {
	tests := map[Action]string{
		Allow: "allow", KillProcess: "kill", eperm: "EPERM", enosys: "ENOSYS",
		Errno(4000): "errno 4000", 0: "invalid action 0x0", Errno(0): "invalid action 0x50000",
	}
	for a, want := range tests {
		if got := a.String(); got != want {
			t.Errorf("%#x: %q, want %q", uint32(a), got, want)
		}
	}
}

func TestDigest(t *testing.T) {
	one := []unix.SockFilter{{Code: opReturn, K: uint32(eperm)}}
	// printf '\x06\x00\x00\x00\x01\x00\x05\x00' | sha256sum
	const want = "1bde2a6c7dd83869c073738f32ea5bf10e0c103b56143f69b3562e21b871f66e"
	if got := fmt.Sprintf("%x", Digest(one)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func drawAction() *rapid.Generator[Action] {
	return rapid.OneOf(rapid.Just(Allow), rapid.Just(KillProcess), rapid.Map(rapid.IntRange(1, maxErrno), func(e int) Action {
		return Errno(unix.Errno(e))
	}))
}

func drawRefusal() *rapid.Generator[Action] {
	return rapid.SampledFrom([]Action{KillProcess, eperm, enosys})
}

// drawCond draws from few masks and values, so that conditions overlap.
func drawCond() *rapid.Generator[Cond] {
	return rapid.Custom(func(t *rapid.T) Cond {
		mask := rapid.OneOf(
			rapid.SampledFrom([]uint64{low32, all64, 0xff, low32 &^ 0xff, 1 << 63, highWord}),
			rapid.Uint64Range(1, all64)).Draw(t, "mask")
		value := rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64()).Draw(t, "value")
		return Cond{Arg: rapid.IntRange(0, arguments-1).Draw(t, "arg"), Mask: mask, Value: value & mask}
	})
}

func drawPolicy() *rapid.Generator[Policy] {
	drawCase := rapid.Custom(func(t *rapid.T) Case {
		return Case{When: rapid.SliceOfN(drawCond(), 1, arguments).Draw(t, "when"), Then: drawAction().Draw(t, "then")}
	})
	number := rapid.OneOf(rapid.Uint32Range(0, 40), rapid.Uint32Range(0, x32-1))
	return rapid.Custom(func(t *rapid.T) Policy {
		p := Policy{
			Arch:    rapid.Uint32().Draw(t, "arch"),
			Default: drawRefusal().Draw(t, "default"),
			Newest:  rapid.OneOf(rapid.Uint32Range(0, 50), rapid.Uint32()).Draw(t, "newest"),
			Newer:   drawRefusal().Draw(t, "newer"),
		}
		for _, nr := range rapid.SliceOfNDistinct(number, 0, 40, rapid.ID).Draw(t, "numbers") {
			r := Rule{Nr: nr, Action: drawAction().Draw(t, "action")}
			if rapid.Bool().Draw(t, "cases?") {
				r.Cases = rapid.SliceOfN(drawCase, 1, 12).Draw(t, "cases")
			}
			p.Rules = append(p.Rules, r)
		}
		return p
	})
}

// drawCall draws a call that has something to do with the policy: a number at
// or beside one of its own, and arguments that meet one of its cases but for
// a bit.
func drawCall(p Policy) *rapid.Generator[call] {
	return rapid.Custom(func(t *rapid.T) call {
		c := call{arch: p.Arch, nr: rapid.OneOf(rapid.Uint32Range(0, 60), rapid.Uint32(), rapid.Just(p.Newest+1)).Draw(t, "nr")}
		for i := range c.args {
			c.args[i] = rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64()).Draw(t, "arg")
		}
		if len(p.Rules) > 0 && rapid.IntRange(0, 9).Draw(t, "near") < 8 {
			r := rapid.SampledFrom(p.Rules).Draw(t, "rule")
			c.nr = r.Nr + rapid.SampledFrom([]uint32{0, 0, 0, 1, 1<<32 - 1}).Draw(t, "beside")
			if len(r.Cases) > 0 {
				for _, w := range rapid.SampledFrom(r.Cases).Draw(t, "case").When {
					c.args[w.Arg] = c.args[w.Arg]&^w.Mask | w.Value
				}
				c.args[rapid.IntRange(0, arguments-1).Draw(t, "flip arg")] ^= rapid.SampledFrom([]uint64{0, 0, 1, 1 << 31, 1 << 32, 1 << 63}).Draw(t, "flip")
			}
		}
		if rapid.IntRange(0, 19).Draw(t, "other arch") == 0 {
			c.arch ^= 1
		}
		return c
	})
}

func TestCompileMeansThePolicy(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPolicy().Draw(rt, "policy")
		tree, err := Compile(p)
		if errors.Is(err, ErrTooLong) {
			rt.Skip("too long")
		}
		if err != nil {
			rt.Fatal(err)
		}
		c := &compared{policy: p, tree: tree, chain: linear(p)}
		for range 50 {
			if m := c.mismatch(drawCall(p).Draw(rt, "call")); m != "" {
				rt.Fatal(m)
			}
		}
	})
}
