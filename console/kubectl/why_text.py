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
            {"pods": [_pod(pod) for pod in pods], "notReadable": dict(missing)}, form
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
        [pod.namespace, pod.name, ",".join(_requests(pod)), pod.created]
        + [pod.scheduler] * (form == "wide")
        for pod in pods
    )
    output.write_table(head, rows)


def write_explanation(explanation: Explanation, form: str) -> None:
    """Print why a pod waits."""
    if form in ("json", "yaml"):
        output.write_document(_document(explanation), form)
    else:
        output.write_lines(_lines(explanation, None if form == "wide" else why.SHOWN))


def _lines(explanation: Explanation, shown_limit: int | None) -> Iterator[terminal.Line]:
    pod = explanation.pod
    yield (terminal.Span(f"Why {pod.key} waits", bold=True),)
    if pod.node:
        yield f"It has the node {pod.node}, so devices are not what it waits for."
        yield f"The kubelet reports: {pod.problem or 'no problem yet'}"
        return
    yield "It requests"
    yield from (f"  {request_text}" for request_text in _requests(pod))
    yield from (f"  a node with the label {k}={v}" for k, v in pod.node_selector)
    if pod.has_affinity:
        yield "  affinity rules, which are not evaluated here: see the scheduler's message"
    for gate in pod.gates:
        yield f"  scheduling gate {gate}: until its removal the scheduler ignores the pod"
    yield "The scheduler reports"
    yield f"  {pod.scheduler or 'nothing yet'}"
    for request in explanation.requests:
        yield from _request_lines(request, shown_limit)
    if explanation.bare_nodes:
        yield why.describe_bare(explanation.bare_nodes)
    yield from explanation.misnamed
    if explanation.foreign:
        policy = (
            "perhaps slices with another prefix" if explanation.missing else "no slice, GPU or HCA"
        )
        yield f"Not evaluated: {', '.join(explanation.foreign)}: {policy}"
    if explanation.left_out:
        names = ", ".join(explanation.left_out)
        yield f"Left out: {names}: only {why.MOST} resources are explained"
    for claim in explanation.claims:
        yield f"Claim {claim.name}"
        yield f"  {_verdict(claim)}"
    for kind, problem in explanation.missing.items():
        yield f"Not complete: {kind} cannot be read: {problem}"


def _request_lines(request: RequestFinding, shown_limit: int | None) -> Iterator[terminal.Line]:
    yield f"Nodes for {request.resource}"
    if not request.nodes:
        yield "  The cluster has no node with GPUs or HCAs."
    for obstacle, number in request.counts:
        yield f"  {number:>5} {obstacle}"
    for finding in request.nodes[:shown_limit]:
        detail = f": {finding.detail}" if finding.detail else ""
        yield f"    {finding.name}  {finding.room} free  {finding.obstacle}{detail}"
    if shown_limit is not None and len(request.nodes) > shown_limit:
        yield f"    and {len(request.nodes) - shown_limit} more: -o wide has all"
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
    yield from (f"  - {step}" for step in advice.steps)


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


def _document(explanation: Explanation) -> dict[str, Any]:
    return {
        "pod": _pod(explanation.pod),
        "requests": [_request_document(request) for request in explanation.requests],
        "otherNodes": list(explanation.bare_nodes),
        "misnamed": list(explanation.misnamed),
        "notEvaluated": list(explanation.foreign + explanation.left_out),
        "notReadable": dict(explanation.missing),
        "claims": [
            {
                "name": claim.name,
                "reason": claim.verdict.reason if claim.verdict else None,
                "message": claim.text,
            }
            for claim in explanation.claims
        ],
    }


def _request_document(request: RequestFinding) -> dict[str, Any]:
    advice = advise(request)
    return {
        "resource": request.resource,
        "number": request.number,
        "obstacles": {str(obstacle): number for obstacle, number in request.counts},
        "nodes": [
            dataclasses.asdict(finding) | {"obstacle": str(finding.obstacle)}
            for finding in request.nodes
        ],
        "layouts": [{"name": name, "message": message} for name, message in request.layouts],
        "advice": None
        if advice is None
        else {
            "text": advice.text,
            "steps": list(advice.steps),
            "moves": [
                {"gpu": move.gpu, "evicts": move.evicts, "steps": list(move.lines)}
                for move in advice.moves
            ],
        },
    }
