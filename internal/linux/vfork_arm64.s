//go:build linux

#include "textflag.h"

// func vforkCall(trap, a1, a2, a3 uintptr) (r1, errno uintptr)
//
// The child of a vfork runs on the parent's stack. The return address is in
// the link register, of which each has its own.
TEXT ·vforkCall(SB),NOSPLIT,$0-48
	MOVD trap+0(FP), R8
	MOVD a1+8(FP), R0
	MOVD a2+16(FP), R1
	MOVD a3+24(FP), R2
	MOVD ZR, R3
	MOVD ZR, R4
	MOVD ZR, R5
	SVC
	MOVD ZR, errno+40(FP)
	MOVD R0, r1+32(FP)
	CMN  $4095, R0
	BCC  done
	NEG  R0, R0
	MOVD R0, errno+40(FP)
done:
	RET
