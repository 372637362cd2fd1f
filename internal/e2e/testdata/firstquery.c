// Asks the cell's resolver for allowed.test as the first thing it does. Exits
// with 0 where there is an address in the answer, and otherwise says what went
// wrong.
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static const unsigned char query[] = "\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07" "allowed\x04" "test\x00\x00\x01\x00\x01";

static int fail(const char *what) {
	printf("%s: %s\n", what, strerror(errno));
	return 1;
}

int main(void) {
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
	inet_pton(AF_INET, "127.0.0.53", &to.sin_addr);
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	if (s < 0) return fail("socket");
	struct timeval patience = {.tv_sec = 5};
	if (setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience)) return fail("setsockopt");
	if (connect(s, (struct sockaddr *)&to, sizeof to)) return fail("connect");
	if (send(s, query, sizeof query - 1, 0) != sizeof query - 1) return fail("send");
	unsigned char answer[512];
	ssize_t n = recv(s, answer, sizeof answer, 0);
	if (n < 0) return fail("recv");
	if (n < 12 || (answer[3] & 15) != 0 || answer[7] != 1) {
		printf("%zd bytes, rcode %d, %d answers\n", n, answer[3] & 15, answer[7]);
		return 2;
	}
	return 0;
}
