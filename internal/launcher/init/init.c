// callcell-init is the only program of ours that stands in a container cell:
// its PID 1. It waits for the command, unpacks the call's files into the
// working directory, starts the program, reaps what is orphaned, reports how
// the program ended, and exits; with it the kernel ends every other process of
// the cell.
//
// It starts fully sealed (unprivileged, filtered, confined) and holds nothing
// that the program may not have. It writes the files, and not the launcher,
// so that their memory is counted in the cell's own group.
//
// Descriptors at its start:
//
//	3      the launcher: one message from it, with the program's standard
//	       streams and the payload (argv, environment and files, see struct
//	       payload); and one record of 16 bytes to it
//
// In a cell no other is open, and the streams get the numbers 0, 1 and 2 by
// themselves.
//
// Files of the call go below the working directory, and files of ours below
// /run; both are parts of the scratch.
//
// Under the name callcell-reaper it is the reaper (reaper.c).

#include "sys.h"

enum { STATUS = 3 };

// A status record. The other side is the launcher's status.go.
enum { ST_EXITED = 1, ST_UNPACK = 2, ST_EXEC = 3, ST_PAYLOAD = 4 };
struct status {
	u32 magic; // MAGIC
	u32 stage; // ST_*
	i32 value; // ST_EXITED: the wait status; else the errno
	u32 index; // ST_UNPACK: which file
};
enum { MAGIC = 0x31534343 }; // "CCS1"

// The payload, little-endian, mapped read-only. The other side is wire/payload.go.
//
//	header   struct payload
//	strings  argc + envc strings, each ended by NUL; strlen bytes
//	files    nfiles times: struct file, name ended by NUL, data; each of
//	         the three padded to 8 bytes
struct payload {
	u32 magic; // PAYLOAD_MAGIC
	u32 argc, envc, nfiles;
	u64 strlen;
};
struct file {
	u64 size;
	u32 namelen; // with its NUL
	u32 mode;    // 0755 or 0644; of a FILE_RUN 0444 or 0400
};
enum { FILE_RUN = 1 << 31 }; // in mode: below RUN_DIR, and not the working directory
enum { PAYLOAD_MAGIC = 0x31504343 }; // "CCP1"

#define RUN_DIR "/run"

static const char *path_default = "/usr/local/bin:/usr/bin:/bin";

// Written by the program's process before it execs, in memory we share.
static volatile i32 exec_errno;

static void report(u32 stage, i32 value, u32 index)
{
	struct status s = { MAGIC, stage, value, index };
	sys3(NR_write, STATUS, &s, sizeof s);
}

__attribute__((noreturn)) static void fail(u32 stage, i64 err, u32 index)
{
	report(stage, (i32)-err, index);
	die(1);
}

void *memset(void *p, int c, u64 n)
{
	u8 *b = p;
	while (n--)
		*b++ = (u8)c;
	return p;
}

void *memcpy(void *d, const void *s, u64 n)
{
	u8 *a = d;
	const u8 *b = s;
	while (n--)
		*a++ = *b++;
	return d;
}

static i64 write_all(int fd, const u8 *p, u64 n)
{
	while (n > 0) {
		i64 w = sys3(NR_write, fd, p, n);
		if (w == -EINTR)
			continue;
		if (w <= 0)
			return w ? w : -EIO;
		p += w;
		n -= (u64)w;
	}
	return 0;
}

// make_parents makes the directories above name below dir; name is writable
// here.
static i64 make_parents(int dir, char *name)
{
	for (char *p = name; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		i64 r = sys3(NR_mkdirat, dir, name, 0755);
		*p = '/';
		if (r < 0 && r != -EEXIST)
			return r;
	}
	return 0;
}

static i64 unpack_one(int dir, char *name, u32 mode, const u8 *data, u64 size)
{
	enum { NEW = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };
	i64 fd = sys4(NR_openat, dir, name, NEW, mode);
	if (fd == -ENOENT) {
		i64 r = make_parents(dir, name);
		if (r < 0)
			return r;
		fd = sys4(NR_openat, dir, name, NEW, mode);
	}
	if (fd < 0)
		return fd;
	i64 r = write_all((int)fd, data, size);
	sys1(NR_close, fd);
	return r;
}

// A cursor over the payload that cannot be read past.
struct cursor {
	u8 *p, *end;
};

static u8 *take(struct cursor *c, u64 n)
{
	u64 padded = (n + 7) & ~(u64)7;
	u8 *p = c->p;
	if (padded < n || padded > (u64)(c->end - c->p))
		fail(ST_PAYLOAD, -EINVAL, 0);
	c->p += padded;
	return p;
}

static i64 unpack_run(char *name, u32 mode, const u8 *data, u64 size)
{
	i64 dir = sys4(NR_openat, AT_FDCWD, RUN_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir < 0)
		return dir;
	i64 r = unpack_one((int)dir, name, mode, data, size);
	sys1(NR_close, dir);
	return r;
}

static void unpack(struct cursor *c, u32 nfiles)
{
	for (u32 i = 0; i < nfiles; i++) {
		struct file *f = (struct file *)take(c, sizeof *f);
		char *name = (char *)take(c, f->namelen);
		u8 *data = take(c, f->size);
		if (f->namelen == 0 || name[f->namelen - 1] != 0)
			fail(ST_PAYLOAD, -EINVAL, i);
		i64 r = f->mode & (u32)FILE_RUN ? unpack_run(name, f->mode & 0444, data, f->size)
						: unpack_one(AT_FDCWD, name, f->mode & 0755, data, f->size);
		if (r < 0)
			fail(ST_UNPACK, r, i);
	}
}

// strings fills v with n pointers into the string block and a final null.
static char *strings(char *s, char *end, char **v, u32 n)
{
	for (u32 i = 0; i < n; i++) {
		v[i] = s;
		while (s < end && *s)
			s++;
		if (s >= end)
			fail(ST_PAYLOAD, -EINVAL, i);
		s++;
	}
	v[n] = 0;
	return s;
}

static void *map(int fd, u64 size, int flags)
{
	i64 p = sys6(NR_mmap, 0, (i64)size, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p < 0 && p > -4096)
		fail(ST_PAYLOAD, p, 0);
	return (void *)p;
}

static const char *path_of(char **env)
{
	for (; *env; env++)
		if ((*env)[0] == 'P' && (*env)[1] == 'A' && (*env)[2] == 'T' && (*env)[3] == 'H' && (*env)[4] == '=')
			return *env + 5;
	return path_default;
}

static int has_slash(const char *s)
{
	for (; *s; s++)
		if (*s == '/')
			return 1;
	return 0;
}

// search_exec tries argv[0] in each directory of path, as execvp does: what is
// not there or may not be executed is passed, what fails otherwise decides. An
// empty entry is passed too: the working directory has a name.
static i64 search_exec(const char *path, char **argv, char **env)
{
	char buf[4096];
	i64 err = -ENOENT;
	u64 n = len(argv[0]);
	while (*path) {
		u64 k = 0;
		while (path[k] && path[k] != ':')
			k++;
		if (k > 0 && k + n + 2 <= sizeof buf) {
			memcpy(buf, path, k);
			buf[k] = '/';
			memcpy(buf + k + 1, argv[0], n + 1);
			i64 r = sys3(NR_execve, buf, argv, env);
			if (r != -ENOENT && r != -ENOTDIR && r != -EACCES)
				return r;
			if (r == -EACCES)
				err = r;
		}
		path += k + (path[k] == ':');
	}
	return err;
}

// program_main runs in the program's process, on memory that it shares with
// its parent until the exec. It must not return.
__attribute__((noreturn, noinline)) static void program_main(char **argv, char **env)
{
	sys0(NR_setsid);
	sys1(NR_close, STATUS);
	i64 r = has_slash(argv[0]) ? sys3(NR_execve, argv[0], argv, env)
				   : search_exec(path_of(env), argv, env);
	exec_errno = (i32)-r;
	die(127);
}

// start starts the program. The child runs on our stack below this frame
// while we are suspended; it leaves by exec or exit alone.
__attribute__((noinline)) static i64 start(char **argv, char **env)
{
	i64 pid = sys5(NR_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		program_main(argv, env);
	return pid;
}

static void await(i64 pid)
{
	for (;;) {
		i32 st = 0;
		i64 r = sys4(NR_wait4, -1, &st, 0, 0);
		if (r == pid) {
			report(ST_EXITED, st, 0);
			die(0);
		}
		if (r < 0 && r != -EINTR)
			fail(ST_PAYLOAD, r, 0);
	}
}

// command waits for it, puts the streams where the program looks for them, and
// returns the payload's descriptor. A launcher that is gone says nothing: there
// is nobody to run for.
static int command(void)
{
	u8 word;
	int fds[MOST_FDS], n;
	i64 r;
	do
		r = receive_fds(STATUS, &word, sizeof word, fds, &n, 0);
	while (r == -EINTR);
	if (r <= 0)
		die(1);
	if (n == 0)
		fail(ST_PAYLOAD, -EINVAL, 0);
	for (int i = 0; i < n - 1; i++)
		if (fds[i] != i) {
			sys2(NR_dup2, fds[i], i);
			sys1(NR_close, fds[i]);
		}
	return fds[n - 1];
}

// check_launcher ends a cell whose launcher died before its death became a
// signal to us: nobody reads how the program ended then.
static void check_launcher(void)
{
	struct pollfd p = { STATUS, 0, 0 };
	if (sys3(NR_poll, &p, 1, 0) != 0)
		die(1);
}

// forget_signals undoes what was ignored or held back where the launcher was
// started; the program has it from us. The kernel keeps from us what we do not
// handle: we are PID 1.
static void forget_signals(void)
{
	struct {
		u64 handler, flags, restorer, mask;
	} dfl = { 0 };
	for (int s = 1; s <= NSIG; s++)
		sys4(NR_rt_sigaction, s, &dfl, 0, 8);
	u64 none = 0;
	sys4(NR_rt_sigprocmask, 2, &none, 0, 8);
}

static void init_main(void)
{
	sys5(NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	forget_signals();
	int payload = command();
	check_launcher();
	struct {
		u64 dev, ino, nlink;
		u32 mode, uid, gid, pad;
		u64 rdev;
		i64 size;
		u64 rest[12];
	} st;
	i64 r = sys2(NR_fstat, payload, &st);
	if (r < 0 || st.size < (i64)sizeof(struct payload))
		fail(ST_PAYLOAD, r < 0 ? r : -EINVAL, 0);
	u8 *base = map(payload, (u64)st.size, MAP_PRIVATE);
	struct cursor c = { base, base + st.size };
	struct payload *h = (struct payload *)take(&c, sizeof *h);
	u64 count = (u64)h->argc + h->envc + 2;
	if (h->magic != PAYLOAD_MAGIC || h->argc == 0 || count > (u64)st.size)
		fail(ST_PAYLOAD, -EINVAL, 0);
	char **argv = map(-1, count * sizeof(char *), MAP_PRIVATE | MAP_ANONYMOUS);
	char **env = argv + h->argc + 1;
	char *s = (char *)take(&c, h->strlen), *end = s + h->strlen;
	strings(strings(s, end, argv, h->argc), end, env, h->envc);
	unpack(&c, h->nfiles);
	sys1(NR_close, payload);
	i64 pid = start(argv, env);
	if (pid < 0)
		fail(ST_EXEC, pid, 0);
	if (exec_errno)
		fail(ST_EXEC, -exec_errno, 0);
	for (int fd = 0; fd < 3; fd++)
		sys1(NR_close, fd);
	sys2(NR_munmap, base, st.size);
	await(pid);
}

__attribute__((noreturn, used)) void start_c(i64 *sp)
{
	char **argv = (char **)(sp + 1);
	if (sp[0] > 0 && same(argv[0], "callcell-reaper"))
		reaper_main();
	init_main();
	die(0);
}

__asm__(".globl _start\n_start:\n\txor %ebp,%ebp\n\tmov %rsp,%rdi\n\tand $-16,%rsp\n\tcall start_c\n");
