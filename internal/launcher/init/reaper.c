// The reaper ends cells whose launcher or front is gone. It holds a pidfd of
// every cell, its uid's lock and the directories of its groups, and needs
// nothing that code inside a cell could change.
//
// Descriptors at its start:
//
//	3  launcher: seqpackets of struct note, with descriptors
//	4  front: the launcher's own end of its socket; only its hang-up is
//	   looked at. While we hold it the front reads no end of file, so that
//	   it learns of the launcher's death when the cells are dead.
//
// One life:
//
//	launcher                      reaper
//	  NOTE_SETUP [pidfd, claim, dirs...] -> once: the launcher, and the groups' parents
//	  NOTE_OPEN slot name [lock]  ->        before the cell's groups are made
//	  NOTE_PID slot [pidfd]       ->        its PID 1
//	  NOTE_DONE slot              ->        the launcher has cleaned up
//	  hang-up of 3 or 4           ->        kill all, wait for the launcher, sweep, exit
//
// Notes that were sent before a hang-up are read before it is acted on. Where
// something cannot be removed the front is told, and the reaper stays: with the
// lock it keeps the uid from use while a process may have it. The claim is what
// keeps the parents from launchers that do not see those locks.

#include "sys.h"

enum { LAUNCHER = 3, FRONT = 4 };
enum { NOTE_SETUP = 1, NOTE_OPEN = 2, NOTE_PID = 3, NOTE_DONE = 4 };
enum { MAX_SLOTS = 1030, MAX_DIRS = 8, NAME = 64 };
enum { LAUNCHER_GRACE_MS = 5000, SWEEP_MS = 10000, AGAIN_MS = 5000 };

struct note {
	u32 op, slot;
	char name[NAME]; // of the cell's groups
};

struct slot {
	int used, pidfd, lock;
	char name[NAME];
};

static struct slot slots[MAX_SLOTS];
static int dirs[MAX_DIRS], ndirs, launcher_pidfd = -1;

static i64 now_ms(void)
{
	i64 ts[2];
	sys2(NR_clock_gettime, 1, ts);
	return ts[0] * 1000 + ts[1] / 1000000;
}

static void nap_ms(i64 ms)
{
	i64 ts[2] = { ms / 1000, ms % 1000 * 1000000 };
	sys2(NR_nanosleep, ts, 0);
}

static void shut(int *fd)
{
	if (*fd >= 0)
		sys1(NR_close, *fd);
	*fd = -1;
}

static void release(struct slot *s)
{
	shut(&s->pidfd);
	shut(&s->lock);
	s->used = 0;
}

// apply takes one note; descriptors that it does not keep are closed.
static void apply(struct note *n, int *fds, int nfds)
{
	struct slot *s = n->slot < MAX_SLOTS ? &slots[n->slot] : 0;
	int kept = 0;
	if (n->op == NOTE_SETUP && launcher_pidfd < 0 && nfds >= 2) {
		launcher_pidfd = fds[0]; // fds[1], the claim, is held until we end
		for (kept = 2; kept < nfds && ndirs < MAX_DIRS; kept++)
			dirs[ndirs++] = fds[kept];
	} else if (s && n->op == NOTE_OPEN && nfds == 1) {
		release(s);
		s->used = 1;
		s->lock = fds[0];
		memcpy(s->name, n->name, NAME);
		s->name[NAME - 1] = 0;
		kept = 1;
	} else if (s && s->used && n->op == NOTE_PID && nfds == 1) {
		shut(&s->pidfd);
		s->pidfd = fds[0];
		kept = 1;
	} else if (s && n->op == NOTE_DONE) {
		release(s);
	}
	for (; kept < nfds; kept++)
		sys1(NR_close, fds[kept]);
}

// receive takes one note, and says whether the launcher is still there.
static int receive(void)
{
	struct note n;
	int fds[MOST_FDS], nfds;
	memset(&n, 0, sizeof n);
	i64 r = receive_fds(LAUNCHER, &n, sizeof n, fds, &nfds, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (r == -EINTR || r == -11)
		return 1;
	if (r <= 0)
		return 0;
	apply(&n, fds, nfds);
	return 1;
}

static void kill_all(void)
{
	for (int i = 0; i < MAX_SLOTS; i++)
		if (slots[i].used && slots[i].pidfd >= 0)
			sys4(NR_pidfd_send_signal, slots[i].pidfd, SIGKILL, 0, 0);
}

// kill_members kills what is in the group: at once where the kernel can do
// it, else one by one.
static void kill_members(int dir, const char *name)
{
	char path[NAME + 16];
	u64 n = len(name);
	memcpy(path, name, n);
	memcpy(path + n, "/cgroup.kill", 13);
	i64 fd = sys4(NR_openat, dir, path, O_WRONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		sys3(NR_write, fd, "1", 1);
		sys1(NR_close, fd);
		return;
	}
	memcpy(path + n, "/cgroup.procs", 14);
	fd = sys4(NR_openat, dir, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return;
	char buf[4096];
	i64 pid = 0, r;
	while ((r = sys3(NR_read, fd, buf, sizeof buf)) > 0)
		for (i64 i = 0; i < r; i++) {
			if (buf[i] >= '0' && buf[i] <= '9') {
				pid = pid * 10 + (buf[i] - '0');
				continue;
			}
			if (pid > 1)
				sys2(NR_kill, pid, SIGKILL);
			pid = 0;
		}
	sys1(NR_close, fd);
}

// sweep removes the groups of every slot; it says how many are left.
static int sweep(void)
{
	int left = 0;
	for (int i = 0; i < MAX_SLOTS; i++) {
		if (!slots[i].used)
			continue;
		int stays = 0;
		for (int d = 0; d < ndirs; d++) {
			i64 r = sys3(NR_unlinkat, dirs[d], slots[i].name, AT_REMOVEDIR);
			if (r < 0 && r != -ENOENT) {
				kill_members(dirs[d], slots[i].name);
				stays = 1;
			}
		}
		if (!stays)
			release(&slots[i]);
		left += stays;
	}
	return left;
}

// await_launcher reads notes until the launcher hangs up, and kills what they
// tell of; it says whether that happened within the time.
static int await_launcher(i64 ms)
{
	struct pollfd p = { LAUNCHER, POLLIN, 0 };
	for (i64 until = now_ms() + ms, left; (left = until - now_ms()) > 0;) {
		sys3(NR_poll, &p, 1, left);
		if (!p.revents)
			continue;
		if (!receive())
			return 1;
		kill_all();
	}
	return 0;
}

// end_launcher gives a launcher whose front is gone time to clean up by
// itself, then kills it: it may hang.
static void end_launcher(void)
{
	if (await_launcher(LAUNCHER_GRACE_MS))
		return;
	if (launcher_pidfd >= 0)
		sys4(NR_pidfd_send_signal, launcher_pidfd, SIGKILL, 0, 0);
	await_launcher(LAUNCHER_GRACE_MS); // what it noted before it died
}

// open_many lets this process hold two descriptors for every slot: the soft
// limit that it was started with may be that of a shell.
static void open_many(void)
{
	u64 limit[2];
	if (sys4(NR_prlimit64, 0, RLIMIT_NOFILE, 0, limit) < 0)
		return;
	limit[0] = limit[1];
	sys4(NR_prlimit64, 0, RLIMIT_NOFILE, limit, 0);
}

static void confine(void)
{
	struct {
		u64 handler, flags, restorer, mask;
	} dfl = { 0, 0, 0, 0 }, ign = { 1, 0, 0, 0 };
	sys0(NR_setsid);
	for (int s = 1; s <= NSIG; s++) // whoever started us may have ignored some
		sys4(NR_rt_sigaction, s, &dfl, 0, 8);
	int quiet[] = { SIGHUP, SIGINT, SIGTERM, SIGPIPE };
	for (u64 i = 0; i < sizeof quiet / sizeof *quiet; i++)
		sys4(NR_rt_sigaction, quiet[i], &ign, 0, 8);
	sys5(NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	sys5(NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	for (int c = 0; c < 64; c++)
		sys5(NR_prctl, PR_CAPBSET_DROP, c, 0, 0, 0);
	struct {
		u32 version;
		int pid;
	} head = { 0x20080522, 0 };
	enum { CAP_KILL = 5 };
	u32 caps[6] = { 1 << CAP_KILL, 1 << CAP_KILL, 0, 0, 0, 0 };
	sys2(NR_capset, &head, caps);
}

// say_swept tells the front that its launcher's cells are gone: the message
// Swept of package wire, sequence number 0.
static void say_swept(u32 left)
{
	enum { TYPE_SWEPT = 24 };
	u8 m[9] = { TYPE_SWEPT, 0, 0, 0, 0, (u8)left, (u8)(left >> 8), 0, 0 };
	sys3(NR_write, FRONT, m, sizeof m);
}

void reaper_main(void)
{
	confine();
	open_many();
	for (int i = 0; i < MAX_SLOTS; i++)
		slots[i].pidfd = slots[i].lock = -1;
	struct pollfd p[2] = { { LAUNCHER, POLLIN, 0 }, { FRONT, 0, 0 } };
	int launcher = 1;
	while (launcher && !(p[1].revents & (POLLHUP | POLLERR))) {
		i64 r = sys3(NR_poll, p, 2, -1);
		if (r > 0 && p[0].revents)
			launcher = receive();
	}
	kill_all();
	if (launcher)
		end_launcher();
	kill_all();
	int left;
	for (i64 until = now_ms() + SWEEP_MS; (left = sweep()) && now_ms() < until;)
		nap_ms(2);
	say_swept((u32)left);
	sys1(NR_close, FRONT);
	for (; left; left = sweep())
		nap_ms(AGAIN_MS);
	die(0);
}
