"""Boards as data: what the models know of each, with the source of every figure."""

from vgpu_sim.perf.boards.board import Board, Figure, Source
from vgpu_sim.perf.boards.tables import BOARDS, board_named

__all__ = ["BOARDS", "Board", "Figure", "Source", "board_named"]
