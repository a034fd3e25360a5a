"""A web server whose requests cost a fixed amount of CPU.

`python -m osml.lab.testbed.web_worker --port P --work N`

A request hashes a buffer of half a mebibyte N times, the paper's "encrypts 15 KB of data" for a processor with
instructions for it. The work is the same each time, happens in C without Python's lock, and touches enough memory to
feel a neighbour in the cache. A thread a connection: requests at once share the CPU, as in the paper's Apache.
"""

from __future__ import annotations

import argparse
import hashlib
import socket
import threading
import time

BUFFER = bytes(range(256)) * 2048  # 512 KiB
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"
MAX_HEAD = 65536


def work(times: int) -> None:
    """One request's worth of CPU."""
    for _ in range(times):
        hashlib.sha256(BUFFER).digest()


def seconds_of_work(trials: int = 40) -> float:
    """CPU seconds of one hash on this machine: the lower quartile, which others' load hardly moves."""
    taken: list[float] = []
    for _ in range(trials):
        before = time.thread_time()
        work(1)
        taken.append(time.thread_time() - before)
    return sorted(taken)[trials // 4]


def _serve(connection: socket.socket, times: int) -> None:
    with connection:
        head = b""
        try:
            while piece := connection.recv(65536):
                head += piece
                # Only GET is ever asked, so that a request ends with its head.
                while b"\r\n\r\n" in head:
                    head = head.partition(b"\r\n\r\n")[2]
                    work(times)
                    connection.sendall(ANSWER)
                if len(head) > MAX_HEAD:
                    return
        except OSError:
            return  # the proxy went away in the middle: nothing to tell anybody


def main() -> None:
    """Listen until killed."""
    parser = argparse.ArgumentParser(prog="web_worker")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--work", type=int, required=True, help="hashes per request")
    given = parser.parse_args()
    with socket.create_server(("127.0.0.1", given.port), backlog=1024) as listener:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_serve, args=(connection, given.work), daemon=True).start()


if __name__ == "__main__":
    main()
