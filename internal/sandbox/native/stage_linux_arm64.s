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

#define SYS_lseek 62
#define SYS_write 64
#define SYS_exit_group 94
#define SYS_mmap 222

// func stageCode() *byte
TEXT ·stageCode(SB),NOSPLIT,$0-8
	MOVD $·stage(SB), R0
	MOVD R0, ret+0(FP)
	RET

// The program of the stage. It uses no stack and refers to no address outside of itself and the
// script. The kernel keeps all registers but R0. R19 is the current record, R20 its flags.
TEXT ·stage(SB),NOSPLIT|NOFRAME,$0-0
	MOVD $scriptFile, R0
	MOVD $0, R1
	MOVD $2, R2 // SEEK_END
	MOVD $SYS_lseek, R8
	SVC
	MOVD R0, R1
	MOVD $scriptBase, R0
	MOVD $3, R2 // PROT_READ|PROT_WRITE
	MOVD $0x12, R3 // MAP_PRIVATE|MAP_FIXED
	MOVD $scriptFile, R4
	MOVD $0, R5
	MOVD $SYS_mmap, R8
	SVC
	MOVD $scriptBase, R9
	CMP R9, R0
	BNE exit
	ADD $headerSize, R9, R19

next:
	MOVWU record_flags(R19), R20
	MOVD record_arg0(R19), R0
	TBZ $0, R20, second
	MOVD (R0), R0
second:
	MOVD record_arg1(R19), R1
	TBZ $1, R20, third
	MOVD (R1), R1
third:
	MOVD record_arg2(R19), R2
	TBZ $2, R20, fourth
	MOVD (R2), R2
fourth:
	MOVD record_arg3(R19), R3
	TBZ $3, R20, fifth
	MOVD (R3), R3
fifth:
	MOVD record_arg4(R19), R4
	TBZ $4, R20, sixth
	MOVD (R4), R4
sixth:
	MOVD record_arg5(R19), R5
	TBZ $5, R20, all
	MOVD (R5), R5
all:
	MOVWU record_call(R19), R8
	MOVD $firstPseudo, R9
	CMP R9, R8
	BHS pseudo
	SVC
	MOVD record_result(R19), R9
	CBZ R9, stored
	MOVD R0, (R9)
stored:
	CMN $4095, R0
	BCC advance // as unsigned numbers, errors are the largest
	TBNZ $6, R20, advance
	NEG R0, R0
	B fail
advance:
	ADD $recordSize, R19
	B next

pseudo:
	SUB R9, R8, R8
	CBZ R8, compare
	SUB $1, R8
	CBZ R8, jump
	SUB $1, R8
	CBZ R8, jumpEqual
	SUB $1, R8
	CBZ R8, set
	SUB $1, R8
	CBZ R8, fail // R0 is the errno
	SUB $1, R8
	CBZ R8, exitLike
	SUB $1, R8
	CBZ R8, add
	MOVD $38, R0 // ENOSYS
	B fail

compare:
	AND R1, R0, R0
	CMP R2, R0
	BEQ advance
	MOVD R3, R0
	B fail

jump:
	MOVD R0, R19
	B next

jumpEqual:
	AND R1, R0, R0
	CMP R2, R0
	BNE advance
	MOVD R3, R19
	B next

add:
	ADD R1, R0, R0
set:
	MOVD record_result(R19), R9
	MOVD R0, (R9)
	B advance

exitLike: // R0 is the status of a wait
	AND $0x7f, R0, R9
	CBNZ R9, signalled
	LSR $8, R0, R0
	AND $0xff, R0, R0
	B exitWith
signalled:
	ADD $128, R9, R0
	B exitWith

fail: // R0 is the errno
	MOVD $scriptBase, R1
	MOVD R0, header_errno(R1)
	MOVD R19, header_record(R1)
	MOVD $reportFile, R0
	MOVD $reportSize, R2
	MOVD $SYS_write, R8
	SVC
exit:
	MOVD $exitBroken, R0
exitWith:
	MOVD $SYS_exit_group, R8
	SVC
	B exit
	// The end, see endMark.
	WORD $0x74657468
	WORD $0x65727374
	WORD $0x61676500
	WORD $0x656e640a
