#include "textflag.h"

#define SYS_prlimit64 302
#define RLIMIT_NOFILE 7

// func prlimit(limit *struct{ soft, hard uint64 }) int64
TEXT ·prlimit(SB),NOSPLIT,$0-16
	MOVQ $SYS_prlimit64, AX
	MOVQ $0, DI
	MOVQ $RLIMIT_NOFILE, SI
	MOVQ $0, DX
	MOVQ limit+0(FP), R10
	SYSCALL
	MOVQ AX, ret+8(FP)
	RET
