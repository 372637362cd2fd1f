// cling tries to outlive whatever ends it: it unsets its parent-death signal,
// ignores what can be ignored, and leaves processes in sessions of their own,
// orphaned twice. It says "ready" when they run.
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void harden(void)
{
	prctl(PR_SET_PDEATHSIG, 0);
	for (int s = 1; s < 65; s++)
		signal(s, SIG_IGN);
}

static void settle(int ready)
{
	harden();
	if (write(ready, "x", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

int main(void)
{
	enum { PROCESSES = 8 };
	int ready[2];
	if (pipe(ready) < 0)
		return 1;
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();
		if (pid < 0)
			return 1;
		if (pid == 0) {
			setsid();
			if (fork() == 0) {
				setsid();
				settle(ready[1]);
			}
			_exit(0);
		}
		waitpid(pid, 0, 0);
	}
	char c;
	for (int i = 0; i < PROCESSES; i++)
		if (read(ready[0], &c, 1) != 1)
			return 1;
	harden();
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
