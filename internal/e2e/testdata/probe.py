# Tries what it is told and prints, for each, how it ended and how long it
# took, as lines of JSON: WHAT RESULT SECONDS. Input: a list of [WHAT, ARG...].
import errno, json, socket, sys, time

LIMIT = 20.0

def tcp(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(LIMIT)
    with s:
        s.connect((host, port))
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return "answer" if s.recv(1) else "hung up"

def name(host, port):
    s = socket.create_connection((host, port), LIMIT)
    with s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return "answer" if s.recv(1) else "hung up"

def web(host, port):
    s = socket.create_connection((host, port), LIMIT)
    with s:
        s.sendall(f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        answer = s.makefile("rb").read().decode()
        status, _, body = answer.partition("\r\n\r\n")
        return "refused " + status.split()[1] if body.startswith("callcell: ") else "answer" if answer else "hung up"

def udp(host, port, data="x"):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(1)
    with s:
        s.connect((host, port))
        s.send(data.encode("latin-1"))
        return "answer" if s.recv(512) else "hung up"

def ping(host, kind):
    family, proto = (socket.AF_INET6, 58) if ":" in host else (socket.AF_INET, 1)
    s = socket.socket(family, getattr(socket, kind), proto)
    s.settimeout(1)
    with s:
        s.sendto(b"\x08\x00\xf7\xff\x00\x00\x00\x00" if proto == 1 else b"\x80\x00\x00\x00\x00\x00\x00\x00", (host, 0))
        return "answer" if s.recv(512) else "hung up"

def family(number, kind, proto=0):
    socket.socket(number, kind, proto).close()
    return "made"

def resolve(host):
    return " ".join(sorted({a[4][0] for a in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)}))

def bind(host, port):
    s = socket.create_server((host, port))
    with s, socket.create_connection(("127.0.0.1", port), LIMIT) as c:
        t, _ = s.accept()
        t.sendall(b"x")
        return "answer" if c.recv(1) else "hung up"

for what, *args in json.load(open(sys.argv[1])):
    began = time.monotonic()
    try:
        result = globals()[what](*args)
    except socket.gaierror as e:
        result = "EAI " + {socket.EAI_NONAME: "NONAME", socket.EAI_AGAIN: "AGAIN", socket.EAI_FAIL: "FAIL", socket.EAI_NODATA: "NODATA"}.get(e.errno, str(e))
    except socket.timeout:
        result = "time-out"
    except OSError as e:
        result = errno.errorcode.get(e.errno, str(e))
    except UnicodeError:
        result = "no name"
    print(json.dumps([" ".join(str(a) for a in [what, *args]), result, round(time.monotonic() - began, 3)]), flush=True)
