"""How gpud starts a context worker and what the two say to each other afterwards.

gpud executes a *zygote* (``python -m vgpu_sim.zygote FD``: single-threaded, imports done, no live
LLVM engine) and talks to it over a SOCK_SEQPACKET socketpair, one JSON object a message:

- gpud -> zygote: ``{"type": "spawn", "request": n, "worker": {...}}`` with two descriptors, the
  client's socket and the worker's channel;
- zygote -> gpud: ``{"type": "spawned", "request": n, "pid": p}`` or
  ``{"type": "failed", "request": n, "error": text}``;
- zygote -> gpud: ``{"type": "exited", "pid": p, "status": s}``, status as from waitpid.

The child joins the cgroups it is given, drops its privileges, then answers the client's HELLO on
the client socket. Its *channel* to gpud (SOCK_SEQPACKET, JSON) carries:

- worker -> gpud: ``{"type": "reserve", "request": n, "bytes": b}``, answered by
  ``{"type": "reserved", "request": n, "granted": bool, "free": f, "total": t}``;
- worker -> gpud: ``{"type": "release", "bytes": b}``;
- worker -> gpud: ``{"type": "memory", "request": n}``, answered by
  ``{"type": "memory", "request": n, "free": f, "total": t}``;
- worker -> gpud: ``{"type": "event", "event": "started", "sandbox": {...}}``, the walls it stands
  behind, before it answers the client;
- worker -> gpud: ``{"type": "event", "event": NAME, ...}``: fault (``kind, kernel, ptx_line,
  address, block, message``), unsupported_ptx (``message``), out_of_memory (``requested_bytes,
  free_bytes``), failed (``message``): the context could not be set up;
- worker -> gpud: ``{"type": "stats", "launches": n, "first_launch_ns": t0, "last_launch_ns": t1,
  "busy_ns": b}`` in every second in which something ran, and at the end;
- gpud -> worker: ``{"type": "fence", "reason": text}``: the worker ends its context (FENCED).

Either side treats a closed channel as the other's death: a worker without gpud finishes what it
has (the program is not disturbed) but gets no new memory. A worker ends with status 0 when its
client has gone; else with one of the statuses below.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

FAULTED_STATUS: Final = 70  # the context died; TESSERA_WORKER_EXIT_STATUS of the native runtime
REFUSED_STATUS: Final = 71  # there is no context: the client was told why
CRASHED_STATUS: Final = 72  # a defect of ours


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Everything a worker is told; it reads no file and no environment.

    ``request`` is the id of the client's HELLO, which the worker answers. ``cgroup_procs`` are
    files to write one's pid into, ``uid``/``gid`` are None where gpud may not change them.
    ``memory_limit_bytes`` is the slice's. ``cache_dir`` is the owner's object cache, already
    created; None turns caching off.
    """

    request: int
    instance_uuid: str
    profile: str
    capability: tuple[int, int]
    backend: str  # "jit" or "interp"
    aperture_base: int
    gpu_index: int
    context_index: int
    memory_limit_bytes: int
    threads: int
    max_threads_per_block: int = 1024
    cgroup_procs: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None
    cache_dir: str | None = None
    sandbox: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return plain values for the spawn message."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "WorkerConfig":
        """Rebuild from ``to_json``.

        Raises:
            ValueError: on a missing or an unknown field.
        """
        known = {field.name for field in fields(cls)}
        if set(document) - known:
            raise ValueError(f"unknown worker fields: {sorted(set(document) - known)}")
        values = dict(document)
        try:
            values["capability"] = tuple(values["capability"])
            values["cgroup_procs"] = tuple(values.get("cgroup_procs", ()))
            return cls(**values)
        except (KeyError, TypeError) as err:
            raise ValueError(f"worker config: {err}") from err


def encode(message: dict[str, Any]) -> bytes:
    """Encode one message of either channel."""
    return json.dumps(message, separators=(",", ":")).encode()


def decode(data: bytes) -> dict[str, Any]:
    """Decode one message.

    Raises:
        ValueError: when it is not a JSON object with a ``type``.
    """
    message = json.loads(data)
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ValueError("a message is a JSON object with a type")
    return message
