"""The protocol by which gpud starts context workers and communicates with them.

gpud executes a *zygote* (``python -m vgpu_sim.zygote FD [UID]``: single-threaded, imports done,
no live LLVM engine) and talks to it over a SOCK_SEQPACKET socketpair, one JSON object a message:

- zygote -> gpud, first: ``{"type": "ready", "sandbox": {...}}``: the sandbox mechanisms that a
  worker with this UID will have, as a child process found by trying;
- gpud -> zygote: ``{"type": "spawn", "request": n, "worker": {...}}`` with two descriptors, the
  client's socket and the worker's channel;
- zygote -> gpud: ``{"type": "begun", "request": n}`` before it starts the worker: should the zygote
  end now, gpud must not repeat the request, because the worker may serve the client;
- zygote -> gpud: ``{"type": "spawned", "request": n, "pid": p}`` or
  ``{"type": "failed", "request": n, "error": text}``;
- gpud -> zygote: ``{"type": "expect", "worker": {...}}``, without a reply: a context like this one
  may be requested soon;
- zygote -> gpud: ``{"type": "exited", "pid": p, "status": s}``, status as from waitpid; also for
  processes unknown to gpud: the helpers of workers that have ended.

A worker may have been started before its request (``vgpu_sim.worker.spare``): then the zygote
moves it into its cgroups, and the rest is the same. The child joins the cgroups in its
configuration, drops its privileges, then answers the client's HELLO on the client socket. Its
*channel* to gpud (SOCK_SEQPACKET, JSON) carries:

- worker -> gpud: ``{"type": "reserve", "request": n, "bytes": b}``, answered by
  ``{"type": "reserved", "request": n, "granted": bool, "free": f, "total": t}``;
- worker -> gpud: ``{"type": "release", "bytes": b}``;
- worker -> gpud: ``{"type": "offer", "request": n, "key": hex, "share": s, "bytes": b}``: other
  workers of the slice may open a chunk with this key; ``s`` is the chunk's share, or 0. Answered by
  ``{"type": "offered", "request": n, "share": s}``, with 0 if gpud refuses;
- worker -> gpud: ``{"type": "withdraw", "key": hex}``: the key is no longer valid;
- worker -> gpud: ``{"type": "open", "request": n, "key": hex}``, answered by ``{"type": "opened",
  "request": n, "share": s, "bytes": b}``, with 0 if there is no such memory. Otherwise the answer
  carries one end of a connection whose other end the exporter's worker gets with ``{"type":
  "export", "key": hex, ...}``; the exporter sends a ``messages.ShareGrant`` with the memory;
- worker -> gpud: ``{"type": "leave", "request": n, "share": s}`` (0: all), answered by ``{"type":
  "left", "request": n, "known": bool, "last": bool, "bytes": b}``; the worker is no longer charged
  for ``b`` bytes;
- gpud -> worker: ``{"type": "charged", "bytes": b}``: another holder has left, and the worker is
  charged for shared memory now;
- worker -> gpud: ``{"type": "memory", "request": n}``, answered by
  ``{"type": "memory", "request": n, "free": f, "total": t}``;
- worker -> gpud: ``{"type": "event", "event": "started", "sandbox": {...}}``, its sandbox
  mechanisms, before it answers the client;
- worker -> gpud: ``{"type": "event", "event": NAME, ...}``: fault (``kind, kernel, ptx_line,
  address, block, message``), unsupported_ptx (``message``), out_of_memory
  (``requested_bytes``; gpud adds the rest), failed (``message``): the context could not be set up;
- worker -> gpud: ``{"type": "stats", "launches": n, "first_launch_ns": t0, "last_launch_ns": t1,
  "busy_ns": b, "running_kernel": name, "running_since_ns": t, ...}`` in every second in which
  something ran, and at the end; ``busy_ns`` includes the running kernel, whose name is empty if
  there is none; further fields are those of ``hal.management.admin.Counters``, by their names,
  except that its ``busy_ns`` is ``computed_ns`` here: ``busy_ns`` without compiling;
- worker -> gpud: ``{"type": "usage", "kernels": [[name, launches, ns], ...], ...}`` at the end, in
  parts and only if ``report_usage`` is set: each kernel's cost, and in the first part what was
  compiled (``modules, modules_ns, compiled, cached, shapes, shapes_ns, provisional, improved,
  swapped``);
- worker -> gpud: ``{"type": "modelled", "launches": {...}}`` or ``{"type": "modelled", "summary":
  {...}}`` (``hal.observe.modelled_report``) at the end, if the clock is modelled and
  ``report_usage`` is set;
- gpud -> worker: ``{"type": "fence", "reason": text, "error": e}``: the worker ends its context;
  ``e`` 0: the slice was taken away (FENCED), else the GPU failed (DEVICE) with this CUresult;
- gpud -> worker, first: ``{"type": "reconnect"}`` with a descriptor: a bound datagram socket, on
  which a later gpud sends ``{"type": "channel"}`` with the worker's end of a new channel;
- worker -> gpud, first on such a channel: ``{"type": "resume", "held_bytes": b, "allocations": n,
  "sandbox": {...}, ...}`` with the fields of stats; then all messages as before;
- gpud -> worker: ``{"type": "export", "address": a, "bytes": b}`` with a descriptor: hcad's
  connection, on which the worker answers (``vgpu_sim.hal.direct``).

Either side treats a closed channel as the other's death: a worker without gpud continues to
serve its program with the memory that it has, but gets no new memory until it is reconnected. A
worker ends with status 0 when its client has gone; else with one of the statuses below.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from facts.document import DEFAULT_FACTS, GpuFacts
from vgpu_sim.hal.compute import limits
from vgpu_sim.records import dataclass

FAULTED_STATUS: Final = 70  # the context died; TESSERA_WORKER_EXIT_STATUS of the native runtime
REFUSED_STATUS: Final = 71  # there is no context: the client has received the reason
CRASHED_STATUS: Final = 72  # a defect of Tessera

# For a zygote: its heap contains even large blocks, instead of a separate mapping for each. A
# worker that unmapped one would leave a hole at an address that other workers know. 32 MiB is the
# most that glibc accepts.
ZYGOTE_ENVIRONMENT: Final = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20)}


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The complete configuration of a worker, which takes no settings from files or the
    environment.

    ``request`` is the id of the client's HELLO, which the worker answers. The worker writes its
    pid to the files ``cgroup_procs``. ``uid`` and ``gid`` are the user and group that the worker
    changes to; they are None if gpud may not change them. ``memory_limit_bytes`` is the memory
    limit of the slice. ``cache_dir`` is the owner's object cache, which already exists; None
    turns caching off. A kernel that runs longer than ``kernel_timeout_s`` of wall-clock time
    ends its context; None sets no limit. Better code of a kernel is compiled when its launches have
    taken ``hot_kernel_ns``. Without ``sandbox`` the worker has no sandbox; only
    tests use that. With ``weak_sandbox`` the worker serves even if the sandbox is not sufficient
    (``is_confined``).

    ``sm_limits`` are a multiprocessor's limits: threads, blocks, bytes of shared memory, and the
    bytes of shared memory that each block needs in addition to its own. Only metrics depend on
    them.

    ``clock`` is one of ``hal.observe.modelled_report.CLOCKS``. With "modelled", timestamps are
    predicted times on ``board``. ``memory_share`` (part, whole) is the slice's share of the
    board's memory. ``facts`` names the node's topology.
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
    max_threads_per_block: int = limits.MAX_THREADS_PER_BLOCK
    multiprocessors: int = 1
    sm_limits: tuple[int, int, int, int] = (2048, 32, 228 << 10, 1 << 10)
    cgroup_procs: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None
    cache_dir: str | None = None
    kernel_timeout_s: float | None = None
    hot_kernel_ns: int = 2_000_000
    report_usage: bool = False
    clock: str = "wall"
    board: str = ""
    memory_share: tuple[int, int] = (1, 1)
    facts: GpuFacts = DEFAULT_FACTS
    sandbox: bool = True
    weak_sandbox: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as a dictionary for the spawn message."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "WorkerConfig":
        """Create a configuration from the output of ``to_json``.

        Raises:
            ValueError: a field is missing or unknown.
        """
        field_names = {field.name for field in fields(cls)}
        if set(document) - field_names:
            raise ValueError(f"unknown worker fields: {sorted(set(document) - field_names)}")
        values = dict(document)
        try:
            values["capability"] = tuple(values["capability"])
            values["sm_limits"] = tuple(values["sm_limits"])
            values["memory_share"] = tuple(values.get("memory_share", (1, 1)))
            values["cgroup_procs"] = tuple(values.get("cgroup_procs", ()))
            values["facts"] = GpuFacts.from_json(values.get("facts", {}))
            return cls(**values)
        except (KeyError, TypeError) as err:
            raise ValueError(f"invalid worker configuration: {err}") from err


def is_confined(mechanisms: Mapping[str, bool]) -> bool:
    """Return whether these sandbox mechanisms confine a worker that its tenant has taken over.

    Two conditions must hold. System calls must be filtered (seccomp). The file system must be
    out of reach: either through namespaces, or through Landlock if a container's seccomp profile
    or the system forbids namespaces.
    """
    return mechanisms.get("seccomp", False) and (
        mechanisms.get("namespaces", False) or mechanisms.get("landlock", False)
    )


NOT_CONFINED: Final = (
    "workers cannot be confined on this node: the kernel must filter system calls (seccomp) and"
    " have Landlock or allow user namespaces; gpud's --allow-weak-sandbox does without"
    " (the chart's gpud.allowWeakSandbox)"
)


def encode(message: dict[str, Any]) -> bytes:
    """Encode one message of the zygote's socket or of a worker's channel."""
    return json.dumps(message, separators=(",", ":")).encode()


def decode(data: bytes) -> dict[str, Any]:
    """Decode one message of the zygote's socket or of a worker's channel.

    Raises:
        ValueError: the data is not a JSON object with a ``type``.
    """
    message = json.loads(data)
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ValueError("a message must be a JSON object with a type")
    return message
