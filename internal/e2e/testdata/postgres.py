# Begins with the database in odd ways, and prints what comes back, a line of
# JSON each: [HOW, TEXT].
import json, socket, ssl, struct

def packet(code, body=b""): return struct.pack(">II", 8 + len(body), code) + body

STARTUP = packet(196608, b"user\0reader\0database\0postgres\0\0")
SSL, GSS, CANCEL = packet(80877103), packet(80877104), packet(80877102, b"\0" * 8)

def handshake(s, name):
    context = ssl.create_default_context(cafile="ca.pem")
    context.check_hostname = False
    if not name: context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(s, server_hostname=name)

def talk(first, then=None):
    s = socket.create_connection(("db.test", 5432), 5)
    s.settimeout(3)
    with s:
        s.sendall(first)
        got = s.recv(1000)
        if then is not None and got[:1] == b"S": return "S" + then(s)
        return got.decode("latin-1")

def tls(name):
    def then(s):
        t = handshake(s, name)
        t.sendall(STARTUP)
        return t.recv(1).decode("latin-1")
    return then

def plain(s):
    s.sendall(STARTUP)
    return s.recv(1000).decode("latin-1")

for how, args in {
    "TLS of the name": (SSL, tls("db.test")),
    "TLS of another name": (SSL, tls("other.test")),
    "TLS without a name": (SSL, tls(None)),
    "no TLS": (STARTUP,),
    "no TLS after all": (SSL, plain),
    "more behind the request for TLS": (SSL + STARTUP,),
    "GSS": (GSS,),
    "GSS and then none": (GSS + STARTUP,),
    "cancel": (CANCEL,),
    "a long message": (struct.pack(">II", 1 << 30, 196608),),
    "HTTP": (b"GET / HTTP/1.0\r\n\r\n",),
    "TLS at once": (b"\x16\x03\x01\x00\x05hello",),
}.items():
    try: print(json.dumps([how, talk(*args)]), flush=True)
    except OSError as e: print(json.dumps([how, type(e).__name__]), flush=True)
