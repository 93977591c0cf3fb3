"""Prints the datagrams to UDP port 4791 of this pod until a mark arrives at port 4792, as JSON
lines.
"""

import json
import socket

with (
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as looked_at,
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as marked,
):
    looked_at.bind(("", 4791))
    marked.bind(("", 4792))
    marked.settimeout(200)  # the sender may start late on a busy machine
    print("ready", flush=True)
    assert marked.recv(16) == b"mark"
    looked_at.setblocking(False)
    while True:
        try:
            data, (who, _) = looked_at.recvfrom(65536)
        except BlockingIOError:
            break
        print(json.dumps({"opcode": data[0], "bytes": len(data), "source": who}), flush=True)
