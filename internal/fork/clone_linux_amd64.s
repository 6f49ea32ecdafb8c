#include "textflag.h"

#define SYS_exit_group 231
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
// The kernel keeps all registers but AX, CX and R11. From the clone on, the child uses R12 for its
// next call, R13 for failure, and no stack.
TEXT ·clone(SB),NOSPLIT,$0-32
	MOVQ first+0(FP), BX
	MOVQ rest+8(FP), R12
	MOVQ failure+16(FP), R13
	MOVQ call_arg0(BX), DI
	MOVQ call_arg1(BX), SI
	MOVQ call_arg2(BX), DX
	MOVQ call_arg3(BX), R10
	MOVQ call_arg4(BX), R8
	MOVQ call_nr(BX), AX
	SYSCALL
	TESTQ AX, AX
	JEQ child
	MOVQ AX, ret+24(FP)
	RET

child:
	MOVQ AX, DI // the result of the call before
	CMPL call_chained(R12), $0
	JNE chained
	MOVQ call_arg0(R12), DI
chained:
	MOVQ call_arg1(R12), SI
	MOVQ call_arg2(R12), DX
	MOVQ call_arg3(R12), R10
	MOVQ call_arg4(R12), R8
	MOVQ call_nr(R12), AX
	SYSCALL
	CMPQ AX, $-4095
	JCC failed // as unsigned numbers, errors are the largest
	MOVQ call_want(R12), CX
	TESTQ CX, CX
	JEQ next
	CMPQ AX, CX
	JNE unwanted
next:
	ADDQ $call_size, R12
	JMP child

unwanted:
	MOVQ $-ESRCH, AX
failed:
	CMPQ call_optional(R12), $0
	JNE next
	NEGQ AX
	MOVL call_step(R12), CX
	SHLQ $32, CX
	ORQ CX, AX
	MOVQ AX, (R13)
exit:
	MOVQ $253, DI // exitCode
	MOVQ $SYS_exit_group, AX
	SYSCALL
	JMP exit
