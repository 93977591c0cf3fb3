"""Events: flags, states and the time between two."""

from benchmarks.silicon.driver.answers import Out
from benchmarks.silicon.driver.context import Rig
from benchmarks.silicon.driver.sequences.registry import Table

TABLE = Table("events")


@TABLE.each((*range(18), 32, 1 << 31))
def create(rig: Rig, flags: int) -> None:
    api, out = rig.api, Out()
    if api("cuEventCreate", out, flags):
        return
    api("cuEventQuery", out.value)
    api("cuEventSynchronize", out.value)
    api("cuEventRecord", out.value, 0)
    api("cuEventSynchronize", out.value)
    api("cuEventQuery", out.value)
    api("cuIpcGetEventHandle", (b"\0" * 64), out.value)
    api("cuEventDestroy_v2", out.value)


@TABLE.each(
    [
        (first, second, mode)
        for first in (0, 1, 2)
        for second in (0, 1, 2)
        for mode in ("neither", "first", "second", "both")
    ]
)
def elapsed_time(rig: Rig, first: int, second: int, mode: str) -> None:
    api = rig.api
    a, b = api.make("cuEventCreate", first), api.make("cuEventCreate", second)
    if mode in ("first", "both"):
        api("cuEventRecord", a, 0)
    if mode in ("second", "both"):
        api("cuEventRecord", b, 0)
    api("cuCtxSynchronize")
    for name in ("cuEventElapsedTime", "cuEventElapsedTime_v2"):
        api(name, Out("-"), a, b)
        api(name, Out("-"), b, a)
        api(name, Out("f32"), a, a)
    api("cuEventElapsedTime", 0, a, b)
    api("cuEventElapsedTime", Out("-"), 0, b)
    api("cuEventElapsedTime", Out("-"), a, 0)


@TABLE.once
def null(rig: Rig) -> None:
    for name, arguments in (
        ("cuEventQuery", (0,)),
        ("cuEventSynchronize", (0,)),
        ("cuEventDestroy_v2", (0,)),
        ("cuEventRecord", (0, 0)),
        ("cuEventCreate", (0, 0)),
        ("cuIpcGetEventHandle", (0, 0)),
    ):
        rig.api(name, *arguments)


@TABLE.each(("cuEventQuery", "cuEventSynchronize", "cuEventDestroy_v2", "cuEventRecord"))
def use_destroyed(rig: Rig, name: str) -> None:
    event = rig.api.make("cuEventCreate", 0)
    rig.api("cuEventDestroy_v2", event)
    rig.api(name, event, 0)


@TABLE.once
def of_another_context(rig: Rig) -> None:
    api = rig.api
    stream, event = api.make("cuStreamCreate", 0), api.make("cuEventCreate", 0)
    other_context = api.make("cuCtxCreate_v2", 0, 0)
    own = api.make("cuEventCreate", 0)
    theirs = api.make("cuStreamCreate", 0)
    api("cuEventRecord", event, theirs)
    api("cuEventRecord", own, theirs)
    api("cuEventRecord", own, stream)
    api("cuEventRecord", event, stream)
    api("cuStreamWaitEvent", theirs, event, 0)
    api("cuCtxSynchronize")
    api("cuEventSynchronize", event)
    api("cuEventElapsedTime", Out("-"), event, own)
    api("cuEventQuery", event)
    api("cuStreamQuery", stream)
    api("cuCtxDestroy_v2", other_context)
    api("cuEventElapsedTime", Out("-"), event, event)
