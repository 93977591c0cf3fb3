"""The boards that the models use, made from the board records. Every figure has its source."""

from collections.abc import Mapping
from typing import Final

from boards import RECORDS
from boards.record import ARCHITECTURES, BoardRecord, Figure, Source
from boards.record.architectures import KIB
from boards.record.figures import Bare
from boards.record.names import UnknownNameError, describe_unknown, resolve
from vgpu_sim.perf.boards.board import Board
from vgpu_sim.perf.errors import UnknownBoard

_GUIDE: Final = "CUDA C++ Programming Guide, Technical Specifications per Compute Capability"


def board_of(record: BoardRecord) -> Board:
    """Convert a board record to a board. A plain number in the record becomes a figure whose source
    is the data sheet.
    """

    def figure(bare: Bare) -> Figure:
        if isinstance(bare, Figure):
            return bare
        return Figure(bare, Source.DATA_SHEET, record.data_sheet)

    performance = record.performance
    shared_kb = ARCHITECTURES[record.compute_capability].shared_bytes // KIB
    return Board(
        name=record.key,
        product=record.product_name,
        architecture=record.architecture,
        compute_capability=record.compute_capability,
        sms=figure(record.sms),
        boost_ghz=figure(performance.boost_ghz),
        l2_mb=figure(record.l2_mb),
        shared_kb_per_sm=Figure(shared_kb, Source.GUIDE, _GUIDE),
        dram_gb_per_s=figure(performance.dram_gb_per_s),
        dram_gb=figure(performance.dram_gb),
        power_w=figure(record.power_w),
        link_gb_per_s=figure(performance.link_gb_per_s),
        pcie_gb_per_s=figure(performance.pcie_gb_per_s),
        vector_tflops=figure(performance.vector_tflops),
        tensor_tflops={dtype: figure(rate) for dtype, rate in performance.tensor_tflops.items()},
    )


BOARDS: Final[Mapping[str, Board]] = {key: board_of(record) for key, record in RECORDS.items()}


def board_named(name: str) -> Board:
    """Return the board with this name. Raises UnknownBoard, which suggests names."""
    try:
        return BOARDS[name]
    except KeyError:
        raise UnknownBoard(describe_unknown("board", name, BOARDS)) from None


def find_board(name: str) -> Board:
    """Return the board that a user means by ``name``, such as ``B200`` or ``rtx-pro``. Raises
    UnknownBoard.
    """
    try:
        return BOARDS[resolve("board", name, BOARDS)]
    except UnknownNameError as err:
        raise UnknownBoard(str(err)) from None
