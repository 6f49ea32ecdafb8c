#include "textflag.h"

#define SYS_exit_group 94
#define ESRCH 3

// The fields of a call, see clone_linux.go.
#define call_nr 0
#define call_arg0 8
#define call_arg1 16
#define call_arg2 24
#define call_arg3 32
#define call_arg4 40
#define call_want 48
#define call_chained 56
#define call_step 60
#define call_optional 64
#define call_size 72

// func clone(first, rest *call, failure *Failure) int64
//
// The kernel keeps all registers but R0. From the clone on, the child uses R19 for its next call,
// R20 for failure, and no stack.
TEXT ·clone(SB),NOSPLIT,$0-32
	MOVD first+0(FP), R9
	MOVD rest+8(FP), R19
	MOVD failure+16(FP), R20
	MOVD call_arg0(R9), R0
	MOVD call_arg1(R9), R1
	MOVD call_arg2(R9), R2
	MOVD call_arg3(R9), R3
	MOVD call_arg4(R9), R4
	MOVD call_nr(R9), R8
	SVC
	CBZ R0, child
	MOVD R0, ret+24(FP)
	RET

child: // R0 is the result of the call before
	MOVWU call_chained(R19), R9
	CBNZ R9, chained
	MOVD call_arg0(R19), R0
chained:
	MOVD call_arg1(R19), R1
	MOVD call_arg2(R19), R2
	MOVD call_arg3(R19), R3
	MOVD call_arg4(R19), R4
	MOVD call_nr(R19), R8
	SVC
	CMN $4095, R0
	BCS failed // as unsigned numbers, errors are the largest
	MOVD call_want(R19), R9
	CBZ R9, next
	CMP R9, R0
	BNE unwanted
next:
	ADD $call_size, R19
	B child

unwanted:
	MOVD $-ESRCH, R0
failed:
	MOVD call_optional(R19), R9
	CBNZ R9, next
	NEG R0, R0
	MOVWU call_step(R19), R9
	LSL $32, R9, R9
	ORR R9, R0
	MOVD R0, (R20)
exit:
	MOVD $253, R0 // exitCode
	MOVD $SYS_exit_group, R8
	SVC
	B exit
