"""Idle programs cost the engine nothing, however many there are."""

import os

from hca.binding.engine import Engine
from hca.contract.verbs import VerbsOpcode as Op
from hca.daemon.common.numbers import Numbers
from support.rigs.hca_rig import BASE, Client, Pair, until

IDLE = 1000
RING_COST = 3 * 4096 + 4 * 256
"""Maximum cost of a ring: two system calls and a visit by each walk; a third call for an event."""


def write(pair: Pair, count: int) -> None:
    """Write 8 bytes, one at a time."""
    for _ in range(count):
        pair.qa.send(
            *(Op.RDMA_WRITE, [(BASE, 8, pair.here.key)]),
            remote_address=BASE,
            remote_key=pair.there.key,
        )
        assert pair.a_send.poll().status == 0


def work_of(fresh_engine: Engine, gid: bytes) -> tuple[int, ...]:
    counts = fresh_engine.work_of(gid)
    return counts.turns, counts.cost, counts.steps, counts.looks


def test_a_thousand_idle_programs_of_a_neighbour_add_no_work(fresh_engine):
    pair = Pair(fresh_engine)
    idle = [Client(fresh_engine, pair.numbers, 20) for _ in range(IDLE)]
    write(pair, 1)
    fresh_engine.restart_work()
    write(pair, 16)
    assert work_of(fresh_engine, idle[0].gid) == (0, 0, 0, 0)
    assert fresh_engine.work_of(pair.a.gid).looks > 0
    for client in idle:
        client.objects.close()
    pair.close()


def test_idle_programs_of_the_same_function_add_no_work(fresh_engine):
    """Reading the idle programs' pages even once would cost more than all the work done here."""
    pair = Pair(fresh_engine)
    idle = [Client(fresh_engine, pair.numbers, 0) for _ in range(100)]
    write(pair, 1)
    fresh_engine.restart_work()
    write(pair, 4)
    counts = fresh_engine.work_of(pair.a.gid)
    assert counts.cost <= 4 * (RING_COST + 512 + 2 * 1024 + 256 + 8)
    assert counts.steps <= 4
    for client in idle:
        client.objects.close()
    pair.close()


def test_few_programs_are_polled_and_all_are_served(fresh_engine):
    numbers = Numbers()
    programs = [Client(fresh_engine, numbers, 20) for _ in range(40)]
    assert all(program.page.sleeping for program in programs)
    fresh_engine.suspend()
    for program in programs:
        program.page.dirty[0] = 1
        os.write(program.objects.doorbell_fd, b"x")
    fresh_engine.resume()
    most = 0

    def all_received() -> bool:
        nonlocal most
        most = max(most, sum(not program.page.sleeping for program in programs))
        return not any(program.page.dirty[0] for program in programs)

    assert until(all_received)
    assert most <= 16
    assert until(lambda: all(program.page.sleeping for program in programs))
    for program in programs:
        program.objects.close()


def test_a_removed_program_is_not_polled(fresh_engine):
    """Its bell may have rung before, and its function may have been removed with it."""
    numbers = Numbers()
    for place in range(100):
        programs = [Client(fresh_engine, numbers, 20 + place % 3) for _ in range(2)]
        for program in programs:
            program.page.dirty[0] = program.page.armed = 1
            os.write(program.objects.doorbell_fd, b"x")
        for program in programs:
            program.objects.close()
    pair = Pair(fresh_engine)
    write(pair, 1)
    pair.close()
