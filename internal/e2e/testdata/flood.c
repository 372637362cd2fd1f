// Asks the cell's resolver for COUNT names below SUFFIX, each another one, and
// prints how many answers had an address, how many none, and how many did not
// come: flood COUNT SUFFIX
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

// question writes a question for nI.SUFFIX and returns its length.
static size_t question(unsigned char *q, long i, const char *suffix) {
	static const unsigned char head[] = {0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
	memcpy(q, head, sizeof head);
	q[0] = i >> 8, q[1] = i;
	size_t n = sizeof head;
	char name[256];
	snprintf(name, sizeof name, "n%ld.%s", i, suffix);
	for (char *label = strtok(name, "."); label; label = strtok(NULL, ".")) {
		size_t size = strlen(label);
		q[n++] = size;
		memcpy(q + n, label, size);
		n += size;
	}
	memcpy(q + n, "\x00\x00\x01\x00\x01", 5);
	return n + 5;
}

int main(int argc, char **argv) {
	if (argc != 3) return 2;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
	inet_pton(AF_INET, "127.0.0.53", &to.sin_addr);
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	struct timeval patience = {.tv_sec = 30}; // no answer is lost because the machine is busy
	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) || connect(s, (struct sockaddr *)&to, sizeof to)) return 3;
	long count = atol(argv[1]), sent = 0, with = 0, without = 0, lost = 0;
	unsigned char packet[512];
	while (with + without + lost < count) {
		while (sent < count && sent - with - without - lost < 16) {
			size_t n = question(packet, sent++, argv[2]);
			if (send(s, packet, n, 0) != (ssize_t)n) lost++;
		}
		ssize_t n = recv(s, packet, sizeof packet, 0);
		if (n < 12) lost++;
		else if (packet[7]) with++;
		else without++;
	}
	printf("%ld %ld %ld\n", with, without, lost);
	return 0;
}
