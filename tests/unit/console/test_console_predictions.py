"""The performance pages: bounded forms, the command line's predictions, and no long waits."""

import asyncio
import re
import threading
from typing import Any

import pytest

from benchmarks.console.synthetic import SyntheticCluster
from console.pages.frame import Busy, Frame
from console.views import performance
from support.rigs.console_rig import Answer, open_console
from vgpu_sim.perf.gemm.predict import predict

GEMM = "m=16&n=8192&k=8192&dtype=bf16&board=h200&board=b200"


MODEL = "model=llama-2-70b&tp=4&batch=16&in=1024&out=256&board=h100-80gb"


def fetch(path: str, query: str = "") -> Answer:
    async def body() -> Answer:
        async with open_console(SyntheticCluster()) as console:
            return await console.request(path, query=query)

    return asyncio.run(body())


def test_a_form_is_answered_with_the_predictions_of_each_board() -> None:
    text = fetch("/performance/gemm", GEMM).text
    for board in ("h200", "b200"):
        assert f"{predict(board, 'bf16', 16, 8192, 8192).us:.4g} us" in text
    assert "Roofline" in text
    assert "modelled" in text


@pytest.mark.parametrize("name", performance.OPERATIONS)
def test_every_operation_has_defaults_that_are_answered(name: str) -> None:
    operation = performance.OPERATIONS[name]
    values = performance.read_values(operation, {})
    answer = performance.answer(name, ("h100-80gb",), values)
    assert not answer.problem
    assert answer.figures


@pytest.mark.parametrize(
    ("path", "query", "what"),
    [
        ("gemm", "m=0", "m (tokens): 0 is not from 1 to 1048576"),
        ("gemm", "m=1048577", "m (tokens): 1048577 is not from"),
        ("gemm", "m=" + "9" * 60, "is not a whole number"),
        ("gemm", "m=-1", "is not a whole number"),
        ("gemm", "m=٣", "is not a whole number"),
        ("gemm", "dtype=<b>", "is not one of the choices"),
        ("gemm", "board=nope", "boards: nope is unknown"),
        (
            "gemm",
            "&".join(f"board={n}" for n in ("a30", "h200", "b200", "l40s", "gb200")),
            "at most 4",
        ),
        ("gemm", "m=1048576&n=262144&k=262144", "GB"),
        ("gemm", "dtype=nvfp4&board=a30", "nvfp4"),
        ("model", "model=gpt", "is not one of the choices"),
    ],
)
def test_a_question_outside_of_the_bounds_is_refused_by_name(
    path: str, query: str, what: str
) -> None:
    answer = fetch(f"/performance/{path}", query)
    assert answer.status == 422
    (problem,) = re.findall(r'role="alert"><bdi>(.*?)</bdi>', answer.text)
    assert what in problem
    assert '<svg class="drawing' not in answer.text


def test_an_unknown_operation_does_not_exist() -> None:
    assert fetch("/performance/nope").status == 404


def test_answers_are_kept_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    performance._answer.cache_clear()
    for _ in range(3):
        performance.answer("copy", ("h200",), {"direction": "d2d", "bytes": 4096})
    info = performance._answer.cache_info()
    assert (info.misses, info.hits) == (1, 2)
    assert info.maxsize is not None
    assert info.maxsize <= 128


def test_more_than_eight_requests_do_not_wait_and_others_are_not_delayed() -> None:
    gate = threading.Event()

    async def body() -> tuple[int, Any]:
        async with open_console(SyntheticCluster()) as console:
            frame: Frame = console.pages._frame
            waiting = [asyncio.create_task(frame.predict(gate.wait, 20)) for _ in range(8)]
            await asyncio.sleep(0.05)
            with pytest.raises(Busy):
                await frame.predict(int)
            refused = await console.request("/performance/gemm", query=GEMM)
            other = await frame.compute(lambda: "at once")
            gate.set()
            await asyncio.gather(*waiting)
            return refused.status, other

    assert asyncio.run(body()) == (503, "at once")


def test_the_phases_of_a_model_have_intervals() -> None:
    text = fetch("/performance/model", MODEL).text
    tables = re.findall(r"<caption[^>]*>Causes: (\w+)</caption>(.*?)</table>", text, re.DOTALL)
    assert [phase for phase, _ in tables] == ["prefill", "decode"]
    for _, table in tables:
        low, high, total = (
            float(one)
            for pattern in (
                r">90 % \(ms\)</td><td[^>]*>([\d.]+) to ([\d.]+)<",
                r">total \(ms\)</td><td[^>]*>([\d.]+)<",
            )
            for found in [re.search(pattern, table)]
            if found
            for one in found.groups()
        )
        assert low < total < high
    assert text.count('class="whisker"') == 2
