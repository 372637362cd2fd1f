# Asks the cell's resolver by hand, over UDP and TCP, and prints what it says:
# dns.py TYPE NAME
import socket, struct, sys

types = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "SVCB": 64, "HTTPS": 65, "ANY": 255}
name = b"".join(bytes([len(label)]) + label.encode() for label in sys.argv[2].split(".")) + b"\0"
query = struct.pack(">HHHHHH", 77, 0x0100, 1, 0, 0, 0) + name + struct.pack(">HH", types[sys.argv[1]], 1)

def say(how, answer):
    number, flags, _, answers, _, _ = struct.unpack(">HHHHHH", answer[:12])
    print(f"{how} rcode {flags & 15}, {answers} answers" if number == 77 and flags & 0x8000 else f"{how} garbage {answer!r}")

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.settimeout(2)
    s.sendto(query, ("127.0.0.53", 53))
    say("udp", s.recv(4096))
with socket.create_connection(("127.0.0.53", 53), 2) as s:
    s.sendall(struct.pack(">H", len(query)) + query)
    say("tcp", s.makefile("rb").read(2 + 12)[2:])
