"""Properties of each board that the models use, with the source of every figure."""

from boards.record import Figure, Source
from vgpu_sim.perf.boards.board import Board
from vgpu_sim.perf.boards.tables import BOARDS, board_named, find_board

__all__ = ["BOARDS", "Board", "Figure", "Source", "board_named", "find_board"]
