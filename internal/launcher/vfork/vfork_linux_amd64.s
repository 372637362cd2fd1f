#include "textflag.h"

// func clone3(args unsafe.Pointer, size uintptr) (pid, errno uintptr)
//
// The child shares our memory and our stack (CLONE_VM|CLONE_VFORK): when it
// returns from here it pushes over the slot in which our return address was.
// So the address is kept in R12, which the kernel saves for each of the two.
TEXT ·clone3(SB),NOSPLIT|NOFRAME,$0-32
	MOVQ args+0(FP), DI
	MOVQ size+8(FP), SI
	MOVQ $435, AX // SYS_clone3
	POPQ R12
	SYSCALL
	PUSHQ R12
	CMPQ AX, $0xfffffffffffff001
	JLS  ok
	NEGQ AX
	MOVQ $0, pid+16(FP)
	MOVQ AX, errno+24(FP)
	RET

ok:
	MOVQ AX, pid+16(FP)
	MOVQ $0, errno+24(FP)
	RET
