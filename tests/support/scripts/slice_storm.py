"""Floods a slice's socket until killed: ``SOCKET HELLO``. Standard library only, for any pod.

Without a HELLO, in hexadecimal, it connects and disconnects; with one it requests contexts,
disconnects after the reply, leaves 48 requests waiting, and drops the others at once, as fast as
it can. It prints a line after each hundred requests, with the time of CLOCK_MONOTONIC.
"""

import select
import socket
import sys
import time

MAX_WAITING = 48
EVERY = 100


def attempt(path: str, hello: bytes) -> socket.socket | None:
    """Connect, and send HELLO; return None if too many connections are pending already."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.setblocking(False)
    try:
        sock.connect(path)
        if hello:
            sock.send(hello)
    except OSError:
        sock.close()
        return None
    return sock


def main() -> None:
    path, hello = sys.argv[1], bytes.fromhex(sys.argv[2])
    waiting: list[socket.socket] = []
    done = 0
    while True:
        sock = attempt(path, hello)
        if sock is None:
            time.sleep(0.001)
        else:
            waiting.append(sock)
            done += 1
            if done % EVERY == 0:
                print(done, time.monotonic(), flush=True)
        answered = select.select(waiting, [], [], 0)[0]
        for one in answered if hello else tuple(waiting):
            one.close()
            waiting.remove(one)
        while len(waiting) > MAX_WAITING:
            waiting.pop().close()


if __name__ == "__main__":
    main()
