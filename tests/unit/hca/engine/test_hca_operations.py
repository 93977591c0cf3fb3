"""The engine's predicates and packets agree with the table of operations, without exceptions."""

import re
import subprocess
from pathlib import Path

import pytest

from rdma.operations import Extra, Shape, VerbsOpcode
from rdma.packets import PACKETS, Packet, request_packets
from vgpu_sim.native import build, catalogue

HCA = catalogue.ENGINE
FOLDERS = (HCA, *(catalogue.RDMA_CLIENTS / one for one in ("libibverbs", "librdmacm", "provider")))
TRANSPORTS = 8
PROGRAM = r"""
#include <stdio.h>
#include "packets/packet.h"
#include "wire/policy.h"
#include "requests/work.h"
int main(void) {
  for (uint32_t one = 0; one < 70; one++)
    printf("%u %d%d%d%d%d%d%d%d %u\n", one, hca_is_send(one), hca_is_write(one), hca_is_read(one),
           hca_is_atomic(one), hca_is_atomic_write(one), hca_is_own(one), hca_has_immediate(one),
           hca_invalidates(one), hca_verbs_of(one));
  for (unsigned code = 0; code < 256; code++) {
    const struct wire_packet packet = {.form = wire_form_of((uint8_t)code)};
    if (packet.form.kind != WIRE_NOTHING)
      printf("%u %u %u %u\n", code, packet.form.kind, packet.form.parts, wire_opcode_of(&packet));
  }
#define CODES(name, ...) \
  printf(#name " %u %u %u %u\n", wire_code_of(TESSERA_VERBS_OPCODE_##name, true, true), \
         wire_code_of(TESSERA_VERBS_OPCODE_##name, true, false), \
         wire_code_of(TESSERA_VERBS_OPCODE_##name, false, false), \
         wire_code_of(TESSERA_VERBS_OPCODE_##name, false, true));
  TESSERA_OPERATIONS(CODES)
  return 0;
}
"""
SHAPES = (Shape.SEND, Shape.WRITE, Shape.READ, Shape.ATOMIC, Shape.ATOMIC_WRITE, Shape.OWN)


def predicates(number: int) -> str:
    operation = VerbsOpcode(number) if number in list(VerbsOpcode) else None
    if operation is None:
        return f"{number} 00000000 0"
    row = operation.row
    flags = [row.shape is shape for shape in SHAPES]
    flags += [row.extra is extra for extra in (Extra.IMMEDIATE, Extra.INVALIDATE)]
    return f"{number} {''.join(str(int(one)) for one in flags)} {row.verbs.value}"


def forms(packet: Packet) -> dict[int, str]:
    operation = packet.operation or VerbsOpcode(0)
    return {
        transport << 5 | packet.code: f"{packet.kind.value} {packet.parts.value} {operation.value}"
        for transport in range(TRANSPORTS)
        if packet.services.value >> transport & 1
    }


def codes(operation: VerbsOpcode) -> str:
    row = operation.row.codes
    own = (row.only, row.first, row.middle, row.last) if row else (None,) * 4
    return " ".join((operation.name, *(str(0xFF if code is None else code) for code in own)))


def test_predicates_packets_and_codes_of_c_are_the_tables(tmp_path: Path) -> None:
    source, program = tmp_path / "operations.c", tmp_path / "operations"
    source.write_text(PROGRAM)
    command = [build.compiler(), "-std=c11", "-O1", "-ffunction-sections", "-Wl,--gc-sections"]
    command += [f"-I{HCA}", f"-I{catalogue.INCLUDE}", f"-I{catalogue.COMMON}"]
    subprocess.run(
        [*command, str(source), str(HCA / "packets/packet.c"), "-o", str(program)], check=True
    )
    done = subprocess.run([str(program)], check=True, capture_output=True, text=True)
    of_packets = {code: form for packet in PACKETS for code, form in forms(packet).items()}
    assert done.stdout.splitlines() == [
        *map(predicates, range(70)),
        *(f"{code} {of_packets[code]}" for code in sorted(of_packets)),
        *map(codes, VerbsOpcode),
    ]
    assert sum(len(request_packets(one)) for one in VerbsOpcode) > 20


# Places where C names an operation directly, because the behaviour is specific to that operation.
_ALONE = {
    "engine/requests/memory.c": {"ATOMIC_FETCH_AND_ADD"},  # adds, where its neighbour compares
    "engine/connections/atomic.c": {
        "ATOMIC_FETCH_AND_ADD"
    },  # has one operand in the packet, not two
    "engine/requests/requester.c": {"BIND_MW"},  # binds, where its neighbour invalidates
    "clients/libibverbs/posting/post.c": {"BIND_MW"},
    "clients/libibverbs/posting/builder.c": {
        one.name for one in VerbsOpcode
    },  # the public calls, one each
}


def test_c_names_an_operation_only_where_no_other_is_like_it() -> None:
    found = {}
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*.[ch]")):
            named = re.findall(r"TESSERA_VERBS_OPCODE_(\w+)", path.read_text(encoding="utf-8"))
            if named:
                found[str(path.relative_to(catalogue.ENGINE.parent))] = set(named)
    assert found == _ALONE


@pytest.mark.parametrize(
    "name", ["requests/work.h", "packets/packet.h", "packets/packet.c", "requests/outcome.c"]
)
def test_lists_of_the_engine_have_no_rows_of_their_own(name: str) -> None:
    text = (HCA / name).read_text(encoding="ascii")
    own = {one.name for one in VerbsOpcode} - {"SEND", "BIND_MW"}
    assert not [word for word in re.findall(r"\w+", text) if word in own]
    assert not re.search(r"WIRE_(SEND|WRITE)_(FIRST|MIDDLE|LAST)", text)
