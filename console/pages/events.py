"""The time line of events and faults, and the page of one GPUFault."""

import datetime
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from console.model.event_log import EventRecord
from console.pages.frame import AGAIN_S, Frame
from console.views import faults, impact, links, needs, timeline

_LANES: Final = (("", "all"), *zip(timeline.LANES, ("faults", "warnings", "normal"), strict=True))
_PERIODS: Final = dict(
    zip(timeline.PERIODS, ("5 minutes", "15 minutes", "hour", "6 hours", "day"), strict=True)
)


class EventPages:
    """The handlers of these pages, and the events about one object for others."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def handlers(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        """Return the handlers by path."""
        return {
            "/events": self.show_events,
            "/faults": self.show_faults,
            "/faults/{name}": self.show_fault,
        }

    def entries(
        self, kind: str, name: str, namespace: str = "", uid: str = ""
    ) -> tuple[timeline.Entry, ...]:
        """Return the latest entries about one object."""
        world = self._frame.model.world()
        return timeline.entries_about(world, self._events(), kind, name, namespace, uid)

    async def show_events(self, request: Request) -> Response:
        """Show events and faults on one time line."""
        names = ("lane", "period", "since", "until", "text")
        chosen = {name: request.query_params.get(name, "") for name in names}
        model = self._frame.model
        moment = datetime.datetime.now(datetime.UTC)
        span = timeline.read_span(chosen["period"], chosen["since"], chosen["until"], moment)
        lane, text = chosen["lane"], chosen["text"]
        time_line = timeline.view_timeline(model.world(), self._events(), lane, text, span)
        values: dict[str, Any] = {"line": time_line, "chosen": chosen, "width": timeline.WIDTH}
        values |= {"lanes": _LANES, "periods": _PERIODS}
        is_grouped = not request.query_params.get("all")
        lines = timeline.group_entries(model.world(), time_line.entries) if is_grouped else ()
        values["lines"] = lines or tuple(map(timeline.Line, time_line.entries))
        values["again"] = AGAIN_S if chosen["period"] else 0  # entries leave the period by time
        unknown = self._frame.unknown_events(cluster_scoped=True)
        values["missing"] = {**self._frame.missing_of(needs.EVENTS), **unknown}
        live = "Event GPUFault GPUPool MIGLayout GPUPolicy Connection"
        return self._frame.page(request, "faults/events.html", "Events", live, **values)

    async def show_faults(self, request: Request) -> Response:
        """List the GPUFaults, the latest first."""
        world = self._frame.model.world()
        by_age = sorted(world.faults.values(), key=lambda fault: fault.meta.age_key, reverse=True)
        rows = [
            (fault.status.gpu or fault.spec.gpu_name or "", faults.find_fault(world, fault))
            for fault in by_age[: timeline.SHOWN]
        ]
        values: dict[str, Any] = {"rows": rows, "more": len(by_age) - len(rows)}
        values["missing"] = self._frame.missing_of(needs.FAULTS)
        live = "GPUFault GPU Connection"
        return self._frame.page(request, "faults/list.html", "GPUFaults", live, **values)

    async def show_fault(self, request: Request) -> Response:
        """Show one GPUFault: what it requests, its state and how it ends."""
        name, model = request.path_params["name"], self._frame.model
        world = model.world()
        fault = world.faults.get(name)
        if fault is None:
            return self._frame.not_found(
                request, f"GPUFault {name}", needs.FAULTS, "GPUFault", name
            )
        gpu = fault.status.gpu or fault.spec.gpu_name or ""
        fault_view, gpu_object = faults.find_fault(world, fault), world.gpus.get(gpu)
        changes: tuple[timeline.Entry, ...] = ()
        if gpu_object is not None:
            changes = timeline.health_changes(self._events(), gpu_object, fault.meta.created)
        values: dict[str, Any] = {
            "changes": changes,
            "hit": tuple({(e.namespace, e.name): e for e in changes if e.kind == "Pod"}),
            "healthy_since": faults.healthy_since(gpu_object, fault.meta.created)
            if gpu_object
            else "",
            "first_step": impact.REMEDIES.get(fault.spec.xid or 0, ""),
        }
        if gpu_object is not None and fault_view.is_behind:
            holders = impact.holders_of(gpu_object, fault_view.slice)
            remedies = impact.remedies_of(gpu_object, fault_view.slice)
        else:
            gpu_object, holders, remedies = None, (), ()
        values |= {
            "fault": fault,
            "found": fault_view,
            "sick_gpu": gpu_object,
            "affected": holders,
            "remedies": remedies,
            "manifest": faults.write_manifest(fault),
            "gpu": gpu,
            "gpu_page": links.find_page(model, "GPU", gpu).href,
            "events": self.entries(faults.KIND, name, uid=fault.meta.uid),
            "missing": self._frame.missing_of(needs.GPU),
        }
        live = "GPUFault GPU Event Connection"
        return self._frame.page(request, "faults/fault.html", f"GPUFault {name}", live, **values)

    def _events(self) -> Iterator[EventRecord]:
        model = self._frame.model
        return timeline.relevant_events(model.world(), model.events.all(), model.pods)
