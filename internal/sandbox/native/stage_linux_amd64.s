#include "textflag.h"

// Numbers that record_linux.go has too; a test compares them.
#define scriptBase 0x10000000
#define headerSize 64
#define header_errno 8
#define header_record 16
#define reportSize 24
#define scriptFile 6
#define reportFile 7
#define exitBroken 125

#define record_call 0
#define record_flags 4
#define record_arg0 8
#define record_arg1 16
#define record_arg2 24
#define record_arg3 32
#define record_arg4 40
#define record_arg5 48
#define record_result 56
#define recordSize 64
#define mayFail 64
#define firstPseudo 0x10000

#define SYS_write 1
#define SYS_lseek 8
#define SYS_mmap 9
#define SYS_exit_group 231

// func stageCode() *byte
TEXT ·stageCode(SB),NOSPLIT,$0-8
	LEAQ ·stage(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// The program of the stage. It uses no stack and refers to no address outside of itself and the
// script. The kernel keeps all registers but AX, CX and R11. R12 is the current record, BX its flags.
TEXT ·stage(SB),NOSPLIT|NOFRAME,$0-0
	MOVQ $scriptFile, DI
	XORQ SI, SI
	MOVQ $2, DX // SEEK_END
	MOVQ $SYS_lseek, AX
	SYSCALL
	MOVQ AX, SI
	MOVQ $scriptBase, DI
	MOVQ $3, DX // PROT_READ|PROT_WRITE
	MOVQ $0x12, R10 // MAP_PRIVATE|MAP_FIXED
	MOVQ $scriptFile, R8
	XORQ R9, R9
	MOVQ $SYS_mmap, AX
	SYSCALL
	MOVQ $scriptBase, CX
	CMPQ AX, CX
	JNE exit
	LEAQ headerSize(CX), R12

next:
	MOVL record_flags(R12), BX
	MOVQ record_arg0(R12), DI
	TESTL $1, BX
	JEQ second
	MOVQ (DI), DI
second:
	MOVQ record_arg1(R12), SI
	TESTL $2, BX
	JEQ third
	MOVQ (SI), SI
third:
	MOVQ record_arg2(R12), DX
	TESTL $4, BX
	JEQ fourth
	MOVQ (DX), DX
fourth:
	MOVQ record_arg3(R12), R10
	TESTL $8, BX
	JEQ fifth
	MOVQ (R10), R10
fifth:
	MOVQ record_arg4(R12), R8
	TESTL $16, BX
	JEQ sixth
	MOVQ (R8), R8
sixth:
	MOVQ record_arg5(R12), R9
	TESTL $32, BX
	JEQ all
	MOVQ (R9), R9
all:
	MOVL record_call(R12), AX
	CMPL AX, $firstPseudo
	JCC pseudo
	SYSCALL
store:
	MOVQ record_result(R12), CX
	TESTQ CX, CX
	JEQ stored
	MOVQ AX, (CX)
stored:
	CMPQ AX, $-4095
	JCS advance // as unsigned numbers, errors are the largest
	TESTL $mayFail, BX
	JNE advance
	NEGQ AX
	JMP fail
advance:
	ADDQ $recordSize, R12
	JMP next

pseudo:
	SUBL $firstPseudo, AX
	JEQ compare
	SUBL $1, AX
	JEQ jump
	SUBL $1, AX
	JEQ jumpEqual
	SUBL $1, AX
	JEQ set
	SUBL $1, AX
	JEQ failWith
	SUBL $1, AX
	JEQ exitLike
	SUBL $1, AX
	JEQ add
	MOVQ $38, AX // ENOSYS
	JMP fail

compare:
	ANDQ SI, DI
	CMPQ DI, DX
	JEQ advance
	MOVQ R10, AX
	JMP fail

jump:
	MOVQ DI, R12
	JMP next

jumpEqual:
	ANDQ SI, DI
	CMPQ DI, DX
	JNE advance
	MOVQ R10, R12
	JMP next

add:
	ADDQ SI, DI
set:
	MOVQ record_result(R12), CX
	MOVQ DI, (CX)
	JMP advance

exitLike: // DI is the status of a wait
	MOVQ DI, AX
	ANDQ $0x7f, AX
	JNE signalled
	SHRQ $8, DI
	ANDQ $0xff, DI
	JMP exitWith
signalled:
	LEAQ 128(AX), DI
	JMP exitWith

failWith:
	MOVQ DI, AX
fail: // AX is the errno
	MOVQ $scriptBase, SI
	MOVQ AX, header_errno(SI)
	MOVQ R12, header_record(SI)
	MOVQ $reportFile, DI
	MOVQ $reportSize, DX
	MOVQ $SYS_write, AX
	SYSCALL
exit:
	MOVQ $exitBroken, DI
exitWith:
	MOVQ $SYS_exit_group, AX
	SYSCALL
	JMP exit
	// The end, see endMark.
	LONG $0x74657468
	LONG $0x65727374
	LONG $0x61676500
	LONG $0x656e640a
