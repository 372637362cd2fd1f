# Sends bytes on connections and prints what comes back, a line of JSON each:
# raw.py tls|plain HOST PORT. Input, payloads.json: a list of [NAME, BYTES].
import json, os, socket, ssl, sys

how, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
context = ssl.create_default_context()
context.set_alpn_protocols(["http/1.1"])

def send(payload):
    s = socket.create_connection((host, port), 5)
    if how == "tls": s = context.wrap_socket(s, server_hostname=host)
    s.settimeout(2)
    with s:
        try:
            s.sendall(payload.encode("latin-1"))
        except OSError as e:
            return type(e).__name__
        got = b""
        try:
            while len(got) < 1 << 16 and (more := s.recv(1 << 16)): got += more
        except socket.timeout: got += b" (open)"
        except OSError as e: got += b" " + type(e).__name__.encode()
    return got.decode("latin-1")

for name, payload in json.load(open("payloads.json")):
    try: print(json.dumps([name, send(payload)]), flush=True)
    except OSError as e: print(json.dumps([name, "no connection: " + type(e).__name__]), flush=True)
