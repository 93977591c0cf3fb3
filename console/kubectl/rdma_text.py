"""``rdma matrix``: pods by pods with the verbs that pass, as a table or a document."""

from typing import Any

import click

from console.kubectl import output
from console.views.reach import LEGEND, Cell, Matrix
from facts.wording import count_of


def write_matrix(matrix: Matrix, form: str, scope: str) -> None:
    """Print a matrix of the pods of a namespace; rows send, columns receive."""
    if form in ("json", "yaml"):
        output.write_document(_document(matrix), form)
        return
    if not matrix.pods:
        click.echo(f"No pod {output.describe_scope(scope)} holds an HCA.", err=True)
        return
    names = [f"{pod.namespace}/{pod.name}" for pod in matrix.pods]
    head = ["", "FROM \\ TO", *map(str, range(1, len(names) + 1))]
    rows = (
        [str(number), name, *map(_text, cells)]
        for number, (name, cells) in enumerate(zip(names, matrix.cells, strict=True), 1)
    )
    output.write_table(head, rows)
    letters = "  ".join(f"{letter} {name}" for letter, name in LEGEND)
    output.write_lines([f"all every verb  - none  ! not evaluated  {letters}"])
    for name, cells in zip(names, matrix.cells, strict=True):
        for receiver, cell in zip(names, cells, strict=True):
            if cell.problem:
                output.write_lines([f"! {name} to {receiver}: {cell.problem}"])
    if matrix.more:
        hidden_pods = count_of(matrix.more, "pod is", "pods are")
        click.echo(f"{hidden_pods} not shown: --first N begins at another pod", err=True)


def _text(cell: Cell) -> str:
    return {"all": "all", "none": "-", "odd": "!"}.get(cell.kind, cell.letters)


def _document(matrix: Matrix) -> dict[str, Any]:
    names = [f"{pod.namespace}/{pod.name}" for pod in matrix.pods]
    return {
        "pods": names,
        "notShown": matrix.more,
        "cells": [
            {"from": a, "to": b, "verbs": cell.letters, "description": cell.label}
            for a, row in zip(names, matrix.cells, strict=True)
            for b, cell in zip(names, row, strict=True)
        ],
    }
