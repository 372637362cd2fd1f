// The few system calls that callcell-init makes, without a C library: the
// program starts in a fraction of the time, and nothing runs in it that is
// not on these pages. Linux on amd64.
#ifndef CALLCELL_SYS_H
#define CALLCELL_SYS_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long u64;
typedef long i64;

#if !defined(__x86_64__)
#error "callcell-init has been run on amd64 only"
#endif

enum {
	NR_read = 0, NR_write = 1, NR_close = 3, NR_poll = 7, NR_mmap = 9,
	NR_munmap = 11, NR_rt_sigaction = 13, NR_rt_sigprocmask = 14,
	NR_sendmsg = 46, NR_recvmsg = 47, NR_clone = 56, NR_execve = 59,
	NR_wait4 = 61, NR_kill = 62, NR_getdents64 = 217, NR_setsid = 112,
	NR_capset = 126, NR_prctl = 157, NR_clock_gettime = 228,
	NR_exit_group = 231, NR_openat = 257, NR_mkdirat = 258,
	NR_newfstatat = 262, NR_unlinkat = 263, NR_fchmod = 91,
	NR_pidfd_send_signal = 424, NR_close_range = 436, NR_fstat = 5,
	NR_nanosleep = 35, NR_prlimit64 = 302, NR_dup2 = 33,
};

enum { EINTR = 4, EIO = 5, E2BIG = 7, ENOENT = 2, EACCES = 13, EEXIST = 17, ENOTDIR = 20, EINVAL = 22, ECHILD = 10 };
enum { O_RDONLY = 0, O_WRONLY = 1, O_CREAT = 0100, O_EXCL = 0200, O_NOFOLLOW = 0400000, O_CLOEXEC = 02000000, O_DIRECTORY = 0200000, O_PATH = 010000000 };
enum { AT_FDCWD = -100, AT_REMOVEDIR = 0x200 };
enum { SIGHUP = 1, SIGINT = 2, SIGKILL = 9, SIGPIPE = 13, SIGTERM = 15, SIGCHLD = 17, NSIG = 64 };
enum { CLONE_VM = 0x100, CLONE_VFORK = 0x4000 };
enum { PROT_READ = 1, PROT_WRITE = 2, MAP_PRIVATE = 2, MAP_ANONYMOUS = 0x20 };
enum { PR_SET_DUMPABLE = 4, PR_SET_NO_NEW_PRIVS = 38, PR_CAPBSET_DROP = 24, PR_SET_NAME = 15 };

static inline i64 sys6(i64 n, i64 a, i64 b, i64 c, i64 d, i64 e, i64 f)
{
	register i64 r10 __asm__("r10") = d;
	register i64 r8 __asm__("r8") = e;
	register i64 r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(n)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return n;
}

#define sys0(n) sys6(n, 0, 0, 0, 0, 0, 0)
#define sys1(n, a) sys6(n, (i64)(a), 0, 0, 0, 0, 0)
#define sys2(n, a, b) sys6(n, (i64)(a), (i64)(b), 0, 0, 0, 0)
#define sys3(n, a, b, c) sys6(n, (i64)(a), (i64)(b), (i64)(c), 0, 0, 0)
#define sys4(n, a, b, c, d) sys6(n, (i64)(a), (i64)(b), (i64)(c), (i64)(d), 0, 0)
#define sys5(n, a, b, c, d, e) sys6(n, (i64)(a), (i64)(b), (i64)(c), (i64)(d), (i64)(e), 0)

// A message and its descriptors.
enum { MSG_DONTWAIT = 0x40, MSG_CMSG_CLOEXEC = 0x40000000, MOST_FDS = 16 };

// receive_fds takes one message of at most size bytes. It returns what recvmsg
// does, and in *nfds how many descriptors came.
static inline i64 receive_fds(int sock, void *data, u64 size, int *fds, int *nfds, int flags)
{
	struct {
		u64 len;
		int level, type;
		int fds[MOST_FDS];
	} c;
	struct {
		void *base;
		u64 len;
	} iov = { data, size };
	struct {
		void *name;
		u32 namelen, pad;
		void *iov;
		u64 iovlen;
		void *control;
		u64 controllen;
		int flags, pad2;
	} m = { 0, 0, 0, &iov, 1, &c, sizeof c, 0, 0 };
	i64 r = sys3(NR_recvmsg, sock, &m, flags);
	*nfds = 0;
	if (r > 0 && m.controllen >= 16 && c.level == 1 && c.type == 1)
		*nfds = (int)((c.len - 16) / sizeof(int));
	for (int i = 0; i < *nfds; i++)
		fds[i] = c.fds[i];
	return r;
}

struct pollfd {
	int fd;
	short events, revents;
};
enum { POLLIN = 1, POLLERR = 8, POLLHUP = 16 };
enum { RLIMIT_NOFILE = 7 };

__attribute__((noreturn)) static inline void die(int code)
{
	for (;;)
		sys1(NR_exit_group, code);
}

static inline u64 len(const char *s)
{
	u64 n = 0;
	while (s[n])
		n++;
	return n;
}

static inline int same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

// What gcc may call even without a C library.
void *memset(void *p, int c, u64 n);
void *memcpy(void *d, const void *s, u64 n);

__attribute__((noreturn)) void reaper_main(void);

#endif
