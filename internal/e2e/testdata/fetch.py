# Prints status and body of an address: fetch.py URL CA
import ssl, sys, urllib.request

context = ssl.create_default_context(cafile=sys.argv[2])
with urllib.request.urlopen(sys.argv[1], timeout=10, context=context) as answer:
    print(answer.status, answer.read().decode())
