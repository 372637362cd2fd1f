# Begins TLS in odd ways, and prints for each what became of it, a line of JSON:
# [HOW, NAME, RESULT]. The result is "answer" where a request came through.
import json, socket, ssl, struct

HOST, PORT = "allowed.test", 443

def begin(name):
    context = ssl.create_default_context(cafile="ca.pem")
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(into, out, server_hostname=name)
    try: tls.do_handshake()
    except ssl.SSLWantReadError: pass
    return tls, into, out

def whole(hello): return [hello]
def bytewise(hello): return [hello[i:i + 1] for i in range(len(hello))]
def records(hello):
    # Each piece of the message in a record of its own.
    body = hello[5:]
    return [b"\x16\x03\x01" + struct.pack(">H", len(p)) + p for p in (body[:1], body[1:40], body[40:])]
def emptyfirst(hello): return [b"\x16\x03\x01\x00\x00" + hello]
def twice(hello): return [hello + hello]
def alertfirst(hello): return [b"\x15\x03\x01\x00\x02\x01\x5a" + hello]
def sslv2(hello): return [struct.pack(">H", 0x8000 | 9) + b"\x01\x03\x01\x00\x00\x00\x00\x00\x00" + hello]
def changefirst(hello): return [b"\x14\x03\x01\x00\x01\x01" + hello]

def run(how, name):
    tls, into, out = begin(name)
    s = socket.create_connection((HOST, PORT), 5)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with s:
        for piece in how(out.read()): s.sendall(piece)
        while True:
            try: tls.do_handshake(); break
            except ssl.SSLWantReadError:
                if out.pending: s.sendall(out.read())
                data = s.recv(65536)
                if not data: return "hung up"
                into.write(data)
        tls.write(b"GET /odd HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n")
        s.sendall(out.read())
        while True:
            try: return "answer" if tls.read(1) else "end"
            except ssl.SSLWantReadError:
                data = s.recv(65536)
                if not data: return "hung up"
                into.write(data)

for how in (whole, bytewise, records, emptyfirst, twice, alertfirst, sslv2, changefirst):
    for name in ("allowed.test", "ALLOWED.test", "denied.test", "xallowed.test", None):
        try: result = run(how, name)
        except OSError as e: result = type(e).__name__
        except ValueError as e: result = "no name"
        print(json.dumps([how.__name__, name or "", result]), flush=True)
