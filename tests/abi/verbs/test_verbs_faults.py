"""If a verb's second step fails, the first is undone: in hcad, its quotas, and the program."""

import asyncio
import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hca.contract import hca
from support.programs.faulty_program import FaultyProgram, compile_faulty_program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_faulty_program(tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module", params=[(), ("fork",)], ids=["usual", "fork-safe"])
def faulty(request, engine, program) -> Iterator[tuple[asyncio.Runner, FaultyProgram]]:
    with asyncio.Runner() as runner:
        running = FaultyProgram(engine)
        try:
            runner.run(running.start(program, *request.param))
            yield runner, running
        finally:
            runner.run(running.close())


KINDS = (
    *("device", "domain", "channel", "completions", "extended_completions", "more_completions"),
    *("pair", "shared_receives", "window", "address", "region", "pieces", "aperture"),
    *("all_memory", "part_of_all", "moved_region", "connection", "events", "id", "pair_of_id"),
    "extended_pair_of_id",
)


@pytest.mark.parametrize("kind", KINDS)
def test_wherever_a_verb_fails_nothing_is_left_of_it_and_the_next_one_works(faulty, kind):
    runner, program = faulty
    before, idle = program.footprint(), runner.run(program.drop("nothing"))
    places = 0
    while (answer := runner.run(program.make(kind, places))).failed:
        if answer.error == 0:  # a release failed: the program tries again
            answer = replace(runner.run(program.drop(kind)), error=errno.ENOMEM, failed=True)
        assert answer == replace(idle, error=errno.ENOMEM, failed=True), f"call {places}"
        assert program.footprint() == before, f"call {places}"
        places += 1
    assert places, "no call can fail"
    assert (answer.error, answer.works) == (0, True)
    assert (program.footprint() == before) is (kind == "moved_region")
    assert runner.run(program.drop(kind)) == idle
    assert program.footprint() == before


@pytest.mark.parametrize("kind", ["region", "pieces", "aperture", "part_of_all", "moved_region"])
def test_memory_that_a_program_may_not_register_any_more_is_not_called_missing(
    engine, program, kind
):
    """A program may register as much memory as at its start, and not a page more."""
    with asyncio.Runner() as runner:
        full = FaultyProgram(engine, memory_bytes=2 * hca.HCA_PAGE_BYTES)
        try:
            runner.run(full.start(program))
            before, idle = full.footprint(), runner.run(full.drop("nothing"))
            assert runner.run(full.make(kind)) == replace(idle, error=errno.ENOMEM)
            assert full.footprint() == before
        finally:
            runner.run(full.close())
