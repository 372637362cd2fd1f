// brood has many children, and ends at the death of the first, with 9; or with 7,
// when it is asked to end before it has heard of one. It says "ready" when it
// waits.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void asked(int s)
{
	(void)s;
	_exit(7);
}

int main(void)
{
	enum { CHILDREN = 100 };
	for (int i = 0; i < CHILDREN; i++) {
		switch (fork()) {
		case -1:
			return 1;
		case 0:
			for (;;)
				pause();
		}
	}
	signal(SIGTERM, asked);
	if (write(1, "ready\n", 6) != 6)
		return 1;
	wait(0);
	return 9;
}
