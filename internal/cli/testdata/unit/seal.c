/* Becomes a program that the filters of a unit of systemd hold, as far as they
 * are filters of system calls: seal DIRECTIVE[=WORD,...]... -- PROGRAM ARG...
 * What it does not know is an error. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sock_filter list[128];
static unsigned short length;

static void add(unsigned short code, unsigned char yes, unsigned char no, unsigned int k) {
	if (length == sizeof list / sizeof *list) exit(3);
	list[length++] = (struct sock_filter){ code, yes, no, k };
}

static void load(size_t at) { add(BPF_LD | BPF_W | BPF_ABS, 0, 0, at); }

static void deny(int number) {
	add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number);
	add(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM);
}

/* any system call with another first argument than one of these is refused */
static void only(int number, int error, const unsigned *values, unsigned char n) {
	add(BPF_JMP | BPF_JEQ | BPF_K, 0, n + 3, number);
	load(offsetof(struct seccomp_data, args[0]));
	for (unsigned char i = 0; i < n; i++) add(BPF_JMP | BPF_JEQ | BPF_K, n - i, 0, values[i]);
	add(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error);
	load(offsetof(struct seccomp_data, nr));
}

static void families(char *words) {
	unsigned values[8];
	unsigned char n = 0;
	for (char *w = strtok(words, ","); w; w = strtok(NULL, ",")) {
		int family = !strcmp(w, "AF_UNIX") ? AF_UNIX : !strcmp(w, "AF_INET") ? AF_INET : !strcmp(w, "AF_INET6") ? AF_INET6 : !strcmp(w, "AF_NETLINK") ? AF_NETLINK : -1;
		if (family < 0 || n == 8) exit(4);
		values[n++] = family;
	}
	only(SYS_socket, EAFNOSUPPORT, values, n);
}

static void forbid(char *directive) {
	char *value = strchr(directive, '=');
	if (value) *value++ = 0;
	if (!strcmp(directive, "ProtectClock")) {
		deny(SYS_clock_settime); deny(SYS_settimeofday); deny(SYS_adjtimex); deny(SYS_clock_adjtime);
	} else if (!strcmp(directive, "ProtectHostname")) {
		deny(SYS_sethostname); deny(SYS_setdomainname);
	} else if (!strcmp(directive, "ProtectKernelLogs")) {
		deny(SYS_syslog);
	} else if (!strcmp(directive, "ProtectKernelModules")) {
		deny(SYS_init_module); deny(SYS_finit_module); deny(SYS_delete_module);
	} else if (!strcmp(directive, "LockPersonality")) {
		const unsigned values[] = { 0, 0xffffffff };
		only(SYS_personality, EPERM, values, 2);
	} else if (!strcmp(directive, "RestrictRealtime")) {
		deny(SYS_sched_setattr); /* sched_setscheduler is looked into; nothing of ours calls either */
		deny(SYS_sched_setscheduler);
	} else if (!strcmp(directive, "RestrictAddressFamilies") && value) {
		families(value);
	} else {
		fprintf(stderr, "seal: what is %s?\n", directive);
		exit(2);
	}
}

int main(int n, char **words) {
	int i = 1;
	load(offsetof(struct seccomp_data, nr));
	for (; i < n && strcmp(words[i], "--"); i++) forbid(words[i]);
	add(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { length, list };
	if (i + 1 >= n) return 2;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) {
		perror("seal: seccomp");
		return 1;
	}
	execv(words[i + 1], words + i + 1);
	perror("seal: exec");
	return 1;
}
