package secret

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/credential/memtest"
)

const roleVariable = "CALLCELL_SECRET_TEST"

// TestMain plays a process that hardens itself, where it is told to.
func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "harden":
		if err := Harden(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		var limit unix.Rlimit
		err := unix.Getrlimit(unix.RLIMIT_CORE, &limit)
		dumpable, fault := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		fmt.Println(limit.Cur, limit.Max, dumpable, errors.Join(err, fault))
		os.Exit(0)
	case "panic":
		s, _ := New([]byte(canary))
		panic(fmt.Sprintf("%v", struct{ s Secret }{s}) + s.String())
	case "panic with it":
		s, _ := New([]byte(canary))
		panic(s)
	}
	os.Exit(m.Run())
}

func play(t *testing.T, role string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = []string{roleVariable + "=" + role}
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if role == "harden" && err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestHarden(t *testing.T) {
	if out := play(t, "harden"); out != "1 1 0 <nil>\n" {
		t.Errorf("core limits, dumpable, error: %q", out)
	}
}

// What the runtime prints when a process ends with a panic is not fmt's.
func TestDyingWordsAreAMask(t *testing.T) {
	for _, role := range []string{"panic", "panic with it"} {
		if out := play(t, role); !strings.Contains(out, "panic: ") || carries(out, []byte(canary)) || !strings.Contains(out, Mask) {
			t.Errorf("%s: %s", role, out)
		}
	}
}

func count(t *testing.T, c memtest.Canary) int {
	t.Helper()
	n, err := c.Count()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func make32(t *testing.T, c memtest.Canary) Secret {
	t.Helper()
	s, err := Make(c.Len(), func(room []byte) (int, error) {
		c.Fill(room)
		return c.Len(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDestroyLeavesNothingInMemory(t *testing.T) {
	c := memtest.NewCanary("one that nothing else is made of")
	s := make32(t, c)
	if n := count(t, c); n != 1 {
		t.Fatalf("%d times in memory while it lives, want once", n)
	}
	s.Destroy()
	if n := count(t, c); n != 0 {
		t.Errorf("%d times in memory after Destroy", n)
	}
}

func TestForgottenSecretIsOverwritten(t *testing.T) {
	c := memtest.NewCanary("another that nobody will destroy")
	make32(t, c)
	for late := time.Now().Add(time.Minute); time.Now().Before(late); {
		runtime.GC()
		if count(t, c) == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Error("still in memory after a minute of collections")
}

func TestPanicWhileMakingLeavesNothingInMemory(t *testing.T) {
	c := memtest.NewCanary("a third that is never finished..")
	func() {
		defer func() { _ = recover() }()
		_, _ = Make(c.Len(), func(room []byte) (int, error) {
			c.Fill(room)
			panic("at work")
		})
	}()
	if n := count(t, c); n != 0 {
		t.Errorf("%d times in memory", n)
	}
}

// TestMappingIsKeptApart reads what the kernel says of the memory.
func TestMappingIsKeptApart(t *testing.T) {
	s := mustNew(t, canary)
	var flags string
	s.Reveal(func(value []byte) { flags = vmFlags(t, value) })
	for flag, means := range map[string]string{" dd ": "left out of core dumps", " dc ": "not copied at fork", " lo ": "locked"} {
		if !strings.Contains(flags, flag) {
			t.Errorf("not %s: VmFlags%s", means, flags)
		}
	}
}

func vmFlags(t *testing.T, value []byte) string {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("%x-", uintptr(pointer(value)))
	_, rest, found := strings.Cut("\n"+string(smaps), "\n"+at)
	if !found {
		t.Fatal("no mapping begins with the secret: is it in one with others?")
	}
	_, rest, _ = strings.Cut(rest, "VmFlags:")
	flags, _, _ := strings.Cut(rest, "\n")
	return flags + " "
}
