package seccomp

// arm64 numbers the calls of rules for aarch64.
var arm64 = syscallTable{
	audit: 0xc00000b7, // AUDIT_ARCH_AARCH64
	numbers: map[string]uint32{
		"accept":            202,
		"accept4":           242,
		"add_key":           217,
		"bind":              200,
		"connect":           203,
		"fchmod":            52,
		"fchmodat":          53,
		"fchmodat2":         452,
		"getpeername":       205,
		"getsockname":       204,
		"getsockopt":        209,
		"io_uring_enter":    426,
		"io_uring_register": 427,
		"io_uring_setup":    425,
		"keyctl":            219,
		"listen":            201,
		"mknodat":           33,
		"openat":            56,
		"openat2":           437,
		"process_vm_readv":  270,
		"process_vm_writev": 271,
		"ptrace":            117,
		"recvmmsg":          243,
		"request_key":       218,
		"sendmmsg":          269,
		"sendto":            206,
		"setsockopt":        208,
		"shutdown":          210,
		"socket":            198,
		"socketpair":        199,
	},
	lacks: []string{"chmod", "creat", "mknod", "open"},
}
