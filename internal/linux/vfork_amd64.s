//go:build linux

#include "textflag.h"

// func vforkCall(trap, a1, a2, a3 uintptr) (r1, errno uintptr)
//
// The child of a vfork runs on the parent's stack and will overwrite what lies
// above its top, the return address first: so that is kept in a register, of
// which each has its own.
TEXT ·vforkCall(SB),NOSPLIT|NOFRAME,$0-48
	MOVQ trap+0(FP), AX
	MOVQ a1+8(FP), DI
	MOVQ a2+16(FP), SI
	MOVQ a3+24(FP), DX
	XORL R10, R10
	XORL R8, R8
	XORL R9, R9
	POPQ R12
	SYSCALL
	PUSHQ R12
	MOVQ $0, errno+40(FP)
	MOVQ AX, r1+32(FP)
	CMPQ AX, $-4095
	JCS  done
	NEGQ AX
	MOVQ AX, errno+40(FP)
done:
	RET
