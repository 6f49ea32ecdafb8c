/* adversary NAME ARGS...: attacks that no shell can make. Each prints what became
 * of every step as "step: ok" or "step: ERRNO", and changes nothing that a test
 * did not name. Build it static: it runs where there are no libraries. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_open_tree
#define SYS_open_tree 428
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

static void say(const char *step, long result) {
	printf("%s: %s\n", step, result < 0 ? strerrorname_np(errno) : "ok");
	fflush(stdout);
}

/* only_in_sandbox ends this program where its signals would reach the host. HOST_PIDS names the
 * process namespace of the host. */
static void only_in_sandbox(void) {
	char own[64] = {0};
	const char *host = getenv("HOST_PIDS");
	if (!host || readlink("/proc/self/ns/pid", own, sizeof own - 1) < 0 || !strcmp(host, own)) {
		fprintf(stderr, "adversary: this attack is not for the host\n");
		exit(3);
	}
}

/* swap A B MICROSECONDS: exchange two names until the process is ended, and wait at
 * random up to that long in between. */
static int swap(char **a) {
	long pause = atol(a[2]);
	srandom(getpid() ^ time(NULL));
	puts("ready");
	fflush(stdout);
	for (;;)
		if (renameat2(AT_FDCWD, a[0], AT_FDCWD, a[1], RENAME_EXCHANGE) < 0 && errno != EBUSY) {
			say("swap", -1);
			usleep(1000);
		} else if (pause > 0)
			usleep(random() % pause);
}

/* spin DIR: make DIR and a hook below it, again and again, and take it away. */
static int spin(char **a) {
	char hooks[4096], hook[4096], moved[4096];
	snprintf(hooks, sizeof hooks, "%s/hooks", a[0]);
	snprintf(hook, sizeof hook, "%s/x", hooks);
	snprintf(moved, sizeof moved, "%s.moved", a[0]);
	puts("ready");
	fflush(stdout);
	for (;;) {
		mkdir(a[0], 0755);
		mkdir(hooks, 0755);
		int fd = open(hook, O_WRONLY | O_CREAT, 0755);
		if (fd >= 0) {
			if (write(fd, "#!/bin/sh\n", 10) == 10)
				puts("ESCAPED hook");
			fflush(stdout);
			close(fd);
		}
		rename(a[0], moved);
		symlink("sub", a[0]);
		unlink(a[0]);
		rmdir(a[0]);
	}
}

/* fds: go up from every descriptor that could have been inherited. */
static int fds(char **a) {
	(void)a;
	int found = 0;
	for (int fd = 0; fd < 4096; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		if (fd > 2)
			printf("inherited %d\n", fd);
		found++;
		int up = openat(fd, "..", O_RDONLY | O_DIRECTORY);
		if (up >= 0)
			printf("ESCAPED by %d\n", fd);
		if (fchdir(fd) == 0)
			printf("ESCAPED into %d\n", fd);
	}
	printf("found %d\n", found);
	return 0;
}

static socklen_t address(struct sockaddr_un *to, const char *name) {
	memset(to, 0, sizeof *to);
	to->sun_family = AF_UNIX;
	strncpy(to->sun_path, name, sizeof to->sun_path - 1);
	socklen_t size = offsetof(struct sockaddr_un, sun_path) + strlen(name);
	if (name[0] == '@')
		to->sun_path[0] = 0; /* an abstract name has no end mark */
	else
		size++;
	return size;
}

/* sendfd PATH FILE: hand an open file to whoever listens on a datagram socket. */
static int sendfd(char **a) {
	int file = open(a[1], O_RDONLY), s = socket(AF_UNIX, SOCK_DGRAM, 0);
	say("open", file);
	say("socket", s);
	struct sockaddr_un to;
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'f';
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_name = &to, .msg_namelen = address(&to, a[0]), .msg_iov = &io, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &file, sizeof file);
	say("sendmsg", sendmsg(s, &m, MSG_DONTWAIT));
	return 0;
}

/* fetch NAME: connect to NAME, and read from the descriptor that comes. */
static int fetch(char **a) {
	struct sockaddr_un to;
	socklen_t size = address(&to, a[0]);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	say("socket", s);
	int connected = connect(s, (struct sockaddr *)&to, size);
	say("connect", connected);
	if (connected < 0)
		return 0;
	char control[CMSG_SPACE(sizeof(int))], byte, text[100];
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	say("recvmsg", recvmsg(s, &m, 0));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int fd = -1;
	if (c)
		memcpy(&fd, CMSG_DATA(c), sizeof fd);
	ssize_t n = read(fd, text, sizeof text);
	if (n > 0)
		printf("fetched %.*s\n", (int)n, text);
	return 0;
}

/* reach NAMES...: bind and connect to names of sockets. */
static int reach(char **a) {
	for (; *a; a++) {
		for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
			struct sockaddr_un to;
			socklen_t size = address(&to, *a);
			int s = socket(AF_UNIX, type, 0);
			printf("%s ", *a);
			say(type == SOCK_STREAM ? "connect stream" : "connect datagram", connect(s, (struct sockaddr *)&to, size));
			printf("%s ", *a);
			say(type == SOCK_STREAM ? "sendto stream" : "sendto datagram", sendto(s, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to, size));
			close(s);
		}
	}
	return 0;
}

/* type: put characters into every terminal that can be reached. */
static int type(char **a) {
	only_in_sandbox();
	static const char *names[] = {"/dev/console", "/dev/tty0", "/dev/tty1", "/dev/vcs", "/dev/ttyS0", "/dev/hvc0", NULL};
	char name[64], shift = 3 /* paste the selection */;
	(void)a;
	say("tiocsti", ioctl(0, TIOCSTI, "\n"));
	say("tioclinux", ioctl(0, TIOCLINUX, &shift));
	int own = open("/dev/tty", O_RDWR | O_NOCTTY);
	say("open /dev/tty", own);
	if (own >= 0) {
		say("tiocsti /dev/tty", ioctl(own, TIOCSTI, "\n"));
		say("tioclinux /dev/tty", ioctl(own, TIOCLINUX, &shift));
		say("tioccons /dev/tty", ioctl(own, TIOCCONS));
	}
	for (const char **n = names; *n; n++) {
		int fd = open(*n, O_RDWR | O_NOCTTY | O_NONBLOCK);
		snprintf(name, sizeof name, "open %s", *n);
		say(name, fd);
	}
	for (int i = 0; i < 256; i++) {
		snprintf(name, sizeof name, "/dev/pts/%d", i);
		int fd = open(name, O_RDWR | O_NOCTTY | O_NONBLOCK);
		if (fd >= 0)
			printf("FOREIGN %s\n", name);
	}
	return 0;
}

/* master: is there a way from the terminal to the end that the server holds? */
static int master(char **a) {
	(void)a;
	say("tiocgptn", ioctl(0, TIOCGPTN, &(int){0}));
	say("tiocgptpeer", ioctl(0, TIOCGPTPEER, O_RDWR | O_NOCTTY));
	int own = open("/dev/ptmx", O_RDWR | O_NOCTTY), lock = 0, number = -1;
	say("open /dev/ptmx", own);
	say("unlock", ioctl(own, TIOCSPTLCK, &lock));
	ioctl(own, TIOCGPTN, &number);
	int peer = ioctl(own, TIOCGPTPEER, O_RDWR | O_NOCTTY);
	say("own peer", peer);
	struct stat mine, given;
	if (fstat(peer, &mine) == 0 && fstat(0, &given) == 0)
		puts(mine.st_dev == given.st_dev ? "SHARED pts" : "pts of its own");
	return 0;
}

/* signal PIDS...: reach processes by number, in every way there is. */
static int signal_all(char **a) {
	for (; *a; a++) {
		int pid = atoi(*a);
		say("kill", kill(pid, 0));
		say("tkill", syscall(SYS_tkill, pid, 0));
		say("tgkill", syscall(SYS_tgkill, pid, pid, 0));
		say("killpg", kill(-pid, 0));
		say("pidfd_open", syscall(SYS_pidfd_open, pid, 0));
		say("sigqueue", sigqueue(pid, 0, (union sigval){0}));
		say("setpriority", setpriority(PRIO_PROCESS, pid, getpriority(PRIO_PROCESS, pid))); /* it stays as it was */
	}
	return 0;
}

/* bomb N: N processes that ignore everything, half of them in sessions of their
 * own and without their parent. */
static int bomb(char **a) {
	only_in_sandbox();
	for (int s = 1; s < 65; s++)
		signal(s, SIG_IGN);
	int n = atoi(a[0]), made = 0;
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			if (i % 2) {
				setsid();
				if (fork() > 0)
					_exit(0);
			}
			for (;;)
				pause();
		}
		made += pid > 0;
	}
	printf("ready %d\n", made);
	fflush(stdout);
	for (;;)
		pause();
}

/* freeze: stop every process that can be named, the parents first. */
static int freeze(char **a) {
	(void)a;
	only_in_sandbox();
	say("stop parent", kill(getppid(), SIGSTOP));
	say("stop process 1", kill(1, SIGSTOP));
	say("stop all", kill(-1, SIGSTOP));
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}

/* spoil: have process 1 loop for ever at the next instruction that it executes. */
static long spoil(void) {
#if defined(__x86_64__)
	static const unsigned char loop[] = {0xeb, 0xfe};
#else
	static const unsigned char loop[] = {0x00, 0x00, 0x00, 0x14};
#endif
	char text[512] = {0};
	int fd = open("/proc/1/syscall", O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
		return -1;
	char *at = strrchr(text, ' '); /* the program counter comes last */
	int mem = open("/proc/1/mem", O_RDWR);
	if (!at || mem < 0)
		return -1;
	return pwrite(mem, loop, sizeof loop, (off_t)strtoull(at, NULL, 0));
}

/* stop_init attaches to process 1 and waits until it has stopped: before that, it could
 * still collect the exit of the command, and then not tell it. */
static long stop_init(void) {
	long result = ptrace(PTRACE_ATTACH, 1, NULL, NULL);
	if (result == 0)
		waitpid(1, NULL, __WALL);
	return result;
}

/* hide HOW: keep the exit of the command from whoever waits for it. attach stops
 * process 1, spoil makes it loop, seize traces the parent, which then exits. */
static int hide(char **a) {
	only_in_sandbox();
	long result = !strcmp(a[0], "attach") ? stop_init()
		: !strcmp(a[0], "seize") ? ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) : spoil();
	int saved = errno, null = open("/dev/null", O_RDWR);
	dup2(null, 2);
	errno = saved;
	say(a[0], result);
	for (;;)
		pause();
}

/* init: what process 1 has that this one has not. */
static int init(char **a) {
	(void)a;
	char path[300], link[4096];
	DIR *d = opendir("/proc/1/fd");
	say("opendir /proc/1/fd", d ? 0 : -1);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/proc/1/fd/%s", e->d_name);
		ssize_t n = readlink(path, link, sizeof link - 1);
		if (n >= 0)
			printf("descriptor %s %.*s\n", e->d_name, (int)n, link);
		int fd = open(path, O_RDONLY | O_NONBLOCK), up = fd < 0 ? -1 : openat(fd, "..", O_PATH | O_DIRECTORY);
		if (up >= 0)
			puts("ESCAPED by a descriptor of process 1");
	}
	return 0;
}

static void put(const char *path, const char *text) {
	int fd = open(path, O_WRONLY);
	if (fd >= 0 && write(fd, text, strlen(text)) < 0)
		say(path, -1);
	close(fd);
}

/* unroot SECRET FILE: become root of namespaces of its own, attack every mount there
 * is, then read SECRET and write FILE. */
static int unroot(char **a) {
	char map[64], line[8192], at[4096];
	uid_t uid = getuid(), gid = getgid();
	long entered = unshare(CLONE_NEWUSER | CLONE_NEWNS);
	say("unshare", entered);
	if (entered < 0)
		return 0; /* what follows would be about the outside */
	put("/proc/self/setgroups", "deny");
	snprintf(map, sizeof map, "0 %d 1", uid);
	put("/proc/self/uid_map", map);
	snprintf(map, sizeof map, "0 %d 1", gid);
	put("/proc/self/gid_map", map);
	FILE *mounts = fopen("/proc/self/mountinfo", "r");
	int total = 0, unmounted = 0, opened = 0, cloned = 0;
	struct { unsigned long long set, clr, propagation, user; } attr = {.clr = MS_RDONLY};
	while (mounts && fgets(line, sizeof line, mounts)) {
		if (sscanf(line, "%*s %*s %*s %*s %4095s", at) != 1)
			continue;
		total++;
		unmounted += strcmp(at, "/") && umount2(at, MNT_DETACH) == 0;
		opened += syscall(SYS_mount_setattr, AT_FDCWD, at, 0, &attr, sizeof attr) == 0;
		opened += mount(NULL, at, NULL, MS_REMOUNT | MS_BIND, NULL) == 0;
		/* A copy of one mount without those below it shows what they hide. */
		int tree = syscall(SYS_open_tree, AT_FDCWD, at, 1 /* clone */);
		cloned += tree >= 0;
		size_t depth = strcmp(at, "/") ? strlen(at) + 1 : 1;
		for (int i = 0; tree >= 0 && i < 2; i++)
			if (!strncmp(a[i], at, depth - 1) && strlen(a[i]) > depth) {
				int fd = openat(tree, a[i] + depth, i ? O_WRONLY | O_CREAT : O_RDONLY, 0600);
				ssize_t n = i || fd < 0 ? 0 : read(fd, line, 100);
				say(i ? "write" : "read a copy", fd);
				if (n > 0)
					printf("READ %.*s", (int)n, line);
			}
		close(tree);
	}
	printf("mounts %d, unmounted %d, opened %d, cloned %d\n", total, unmounted, opened, cloned);
	say("set attributes of everything", syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof attr));
	say("bind / without what is below", mount("/", "/dev/shm", NULL, MS_BIND, NULL));
	say("pivot_root", syscall(SYS_pivot_root, "/", "/dev/shm"));
	say("chroot", chroot("/dev"));
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			break;
	chroot(".");
	for (int i = 0; i < 2; i++) {
		snprintf(at, sizeof at, "%s%s", i ? "/dev/shm" : "", a[0]);
		int fd = open(at, O_RDONLY);
		say("read", fd);
		ssize_t n = fd < 0 ? 0 : read(fd, line, 100);
		if (n > 0)
			printf("READ %.*s", (int)n, line);
		snprintf(at, sizeof at, "%s%s", i ? "/dev/shm" : "", a[1]);
		fd = open(at, O_WRONLY | O_CREAT, 0600);
		say("write", fd);
	}
	return 0;
}

/* The key rings of the kernel, without libkeyutils. */
enum { USER_KEYRING = -4, KEYCTL_SEARCH = 10, KEYCTL_READ = 11, KEYCTL_SET_TIMEOUT = 15 };

/* putkey NAME TEXT: leave a key in the ring of this user, for five minutes. */
static int putkey(char **a) {
	long key = syscall(SYS_add_key, "user", a[0], a[1], strlen(a[1]), USER_KEYRING);
	say("add_key", key);
	if (key >= 0)
		say("timeout", syscall(SYS_keyctl, KEYCTL_SET_TIMEOUT, key, 300));
	return 0;
}

/* getkey NAME: find a key of this user in two ways, and read it. */
static int getkey(char **a) {
	char text[100];
	long key = syscall(SYS_keyctl, KEYCTL_SEARCH, USER_KEYRING, "user", a[0], 0);
	say("search", key);
	long other = syscall(SYS_request_key, "user", a[0], NULL, 0);
	say("request_key", other);
	/* Numbers of keys can be guessed, or seen in /proc/keys. */
	FILE *keys = fopen("/proc/keys", "r");
	char line[1000];
	unsigned listed;
	while (keys && fgets(line, sizeof line, keys))
		if (strstr(line, a[0]) && sscanf(line, "%x", &listed) == 1)
			key = listed;
	long n = syscall(SYS_keyctl, KEYCTL_READ, key, text, sizeof text);
	say("read", n);
	if (n > 0)
		printf("READ %.*s\n", (int)n, text);
	return 0;
}

/* setid DIR: leave a file that runs with the rights of its owner, in every way that gives a
 * file a mode. */
static int setid(char **a) {
	static const struct { const char *name; mode_t bits; } kinds[] = {{"suid", 04755}, {"sgid", 02755}, {"both", 06711}};
	enum { CHMOD, FCHMOD, FCHMODAT, FCHMODAT2, LCHMOD, MKNOD, MKNODAT, CREAT, OPEN, OPENAT, TMPFILE, OPENAT2, OPENAT2_TMPFILE, WAYS };
	static const char *ways[] = {"chmod", "fchmod", "fchmodat", "fchmodat2", "fchmodat2-empty", "mknod", "mknodat", "creat", "open", "openat", "tmpfile", "openat2", "openat2-tmpfile"};
	umask(0);
	for (int way = 0; way < WAYS; way++)
		for (int kind = 0; kind < 3; kind++) {
			char path[4096], step[100], link[64];
			mode_t mode = kinds[kind].bits;
			struct { unsigned long long flags, mode, resolve; } how = {O_CREAT | O_EXCL | O_WRONLY, mode, 0};
			snprintf(path, sizeof path, "%s/%s-%s", a[0], ways[way], kinds[kind].name);
			snprintf(step, sizeof step, "%s %s", ways[way], kinds[kind].name);
			int fd = way < MKNOD ? open(path, O_CREAT | O_EXCL | O_WRONLY, 0755) : -1;
			long r = -1;
			errno = ENOSYS;
			switch (way) {
#ifdef SYS_chmod
			case CHMOD: r = syscall(SYS_chmod, path, mode); break;
			case MKNOD: r = syscall(SYS_mknod, path, S_IFREG | mode, 0); break;
			case CREAT: r = fd = syscall(SYS_creat, path, mode); break;
			case OPEN: r = fd = syscall(SYS_open, path, O_CREAT | O_EXCL | O_WRONLY, mode); break;
#endif
			case FCHMOD: r = syscall(SYS_fchmod, fd, mode); break;
			case FCHMODAT: r = syscall(SYS_fchmodat, AT_FDCWD, path, mode); break;
			case FCHMODAT2: r = syscall(452, AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW); break;
			case LCHMOD: r = syscall(452, fd, "", mode, AT_EMPTY_PATH); break;
			case MKNODAT: r = syscall(SYS_mknodat, AT_FDCWD, path, S_IFREG | mode, 0); break;
			case OPENAT: r = fd = syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_EXCL | O_WRONLY, mode); break;
			case TMPFILE: r = fd = syscall(SYS_openat, AT_FDCWD, a[0], O_TMPFILE | O_WRONLY, mode); break;
			case OPENAT2_TMPFILE: how.flags = O_TMPFILE | O_WRONLY; /* fall through */
			case OPENAT2: r = fd = syscall(437, AT_FDCWD, way == OPENAT2 ? path : a[0], &how, sizeof how); break;
			}
			say(step, r);
			if (fd >= 0 && (way == TMPFILE || way == OPENAT2_TMPFILE)) {
				snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
				linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
			}
			struct stat st;
			if (!stat(path, &st) && st.st_mode & 06000)
				printf("GIVEN %s %o\n", step, st.st_mode);
			unlink(path);
			close(fd);
		}
	return 0;
}

int main(int argc, char **argv) {
	static const struct { const char *name; int args; int (*run)(char **); } attacks[] = {
		{"swap", 3, swap}, {"spin", 1, spin}, {"fds", 0, fds}, {"sendfd", 2, sendfd}, {"fetch", 1, fetch}, {"reach", 1, reach},
		{"type", 0, type}, {"master", 0, master}, {"signal", 1, signal_all}, {"bomb", 1, bomb}, {"freeze", 0, freeze}, {"init", 0, init},
		{"unroot", 2, unroot}, {"putkey", 2, putkey}, {"getkey", 1, getkey}, {"hide", 1, hide}, {"setid", 1, setid},
	};
	for (size_t i = 0; argc > 1 && i < sizeof attacks / sizeof attacks[0]; i++)
		if (!strcmp(argv[1], attacks[i].name) && argc - 2 >= attacks[i].args)
			return attacks[i].run(argv + 2);
	fprintf(stderr, "adversary: no such attack\n");
	return 2;
}
