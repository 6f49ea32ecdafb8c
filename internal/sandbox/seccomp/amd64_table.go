package seccomp

// amd64 numbers the calls of rules for x86-64. (A file called table_amd64.go
// would be built on that architecture only; both tables are built everywhere.)
var amd64 = syscallTable{
	audit: 0xc000003e, // AUDIT_ARCH_X86_64
	x32:   true,
	numbers: map[string]uint32{
		"accept":            43,
		"accept4":           288,
		"add_key":           248,
		"bind":              49,
		"chmod":             90,
		"connect":           42,
		"creat":             85,
		"fchmod":            91,
		"fchmodat":          268,
		"fchmodat2":         452,
		"getpeername":       52,
		"getsockname":       51,
		"getsockopt":        55,
		"io_uring_enter":    426,
		"io_uring_register": 427,
		"io_uring_setup":    425,
		"keyctl":            250,
		"listen":            50,
		"mknod":             133,
		"mknodat":           259,
		"open":              2,
		"openat":            257,
		"openat2":           437,
		"process_vm_readv":  310,
		"process_vm_writev": 311,
		"ptrace":            101,
		"recvmmsg":          299,
		"request_key":       249,
		"sendmmsg":          307,
		"sendto":            44,
		"setsockopt":        54,
		"shutdown":          48,
		"socket":            41,
		"socketpair":        53,
	},
}
