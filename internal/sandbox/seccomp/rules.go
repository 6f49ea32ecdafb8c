package seccomp

// Error numbers and socket domains of Linux, the same on every architecture in
// syscallTables. Package unix cannot be used, because this package is also
// built on systems where its numbers differ.
const (
	ePerm    errno = 1
	eNoSys   errno = 38
	eNotConn errno = 107

	afUnix  domain = 1
	afInet  domain = 2
	afInet6 domain = 10
	afVsock domain = 40

	sockStream    = 1
	sockSeqpacket = 5
	sockTypes     = 0xf // the bits of a type, without flags

	setIDBits = 0o6000             // S_ISUID, S_ISGID
	makesFile = 0o100 | 0o20000000 // O_CREAT, and the bit that only O_TMPFILE has

	newCgroup = 0x02000000 // CLONE_NEWCGROUP
)

type (
	errno  uint16
	domain uint32
)

// A modeSet is the set of modes to which a rule belongs.
type modeSet uint8

const (
	restricted modeSet = 1 << Restricted
	proxy      modeSet = 1 << Proxy
	proxyUnix  modeSet = 1 << ProxyUnix
	open       modeSet = 1 << Open
	setID      modeSet = 1 << SetID

	proxied  = proxy | proxyUnix
	confined = restricted | proxied
	all      = confined | open
)

func (s modeSet) has(m Mode) bool { return s&(1<<m) != 0 }

// A rule makes a system call fail with errno in its modes. With unless, the domains in that
// list are allowed; with only, no other domains are denied. A rule has at most one of the
// two. Both are about the first argument. With connected, the type in the second argument
// must be stream or seqpacket to be allowed.
//
// With bits, the rule is only about calls with one of these bits in argument arg and, with flags, only if argument flags
// says that a file is made. Arguments count from 0; here flags 0 means no such argument.
type rule struct {
	name   string
	in     modeSet
	errno  errno
	unless []domain
	only   []domain

	connected bool

	bits       uint32
	arg, flags int
}

// rules is everything that any mode denies. A call has one rule per mode at
// most. doc.go gives the table in words, with the reasons.
var rules = []rule{
	{name: "connect", in: restricted, errno: ePerm},
	{name: "accept", in: restricted, errno: ePerm},
	{name: "accept4", in: restricted, errno: ePerm},
	{name: "bind", in: restricted, errno: ePerm},
	{name: "listen", in: restricted, errno: ePerm},
	{name: "getsockname", in: restricted, errno: ePerm},
	{name: "shutdown", in: restricted, errno: ePerm},
	{name: "sendto", in: restricted, errno: ePerm},
	{name: "sendmmsg", in: restricted, errno: ePerm},
	{name: "recvmmsg", in: restricted, errno: ePerm},
	{name: "getsockopt", in: restricted, errno: ePerm},
	{name: "setsockopt", in: restricted, errno: ePerm},

	// A deviation: the reference returns EPERM. Then bash -c assumes that a
	// network daemon runs it and sources ~/.bashrc.
	{name: "getpeername", in: restricted, errno: eNotConn},

	{name: "socket", in: restricted, errno: ePerm, unless: []domain{afUnix}},
	{name: "socket", in: proxy, errno: ePerm, unless: []domain{afInet, afInet6}},
	{name: "socket", in: proxyUnix, errno: ePerm, unless: []domain{afInet, afInet6, afUnix}},
	{name: "socket", in: open, errno: ePerm, only: []domain{afVsock}},
	{name: "socketpair", in: restricted | proxyUnix, errno: ePerm, unless: []domain{afUnix}},
	{name: "socketpair", in: proxy, errno: ePerm, unless: []domain{afUnix}, connected: true},
	{name: "socketpair", in: open, errno: ePerm, only: []domain{afVsock}},

	{name: "ptrace", in: confined, errno: ePerm},
	{name: "process_vm_readv", in: confined, errno: ePerm},
	{name: "process_vm_writev", in: confined, errno: ePerm},

	{name: "add_key", in: all, errno: ePerm},
	{name: "keyctl", in: all, errno: ePerm},
	{name: "request_key", in: all, errno: ePerm},

	{name: "unshare", in: all, errno: ePerm, bits: newCgroup},
	{name: "clone", in: all, errno: ePerm, bits: newCgroup},
	{name: "clone3", in: all, errno: eNoSys},

	{name: "io_uring_setup", in: all, errno: ePerm},
	{name: "io_uring_enter", in: all, errno: ePerm},
	{name: "io_uring_register", in: all, errno: ePerm},

	{name: "chmod", in: setID, errno: ePerm, bits: setIDBits, arg: 1},
	{name: "fchmod", in: setID, errno: ePerm, bits: setIDBits, arg: 1},
	{name: "fchmodat", in: setID, errno: ePerm, bits: setIDBits, arg: 2},
	{name: "fchmodat2", in: setID, errno: ePerm, bits: setIDBits, arg: 2},
	{name: "mknod", in: setID, errno: ePerm, bits: setIDBits, arg: 1},
	{name: "mknodat", in: setID, errno: ePerm, bits: setIDBits, arg: 2},
	{name: "creat", in: setID, errno: ePerm, bits: setIDBits, arg: 1},
	{name: "open", in: setID, errno: ePerm, bits: setIDBits, arg: 2, flags: 1},
	{name: "openat", in: setID, errno: ePerm, bits: setIDBits, arg: 3, flags: 2},
	{name: "openat2", in: setID, errno: eNoSys},
}
