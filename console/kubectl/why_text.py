"""``why``: the chain of the page *Why* as text, a table or a document."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import click

from console.kubectl import output
from console.model.cluster import Missing
from console.model.pods import PodRecord
from console.views.waiting import why
from console.views.waiting.advice import advise
from console.views.waiting.claims import ClaimFinding
from console.views.waiting.why import Explanation, RequestFinding
from drawing import terminal


def write_pending(pods: Sequence[PodRecord], form: str, missing: Missing, scope: str) -> None:
    """Print the pods of a namespace that wait for devices; of all if ``scope`` is empty."""
    if form in ("json", "yaml"):
        output.write_document(
            {"pods": [_pod(one) for one in pods], "notReadable": dict(missing)}, form
        )
        return
    if not pods and missing:
        kinds = ", ".join(sorted(missing))
        click.echo(f"Whether pods wait is not known: {kinds} cannot be read.", err=True)
        return
    if not pods:
        where = output.describe_scope(scope)
        click.echo(
            f"No pod {where} requests a slice, a GPU or an HCA and waits for a node.", err=True
        )
        return
    head = ["NAMESPACE", "NAME", "REQUESTS", "SINCE"] + ["SCHEDULER"] * (form == "wide")
    rows = (
        [one.namespace, one.name, ",".join(_requests(one)), one.created]
        + [one.scheduler] * (form == "wide")
        for one in pods
    )
    output.write_table(head, rows)


def write_explanation(found: Explanation, form: str) -> None:
    """Print why a pod waits."""
    if form in ("json", "yaml"):
        output.write_document(_document(found), form)
    else:
        output.write_lines(_lines(found, None if form == "wide" else why.SHOWN))


def _lines(found: Explanation, most: int | None) -> Iterator[terminal.Line]:
    pod = found.pod
    yield (terminal.Span(f"Why {pod.key} waits", bold=True),)
    if pod.node:
        yield f"It has the node {pod.node}, so devices are not what it waits for."
        yield f"The kubelet reports: {pod.problem or 'no problem yet'}"
        return
    yield "It requests"
    yield from (f"  {one}" for one in _requests(pod))
    yield from (f"  a node with the label {k}={v}" for k, v in pod.node_selector)
    if pod.has_affinity:
        yield "  affinity rules, which are not evaluated here: see the scheduler's message"
    for gate in pod.gates:
        yield f"  scheduling gate {gate}: until its removal the scheduler ignores the pod"
    yield "The scheduler reports"
    yield f"  {pod.scheduler or 'nothing yet'}"
    for request in found.requests:
        yield from _request_lines(request, most)
    if found.bare_nodes:
        yield why.describe_bare(found.bare_nodes)
    yield from found.misnamed
    if found.foreign:
        policy = "perhaps slices with another prefix" if found.missing else "no slice, GPU or HCA"
        yield f"Not evaluated: {', '.join(found.foreign)}: {policy}"
    if found.left_out:
        yield f"Left out: {', '.join(found.left_out)}: only {why.MOST} resources are explained"
    for claim in found.claims:
        yield f"Claim {claim.name}"
        yield f"  {_verdict(claim)}"
    for kind, problem in found.missing.items():
        yield f"Not complete: {kind} cannot be read: {problem}"


def _request_lines(request: RequestFinding, most: int | None) -> Iterator[terminal.Line]:
    yield f"Nodes for {request.resource}"
    if not request.nodes:
        yield "  The cluster has no node with GPUs or HCAs."
    for obstacle, number in request.counts:
        yield f"  {number:>5} {obstacle}"
    for one in request.nodes[:most]:
        detail = f": {one.detail}" if one.detail else ""
        yield f"    {one.name}  {one.room} free  {one.obstacle}{detail}"
    if most is not None and len(request.nodes) > most:
        yield f"    and {len(request.nodes) - most} more: -o wide has all"
    for name, message in request.layouts:
        yield f"  layout {name} would create it and is not Ready: {message}"
    advice = advise(request)
    if advice is None:
        return
    yield advice.title
    if advice.text:
        yield f"  {advice.text}"
    for move in advice.moves:
        yield f"    {move.gpu}{' (pods end)' if move.evicts else ''}"
        yield from (f"      {line}" for line in move.lines)
    if advice.note:
        yield f"  {advice.note}"
    yield from (f"  - {one}" for one in advice.steps)


def _verdict(claim: ClaimFinding) -> str:
    return f"{claim.verdict.reason}: {claim.text}" if claim.verdict else claim.text


def _requests(pod: PodRecord) -> list[str]:
    claims = (*(pod.waiting.claims if pod.waiting else ()), *pod.unmade_claims)
    return [f"{n} x {resource}" for resource, n in pod.requests] + [f"claim {c}" for c in claims]


def _pod(pod: PodRecord) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "since": pod.created,
        "requests": dict(pod.requests),
        "claims": list(pod.waiting.claims) if pod.waiting else [],
        "scheduler": pod.scheduler,
    }


def _document(found: Explanation) -> dict[str, Any]:
    return {
        "pod": _pod(found.pod),
        "requests": [_request_document(one) for one in found.requests],
        "otherNodes": list(found.bare_nodes),
        "misnamed": list(found.misnamed),
        "notEvaluated": list(found.foreign + found.left_out),
        "notReadable": dict(found.missing),
        "claims": [
            {
                "name": one.name,
                "reason": one.verdict.reason if one.verdict else None,
                "message": one.text,
            }
            for one in found.claims
        ],
    }


def _request_document(request: RequestFinding) -> dict[str, Any]:
    advice = advise(request)
    return {
        "resource": request.resource,
        "number": request.number,
        "obstacles": {str(obstacle): number for obstacle, number in request.counts},
        "nodes": [
            dataclasses.asdict(one) | {"obstacle": str(one.obstacle)} for one in request.nodes
        ],
        "layouts": [{"name": name, "message": message} for name, message in request.layouts],
        "advice": None
        if advice is None
        else {
            "text": advice.text,
            "steps": list(advice.steps),
            "moves": [
                {"gpu": one.gpu, "evicts": one.evicts, "steps": list(one.lines)}
                for one in advice.moves
            ],
        },
    }
