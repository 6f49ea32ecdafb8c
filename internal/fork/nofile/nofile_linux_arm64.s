#include "textflag.h"

#define SYS_prlimit64 261
#define RLIMIT_NOFILE 7

// func prlimit(limit *struct{ soft, hard uint64 }) int64
TEXT ·prlimit(SB),NOSPLIT,$0-16
	MOVD $SYS_prlimit64, R8
	MOVD $0, R0
	MOVD $RLIMIT_NOFILE, R1
	MOVD $0, R2
	MOVD limit+0(FP), R3
	SVC
	MOVD R0, ret+8(FP)
	RET
