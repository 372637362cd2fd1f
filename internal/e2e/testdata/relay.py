# Asks the proxy for a host, directly and through a relay of its own, and
# prints what it says: relay.py HOST:PORT
import os, socket, sys, threading, urllib.parse

proxy = urllib.parse.urlparse(os.environ["HTTPS_PROXY"])
relay = socket.create_server(("127.0.0.1", 7777))

def pump(a, b):
    try:
        while data := a.recv(4096): b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass

def serve():
    while True:
        c, _ = relay.accept()
        u = socket.create_connection((proxy.hostname, proxy.port))
        threading.Thread(target=pump, args=(c, u), daemon=True).start()
        threading.Thread(target=pump, args=(u, c), daemon=True).start()

threading.Thread(target=serve, daemon=True).start()
for at in ((proxy.hostname, proxy.port), ("127.0.0.1", 7777)):
    for host in ("allowed.test", sys.argv[1].split(":")[0]):
        with socket.create_connection(at, 5) as c:
            c.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            print(c.recv(2000).decode().replace("\r\n", " | ").replace("\n", " "))
