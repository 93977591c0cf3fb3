"""What programs that use rdma_cm have called, from their traces, and how they have ended."""

from dataclasses import dataclass


@dataclass
class Ended:
    """A program's output and exit status."""

    status: int
    said: str


def calls(trace: str, function: str) -> list[tuple[float, float]]:
    """Return when programs called a function and when it returned, in seconds, for each call in
    their trace.
    """
    lines = (line.split() for line in trace.splitlines())
    made = [line for line in lines if line[2].startswith(f"{function}(")]
    return [(float(line[0]), float(line[0]) + int(line[-2]) / 1e9) for line in made]


def has_raced(served: str, asking: str) -> bool:
    """Return whether perftest's client connected a second time before its server listened again,
    from the traces of both.

    With ``-R`` both connect, agree on parameters over that connection, and connect again; but
    the server negotiates first, and listens afterwards. A client that is rejected meanwhile uses
    freed memory (4.5-0.17: ``rdma_cm_client_connection``), on real hardware too. This is not a
    defect of Tessera.
    """
    listened, connected = calls(served, "rdma_listen"), calls(asking, "rdma_connect")
    return len(connected) > 1 and (len(listened) < 2 or connected[1][0] < listened[1][1])
