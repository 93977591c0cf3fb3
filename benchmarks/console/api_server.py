"""An API server that only lists and watches: it serves a synthetic cluster to `tessera ui`.

``python -m benchmarks.console.api_server PORT NODES [--alike] [--hostile]``. ``POST /touch`` gives
a free slice to a pod, so that the time until a viewer sees the change can be measured. ``POST
/delete?kind=GPU&key=NAME`` removes an object. Pods answer with metrics.
"""

import argparse
import asyncio
import contextlib
import copy
import itertools
import json
import time
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from benchmarks.console import hostile, scenes, synthetic
from gpu_operator import kinds
from gpu_operator.kube.port import Chosen


def make_app(cluster: synthetic.SyntheticCluster) -> Starlette:
    """Return an application that serves the paths of all kinds of the operator."""
    numbers = itertools.count()

    def routes(kind: kinds.Kind) -> list[Route]:
        async def answer(request: Request) -> Response:
            query = request.query_params
            if query.get("watch"):
                return StreamingResponse(
                    follow(kind.name, float(query.get("timeoutSeconds", "60"))),
                    media_type="application/json",
                )
            chosen = Chosen(
                request.path_params.get("namespace", ""),
                labels=query.get("labelSelector", ""),
                fields=query.get("fieldSelector", ""),
            )
            page = await cluster.page(kind.name, chosen, query.get("continue", ""))
            return JSONResponse(page)

        prefix = f"/apis/{kind.group}" if kind.group else "/api"
        paths = [f"/{kind.plural}"]
        if kind.namespaced:
            paths.append(f"/namespaces/{{namespace}}/{kind.plural}")
        return [Route(f"{prefix}/{kind.version}{path}", answer) for path in paths]

    async def follow(kind: str, within_s: float) -> AsyncIterator[bytes]:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                async for event in cluster.watch(kind, Chosen(), ""):
                    yield json.dumps(event).encode() + b"\n"

    async def touch(request: Request) -> Response:
        del request
        gpus = list(cluster.objects["GPU"].values())
        number = next(numbers)
        gpu = copy.deepcopy(gpus[number * 8 % len(gpus)])
        pod = {"namespace": "touched", "name": f"pod-{number}", "uid": f"uid-{number}"}
        gpu["status"]["slices"][-1]["holders"] = [pod]
        cluster.put("GPU", gpu)
        return JSONResponse({"node": gpu["spec"]["nodeName"]})

    async def delete(request: Request) -> Response:
        cluster.remove(request.query_params["kind"], request.query_params["key"])
        return Response()

    began = time.monotonic()

    async def read_pod(request: Request) -> Response:
        pod = request.path_params["pod"].partition(":")[0]
        if pod in scenes.EXPORTERS:
            return PlainTextResponse(scenes.read_exporter(cluster, pod, time.monotonic() - began))
        return PlainTextResponse(scenes.metrics_of(pod, 100 + time.monotonic() - began))

    fixed_routes = [
        Route("/touch", touch, methods=["POST"]),
        Route("/delete", delete, methods=["POST"]),
        Route("/api/v1/namespaces/{namespace}/pods/{pod}/proxy/metrics", read_pod),
    ]
    lists = (route for kind in kinds.KINDS for route in routes(kind))
    return Starlette(routes=[*lists, *fixed_routes])


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("nodes", type=int)
    parser.add_argument("--alike", action="store_true")
    parser.add_argument("--hostile", action="store_true")
    options = parser.parse_args()
    cluster = synthetic.SyntheticCluster()
    synthetic.fill(cluster, options.nodes, alike=options.alike)
    if not options.alike:
        scenes.add_rollout(cluster)
        scenes.add_fault(cluster)
        scenes.add_inference(cluster)
        scenes.add_exporter(cluster)
        scenes.add_verdicts(cluster)
        scenes.lose_gpu(cluster)
    scenes.add_holders(cluster)
    if options.hostile:
        cluster = hostile.make_hostile(cluster)
    uvicorn.run(make_app(cluster), port=options.port, log_level="error", access_log=False)


if __name__ == "__main__":
    main()
