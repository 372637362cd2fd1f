//go:build linux

package seccomp

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// getpid32 is machine code: mov eax, 20; int 0x80; ret. That is getpid(2)
// through the table of 32-bit programs.
const getpid32 = "\xb8\x14\x00\x00\x00\xcd\x80\xc3"

// unfilteredEnv makes foreignCall leave the filter out.
const unfilteredEnv = "CALLCELL_SECCOMP_UNFILTERED"

// foreignCall makes a call of another architecture.
func foreignCall() error {
	mem, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	copy(mem, getpid32)
	if err := unix.Mprotect(mem, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		return err
	}
	if os.Getenv(unfilteredEnv) == "" {
		if err := install(); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	// A func value is a pointer to a word that points to the code.
	code := unsafe.Pointer(&mem[0])
	word := &code
	(*(*func())(unsafe.Pointer(&word)))()
	return nil
}

func TestKernelKillsForeignCalls(t *testing.T) {
	bare := child(t, "foreign")
	bare.Env = append(bare.Env, unfilteredEnv+"=1")
	if err := bare.Run(); err != nil {
		t.Skip("this kernel runs no 32-bit calls:", err)
	}
	out, err := child(t, "foreign").Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || string(out) != "ready\n" {
		t.Fatalf("%v, output %q", err, out)
	}
	if ws := exit.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != unix.SIGSYS {
		t.Errorf("status %v, want SIGSYS", ws)
	}
}
