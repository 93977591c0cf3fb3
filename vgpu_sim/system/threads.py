"""Threads that are created before gpud needs them.

A thread cannot be started while the kernel moves any process between control groups, which
happens whenever a worker starts. Starting a thread then would block gpud's event loop. Its
threads are therefore created in advance.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

POOL_THREADS = 8


def pool(threads: int = POOL_THREADS, name: str = "gpud") -> ThreadPoolExecutor:
    """Return a pool of threads that have all been started already."""
    executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
    together = threading.Barrier(threads + 1)
    for _ in range(threads):
        executor.submit(together.wait)
    together.wait()
    return executor
