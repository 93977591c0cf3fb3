"""Threads that exist before they are needed.

A thread cannot be started while the kernel moves any process between control groups, which each
start of a worker makes it do: gpud's loop would wait for that. So its threads are made beforehand.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

POOL_THREADS = 8


def pool(threads: int = POOL_THREADS, name: str = "gpud") -> ThreadPoolExecutor:
    """Return a pool all of whose threads run."""
    executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
    together = threading.Barrier(threads + 1)
    for _ in range(threads):
        executor.submit(together.wait)
    together.wait()
    return executor
