"""``tessera perf predict``: one operation's time as a stack of causes."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from drawing import terminal, terminal_causes
from drawing.causes import Stack
from drawing.documents import Figure
from drawing.terminal import Span
from vgpu_sim.cli import pictures, topologies
from vgpu_sim.cli.perf.group import (
    SIZE,
    board_option,
    bytes_option,
    exit_with_error,
    make_completer,
)
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.collective.model import OPS
from vgpu_sim.perf.dtypes import DTYPES
from vgpu_sim.perf.errors import PerfError
from vgpu_sim.perf.moe.predict import DTYPES as MIXTURES
from vgpu_sim.perf.prediction import Prediction

_WINDOW = click.IntRange(min=0, max=SIZE.max)
_CAUSE_COLUMNS = 56  # of a line with a cause, without its bar
_MECHANISTIC = "vgpu_sim.cli.perf.group.mechanistic"


def _remember(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[_MECHANISTIC] = value


def with_json(function: Callable[..., None]) -> Callable[..., None]:
    """Return the command function with the options that all operations share, such as --json."""
    mechanistic = click.option(
        "--mechanistic",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Leave out the fitted residual.",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    return mechanistic(pictures.with_pictures(as_json(function)))


@click.group(help="Predict one operation: its time, the causes that add up to it, and an interval.")
def predict() -> None:
    """Define the group of the commands that predict one operation each."""


def print_prediction(
    board: str, ask: Callable[[str], Prediction], title: str, as_json: bool
) -> None:
    """Print the prediction for a board, a table for several boards (A,B), or the error."""
    try:
        every = [ask(name) for name in board.split(",")]
        if click.get_current_context().meta.get(_MECHANISTIC):
            every = [found.mechanistic() for found in every]
    except PerfError as err:
        exit_with_error(err)
    pictures.write_files(f"{title} (modelled)", lambda: _figures(every, title))
    if pictures.current().takes_stdout:
        return
    if as_json:
        rows = [found.as_json() for found in every]
        click.echo(json.dumps(rows[0] if len(rows) == 1 else rows, indent=2))
    elif len(every) > 1:
        _beside(every, title)
    else:
        _print(every[0], title)


def _figures(every: Sequence[Prediction], title: str) -> Sequence[Figure]:
    from vgpu_sim.perf.pictures import figures_of

    return figures_of(every, title)


def _beside(every: list[Prediction], title: str) -> None:
    """Print the causes of the time on each board, side by side."""
    click.echo(f"{title} (modelled)")
    click.echo(" " * 30 + "".join(f"{found.board.name:>16}" for found in every))
    rows = {"time (us)": [found.us for found in every]}
    rows["± (%)"] = [found.percent for found in every]
    causes = dict.fromkeys(cause for found in every for cause in found.stack)
    rows |= {f"  {one}": [found.stack.get(one, 0) for found in every] for one in causes}
    rows |= {rate: [found.rates[rate] for found in every] for rate in every[0].rates}
    for name, values in rows.items():
        click.echo(f"{name:30}" + "".join(f"{value:16.2f}" for value in values))
    if pictures.current().wants_text:
        stacks = [Stack(one.board.name, one.us, one.stack, one.interval) for one in every]
        pictures.print_lines(terminal_causes.draw_stacks(stacks, terminal.width()))


def _print(found: Prediction, title: str) -> None:
    dtype = "" if found.dtype == "bytes" else f"{found.dtype}, "
    click.echo(f"{title}, {dtype}on {found.board.product} (modelled)")
    low, high = found.interval
    rates = "; ".join(f"{value:.4g} {unit}" for unit, value in found.rates.items())
    within = f"\u00b1 {found.percent:.0f} % (90 %: {low:.4g} to {high:.4g} us)"
    click.echo(f"{found.us:.4g} us {within}; {rates}")
    most = max(found.stack.values(), default=0.0)
    room = terminal.width() - _CAUSE_COLUMNS if pictures.current().wants_text else 0
    for cause, part in found.stack.items():
        text = f"  {cause:28}{part:12.2f} us {100 * part / found.us:5.1f} %"
        bar = terminal.draw_bar(part, most, room)
        pictures.print_lines([(Span(text), Span(f"  {bar}", "blue"))])
    for one in found.shape.get("transfers", ()):
        ends = f"{one['from']} to {one['to']}"
        limit = f"limited by {one['limited_by']}"
        click.echo(f"  {ends:28}{one['gb_per_s']:9.2f} GB/s {one['us']:12.2f} us  {limit}")
        click.echo(f"    {one['way']}")
    choice = ", ".join(f"{name} {value}" for name, value in found.choice.items())
    rows = f"fitted to {found.fitted.rows} rows of {found.fitted.source}"
    click.echo("; ".join(filter(None, (choice and f"kernel: {choice}", rows))))
    if found.fitted.note:
        click.echo(f"note: {found.fitted.note}")


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


def _rowwise(name: str, what: str) -> None:
    """Add a subcommand for an operation on rows that has its own function in the model of streaming
    kernels.
    """

    @predict.command(name, help=what)
    @board_option
    @_rows
    @_columns
    @with_json
    def command(board: str, rows: int, columns: int, as_json: bool) -> None:
        from vgpu_sim.perf.stream import predict as streams

        title = f"{name} of {rows} rows of {columns} elements"
        print_prediction(
            board, lambda one: getattr(streams, name)(one, rows, columns), title, as_json
        )


_rowwise("softmax", "A softmax of rows in bf16.")
_rowwise("quantize", "Scaling of rows from bf16 to fp8.")
_rowwise("embedding", "An embedding: one bf16 row of a table for each token.")
_rowwise("sampling", "The most likely token of each row of logits in bf16.")


@click.group(help="Predict the same operation on several boards, side by side.")
@click.option(
    "--boards",
    required=True,
    metavar="A,B,...",
    help=f"Some of {', '.join(BOARDS)}.",
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

    params = [one for one in command.params if one.name != "board"]
    compare.add_command(
        click.Command(command.name, params=params, callback=on_boards, help=command.help)
    )


for _one in predict.commands.values():
    add_to_compare(_one)
