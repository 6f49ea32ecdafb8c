// Package seccomp builds the system call filter of a sandboxed command: a
// classic BPF program that the kernel runs before each system call.
//
// Program is a pure function, the same on every platform, for every supported
// architecture. The caller loads the result (bubblewrap reads the bytes of
// Encode from the descriptor of --seccomp).
//
// # What a program does
//
// In this order:
//
//  1. A call made under another architecture than the program's, such as
//     int 0x80 on x86-64 or 32-bit ARM code on arm64, kills the process with
//     SIGSYS (exit status 159 in a shell). Its numbers mean other calls, so no
//     rule below could judge it.
//  2. On x86-64, a number of the x32 interface fails with ENOSYS: everything
//     from 0x40000000 up, and 512 to 547, which kernels before 5.4 accepted
//     without that bit (521 was a second ptrace). Newer kernels without x32
//     answer the same by themselves.
//  3. A call in the table below fails as the table says, and does nothing.
//  4. Every other call is allowed, also one that this package does not know.
//     The filter is the second protection; namespaces and mounts are the first.
//
// # The table
//
// Restricted, for a command without network:
//
//   - connect, accept, accept4, bind, listen, getsockname, shutdown, sendto,
//     sendmmsg, recvmmsg, getsockopt and setsockopt fail with EPERM.
//   - getpeername fails with ENOTCONN. See below.
//   - socket and socketpair fail with EPERM unless the domain is AF_UNIX.
//   - ptrace, process_vm_readv and process_vm_writev fail with EPERM.
//   - io_uring_setup, io_uring_enter and io_uring_register fail with EPERM: a
//     ring performs calls that no filter sees.
//   - add_key, keyctl and request_key fail with EPERM: key rings belong to the user and
//     to the session of the server, not to a namespace, so a command would find the
//     keys there (Kerberos tickets, passphrases of disks) and could leave its own.
//   - unshare and clone fail with EPERM if they would make a cgroup namespace, and clone3
//     fails with ENOSYS: its flags lie in memory, and C libraries fall back to clone. A
//     command that is root of a user namespace and of a cgroup namespace of its own can
//     mount the control groups of the machine, whatever its sandbox mounts, and change them
//     with the rights of its user.
//
// read, write, sendmsg, recvmsg and recvfrom stay, so a socket pair is a
// usable pipe between parent and child.
//
// Proxy, for a command that reaches other hosts only through a proxy on its
// own loopback:
//
//   - socket fails with EPERM unless the domain is AF_INET or AF_INET6.
//   - socketpair fails with EPERM unless the domain is AF_UNIX and the type is
//     SOCK_STREAM or SOCK_SEQPACKET. A pair of datagram sockets (for the kernel,
//     SOCK_RAW is one too) could be connected to a socket of the host by its path.
//   - The ptrace, io_uring, key and cgroup groups fail as above.
//
// ProxyUnix is Proxy with AF_UNIX added to the domains that socket allows, and with
// all types of socketpair.
//
// Open, for a command with the host's network:
//
//   - socket and socketpair fail with EPERM if the domain is AF_VSOCK, which
//     reaches the hypervisor past any network namespace.
//   - The io_uring, key and cgroup groups fail as above. ptrace is allowed.
//
// SetID, together with one of the others, for a command whose files are
// confined:
//
//   - chmod, fchmod, fchmodat, fchmodat2, mknod, mknodat, creat, and open and openat if
//     they make a file, fail with EPERM if the mode has S_ISUID or S_ISGID. A file
//     that runs with the rights of its owner would outlive the sandbox, and another
//     user of the machine could execute it.
//   - openat2 fails with ENOSYS: its mode lies in memory. Programs that use it have
//     a fallback for kernels without it.
//
// A filter cannot distinguish a directory from a file. On a directory S_ISGID is
// harmless, but it is refused all the same.
//
// # Why getpeername differs
//
// bash -c, as Debian builds it, asks for the peer of its standard input. Unless
// the error is one that a non-connection gives, such as ENOTCONN, bash assumes
// that a network daemon started it and sources ~/.bashrc; EPERM is not such an
// error. ENOTCONN reveals as little and is true in a sandbox without connections.
//
// # The domain is 32 bits
//
// The kernel takes the domain of socket as an int and ignores the upper half of
// the register. A filter that compared 64 bits would let AF_VSOCK pass with
// garbage above it, so the low 32 bits alone are compared.
//
// # Limits
//
// A filter sees registers, not memory, so it cannot check an address behind a
// pointer. In Restricted, sendmsg on an AF_UNIX datagram socket can name a
// path. Sockets that must not be reached have to be masked by the mount plan.
//
// # Where a change belongs
//
// rules.go has the rules of every mode, amd64_table.go and arm64_table.go the
// numbers of the calls, program.go turns both into a program.
package seccomp
