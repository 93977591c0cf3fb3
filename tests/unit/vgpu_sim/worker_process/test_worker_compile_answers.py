"""A compile helper's answers are validated: its children run LLVM on a tenant's program."""

import socket

import pytest

from vgpu_sim.hal.compute.ports import EmitError
from vgpu_sim.worker.compiling import server
from vgpu_sim.worker.compiling.compile_helper import CompileHelper


@pytest.mark.parametrize(
    "answer",
    [
        server.ANSWER.pack(2, server.Outcome.CODE, 0),
        server.ANSWER.pack(1, server.Outcome.CODE, 1 << 63),
    ],
    ids=["to no request", "without end"],
)
def test_an_answer_that_cannot_be_ends_what_waits_for_one(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs: list[tuple[socket.socket, socket.socket]] = []
    make = socket.socketpair

    def socketpair(*arguments: int, **options: int) -> tuple[socket.socket, socket.socket]:
        pairs.append(make(*arguments, **options))
        return pairs[-1]

    monkeypatch.setattr(socket, "socketpair", socketpair)
    helper = CompileHelper(lambda request: request, lambda: None)
    other = pairs[0][1].dup()  # the helper's end, which would be in another process
    helper.connect()
    with other:
        other.sendall(server.HELLO.pack(1))
        requested = helper.request_code(b"text")
        other.sendall(answer)
        with pytest.raises(EmitError, match="the compile helper has ended"):
            requested.result(timeout=10)
    helper.close()
