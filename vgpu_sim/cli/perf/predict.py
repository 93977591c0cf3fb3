"""``tessera perf predict``: one operation's time as a stack of causes."""

from typing import Any

import click

from vgpu_sim.cli import topologies
from vgpu_sim.cli.groups import VerbGroup
from vgpu_sim.cli.perf.answers import print_prediction, with_json
from vgpu_sim.cli.perf.group import (
    SIZE,
    board_option,
    bytes_option,
    make_completer,
    to_board_names,
)
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.collective.model import OPS
from vgpu_sim.perf.dtypes import DTYPES
from vgpu_sim.perf.moe.predict import DTYPES as MIXTURES
from vgpu_sim.perf.prediction import Prediction

_WINDOW = click.IntRange(min=0, max=SIZE.max)


@click.group(
    cls=VerbGroup,
    help="Predict one operation: its time, the causes that add up to it, and an interval.",
)
def predict() -> None:
    """Define the group of the commands that predict one operation each."""


@predict.command(help="C[m, n] = A[m, k] B[k, n], with a library's best kernel.")
@board_option
@click.option("--dtype", default="bf16", show_default=True, type=click.Choice(list(DTYPES)))
@click.option("-m", "m", type=SIZE, required=True, help="Rows of A: tokens.")
@click.option("-n", "n", type=SIZE, required=True, help="Columns of B: features.")
@click.option(
    "-k",
    "k",
    type=SIZE,
    required=True,
    help="Columns of A and rows of B, the dimension of the sum.",
)
@with_json
def gemm(board: str, dtype: str, m: int, n: int, k: int, as_json: bool) -> None:
    """Predict the time of a matrix product."""
    from vgpu_sim.perf.gemm.predict import predict as ask

    title = f"C[{m}, {n}] = A[{m}, {k}] B[{k}, {n}]"
    print_prediction(board, lambda name: ask(name, dtype, m, n, k), title, as_json)


@predict.command(help="Causal attention in bf16, including the write of the KV cache.")
@board_option
@click.option("--batch", type=SIZE, default=1, show_default=True, help="Sequences.")
@click.option(
    "--query", type=SIZE, help="New tokens of each sequence: 1, or (default) the context."
)
@click.option("--context", type=SIZE, required=True, help="Tokens that each new token attends to.")
@click.option("--heads", type=SIZE, required=True, help="Query heads.")
@click.option("--kv-heads", type=SIZE, help="Key and value heads; default: as many as query heads.")
@click.option("--head-dim", type=SIZE, default=128, show_default=True)
@click.option("--window", type=_WINDOW, default=0, help="Sliding window in tokens; 0: unlimited.")
@with_json
def attention(
    board: str,
    batch: int,
    query: int | None,
    context: int,
    heads: int,
    kv_heads: int | None,
    head_dim: int,
    window: int,
    as_json: bool,
) -> None:
    """Predict attention for prompts or for single tokens."""
    from vgpu_sim.perf.attention.predict import predict as ask

    new, keys = query or context, kv_heads or heads
    title = f"attention of {batch} x {new} tokens on {context}, {heads} heads ({keys} of keys)"
    print_prediction(
        board,
        lambda name: ask(
            name,
            batch=batch,
            query=new,
            context=context,
            heads=heads,
            kv_heads=keys,
            head_dim=head_dim,
            window=window,
        ),
        title,
        as_json,
    )


@predict.command(help="DeepSeek's latent attention in bf16, without the matrix products around it.")
@board_option
@click.option("--batch", type=SIZE, default=1, show_default=True, help="Sequences.")
@click.option(
    "--query", type=SIZE, help="New tokens of each sequence: 1, or (default) the context."
)
@click.option("--context", type=SIZE, required=True, help="Tokens that each new token attends to.")
@click.option(
    "--heads", type=SIZE, default=128, show_default=True, help="Query heads of this rank."
)
@with_json
def mla(board: str, batch: int, query: int | None, context: int, heads: int, as_json: bool) -> None:
    """Predict multi-head latent attention."""
    from vgpu_sim.perf.attention.latent import predict as ask

    new = query or context
    title = f"latent attention of {batch} x {new} tokens on {context}, {heads} heads"
    print_prediction(
        board,
        lambda name: ask(name, batch=batch, query=new, context=context, heads=heads),
        title,
        as_json,
    )


@predict.command(help="A mixture of experts: the busiest rank, without communication.")
@board_option
@click.option("--dtype", default="bf16", show_default=True, type=click.Choice(MIXTURES))
@click.option("--tokens", type=SIZE, required=True)
@click.option("--hidden", type=SIZE, required=True, help="Width of the model.")
@click.option("--inner", type=SIZE, required=True, help="Width of an expert on this rank.")
@click.option("--experts", type=SIZE, required=True, help="Experts of all ranks together.")
@click.option("--topk", type=SIZE, required=True, help="Experts for each token.")
@click.option(
    "--ep",
    "ranks",
    type=SIZE,
    default=1,
    show_default=True,
    help="Ranks among which experts are divided.",
)
@click.option(
    "--load",
    default="power_law_1.01",
    show_default=True,
    help="Distribution of tokens over experts: a power law, or balanced.",
)
@with_json
def moe(
    board: str,
    dtype: str,
    tokens: int,
    hidden: int,
    inner: int,
    experts: int,
    topk: int,
    ranks: int,
    load: str,
    as_json: bool,
) -> None:
    """Predict a mixture of experts."""
    from vgpu_sim.perf.moe.predict import predict as ask

    title = f"{topk} of {experts} experts for {tokens} tokens, {hidden} by {inner}"
    print_prediction(
        board,
        lambda name: ask(
            name,
            tokens=tokens,
            hidden=hidden,
            inner=inner,
            topk=topk,
            experts=experts,
            ranks=ranks,
            distribution=load,
            dtype=dtype,
        ),
        title,
        as_json,
    )


@predict.command(help="An NCCL collective among the GPUs of one node.")
@board_option
@click.option("--op", type=click.Choice(OPS), default="all_reduce", show_default=True)
@click.option("--dtype", type=click.Choice(["bf16", "fp16", "int8"]), default="bf16")
@click.option("--gpus", type=SIZE, required=True)
@bytes_option("Size of each rank's buffer")
@topologies.between
@with_json
def allreduce(
    board: str, op: str, dtype: str, gpus: int, size: int, topology: str | None, as_json: bool
) -> None:
    """Predict a collective."""
    _collective(board, op, dtype, gpus, size, topology, as_json)


def _collective(
    board: str, op: str, dtype: str, gpus: int, size: int, topology: str | None, as_json: bool
) -> None:
    from vgpu_sim.perf.collective.predict import predict as ask

    where = f" in {topology}" if topology is not None else ""
    title = f"{op} of {size} bytes among {gpus} GPUs{where}"
    print_prediction(board, lambda name: ask(name, op, dtype, gpus, size, topology), title, as_json)


def _add_collective(name: str, op: str) -> None:
    """Add the subcommand that predicts one collective."""

    @predict.command(name, help=f"The same as allreduce --op {op}.")
    @board_option
    @click.option("--dtype", type=click.Choice(["bf16", "fp16", "int8"]), default="bf16")
    @click.option("--gpus", type=SIZE, required=True)
    @bytes_option("Size of each rank's buffer")
    @topologies.between
    @with_json
    def command(
        board: str, dtype: str, gpus: int, size: int, topology: str | None, as_json: bool
    ) -> None:
        _collective(board, op, dtype, gpus, size, topology, as_json)


_add_collective("allgather", "all_gather")
_add_collective("reducescatter", "reduce_scatter")
_add_collective("alltoall", "alltoall")


def _stream(
    op: str, board: str, rows: int, columns: int, read: float, written: float
) -> Prediction:
    from vgpu_sim.perf.stream.predict import predict as ask

    return ask(op, board, rows, columns, read, written)


_rows = click.option("--rows", type=SIZE, required=True, help="Tokens.")
_columns = click.option("--columns", type=SIZE, required=True, help="Elements in a row.")
_read = click.option(
    "--read",
    type=click.FloatRange(min=0),
    default=2,
    show_default=True,
    help="Bytes read for each element.",
)
_written = click.option(
    "--written",
    type=click.FloatRange(min=0),
    default=2,
    show_default=True,
    help="Bytes written for each element.",
)


@predict.command(help="A kernel that reads, computes and writes element by element.")
@board_option
@_rows
@_columns
@_read
@_written
@with_json
def elementwise(
    board: str, rows: int, columns: int, read: float, written: float, as_json: bool
) -> None:
    """Predict an element-wise kernel."""
    title = f"{rows} x {columns} elements, {read:g} bytes read and {written:g} written each"
    print_prediction(
        board,
        lambda name: _stream("elementwise", name, rows, columns, read, written),
        title,
        as_json,
    )


@predict.command(help="A normalisation of rows: each row is read once and written once.")
@board_option
@_rows
@_columns
@with_json
def norm(board: str, rows: int, columns: int, as_json: bool) -> None:
    """Predict a normalisation."""
    title = f"normalisation of {rows} rows of {columns} elements of 2 bytes"
    print_prediction(board, lambda name: _stream("norm", name, rows, columns, 2, 2), title, as_json)


def _rowwise(name: str, help_text: str) -> None:
    """Add a subcommand for an operation on rows that has its own function in the model of streaming
    kernels.
    """

    @predict.command(name, help=help_text)
    @board_option
    @_rows
    @_columns
    @with_json
    def command(board: str, rows: int, columns: int, as_json: bool) -> None:
        from vgpu_sim.perf.stream import predict as streams

        title = f"{name} of {rows} rows of {columns} elements"
        print_prediction(
            board,
            lambda board_name: getattr(streams, name)(board_name, rows, columns),
            title,
            as_json,
        )


_rowwise("softmax", "A softmax of rows in bf16.")
_rowwise("quantize", "Scaling of rows from bf16 to fp8.")
_rowwise("embedding", "An embedding: one bf16 row of a table for each token.")
_rowwise("sampling", "The most likely token of each row of logits in bf16.")


@click.group(cls=VerbGroup, help="Predict the same operation on several boards, side by side.")
@click.option(
    "--boards",
    required=True,
    metavar="A,B,...",
    help=f"Some of {', '.join(BOARDS)}.",
    callback=to_board_names,
    shell_complete=make_completer(BOARDS),
)
@click.pass_context
def compare(context: click.Context, boards: str) -> None:
    """Pass the boards to the commands of this group, which predict one operation each."""
    context.obj = boards


def add_to_compare(command: click.Command) -> None:
    """Add a command with the option ``--board`` to ``compare``."""

    @click.pass_obj
    def on_boards(boards: str, /, **options: Any) -> None:
        if command.callback is not None:
            command.callback(board=boards, **options)

    params = [parameter for parameter in command.params if parameter.name != "board"]
    compare.add_command(
        click.Command(
            command.name,
            params=params,
            callback=on_boards,
            help=command.help,
            short_help=command.short_help,
        )
    )


for _one in predict.commands.values():
    add_to_compare(_one)
