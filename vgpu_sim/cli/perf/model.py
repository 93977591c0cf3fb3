"""``tessera perf model``: the time that serving one batch of a whole model takes."""

import json

import click
from click.core import ParameterSource

from drawing import terminal, terminal_causes
from facts.wording import count_of
from vgpu_sim.cli import pictures
from vgpu_sim.cli.perf.group import SIZE, board_option, exit_with_error, make_completer
from vgpu_sim.perf.errors import PerfError
from vgpu_sim.perf.model_pictures import figures_of_models, stacks_of_models
from vgpu_sim.perf.models import ARCHITECTURES, Drawing, Report, Serving, diffusion, predict_serving
from vgpu_sim.perf.models.graph import DTYPE, WEIGHTS
from vgpu_sim.perf.models.serving import Pass
from vgpu_sim.perf.models.serving_intervals import bands

_NAMES = (*ARCHITECTURES, diffusion.NAME)
# Options that only one kind of model has, by parameter.
_OF_DECODERS = {"input_tokens": "--in", "output_tokens": "--out"} | {
    name: f"--{name}" for name in ("tp", "pp", "dp", "ep", "dtype")
}
_OF_DENOISERS = {"side": "--side", "steps": "--steps"}


@click.command(
    short_help="Predict the time of one batch of a whole model.",
    help=f"Predict one batch of MODEL: one of {', '.join(_NAMES)}.",
)
@click.argument("model", shell_complete=make_completer(_NAMES))
@board_option
@click.option("--tp", type=SIZE, default=1, show_default=True, help="Tensor-parallel ranks.")
@click.option("--pp", type=SIZE, default=1, show_default=True, help="Pipeline-parallel stages.")
@click.option(
    "--dp", type=SIZE, default=1, show_default=True, help="Data-parallel replicas of attention."
)
@click.option(
    "--ep", type=SIZE, default=1, show_default=True, help="Ranks among which experts are divided."
)
@click.option("--batch", type=SIZE, default=1, show_default=True, help="Sequences in the batch.")
@click.option(
    "--dtype",
    type=click.Choice(list(WEIGHTS)),
    default=DTYPE,
    show_default=True,
    help="Type of the layers' weights.",
)
@click.option(
    "--in",
    "input_tokens",
    type=SIZE,
    default=1024,
    show_default=True,
    help="Prompt tokens of each sequence.",
)
@click.option(
    "--out",
    "output_tokens",
    type=SIZE,
    default=256,
    show_default=True,
    help="Generated tokens of each sequence.",
)
@click.option(
    "--side", type=SIZE, default=1024, show_default=True, help="Width and height in pixels (sdxl)."
)
@click.option("--steps", type=SIZE, default=50, show_default=True, help="Denoising steps (sdxl).")
@click.option(
    "--cuda-graphs/--no-cuda-graphs",
    "graphs",
    default=True,
    show_default=True,
    help="Without CUDA graphs the host launches each operator, and the device may wait for it.",
)
@click.option("--mechanistic", is_flag=True, help="Leave out the fitted residuals.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every operator's causes.")
@pictures.with_pictures
def model(
    model: str,
    board: str,
    tp: int,
    pp: int,
    dp: int,
    ep: int,
    batch: int,
    input_tokens: int,
    output_tokens: int,
    dtype: str,
    side: int,
    steps: int,
    graphs: bool,
    mechanistic: bool,
    as_json: bool,
) -> None:
    """Print a prediction for a model; for several boards (A,B), print a table that compares
    them.
    """
    _check_options(model)
    reports: list[Report] = []
    drawings: list[Drawing] = []
    try:
        for name in board.split(","):
            if model == diffusion.NAME:
                request = diffusion.Request(batch, side, steps, graphs=graphs)
                drawings.append(
                    diffusion.predict_image_generation(name, request, mechanistic=mechanistic)
                )
                continue
            question = Serving(
                model, name, tp, batch, input_tokens, output_tokens, pp, dp, ep, graphs, dtype
            )
            reports.append(predict_serving(question, mechanistic=mechanistic))
    except PerfError as err:
        exit_with_error(err)
    pictures.write_files(f"{model} (modelled)", lambda: figures_of_models(reports, drawings))
    if pictures.current().takes_stdout:
        return
    if as_json:
        rows = [report.as_json() for report in reports] + [
            drawing.as_json() for drawing in drawings
        ]
        click.echo(json.dumps(rows[0] if len(rows) == 1 else rows, indent=2))
        return
    for drawing in drawings:
        _drawing(drawing)
    if len(reports) == 1:
        _report(reports[0])
    elif reports:
        _beside(reports)
    if pictures.current().wants_text:
        for name, stacks in stacks_of_models(reports, drawings).items():
            click.echo(name)
            pictures.print_lines(terminal_causes.draw_stacks(stacks, terminal.width()))


def _check_options(model: str) -> None:
    """Refuse options that do not apply to this kind of model."""
    context = click.get_current_context()
    if model not in _NAMES:
        return  # looking up the model gives a better error
    options = _OF_DECODERS if model == diffusion.NAME else _OF_DENOISERS
    rejected_options = [
        option
        for name, option in options.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if rejected_options:
        raise click.UsageError(f"{model} does not take {' or '.join(rejected_options)}")


def _report(report: Report) -> None:
    request, need = report.question, report.memory
    click.echo(
        f"{request.model} in {request.dtype} on {request.layout.gpus} x {request.board} "
        f"({request.layout}), {count_of(request.batch, 'sequence')}, "
        f"{count_of(request.given, 'token')} in, {request.made} out (modelled)"
    )
    served = bands()
    for name, phase, meaning, (low, high) in (
        ("TTFT", report.prefill, "to the first token", served.ttft.interval(report.ttft_ends)),
        ("TPOT", report.decode, "a token", served.tpot.interval(report.tpot_ends)),
    ):
        click.echo(
            f"  {name}  {phase.us / 1e3:9.2f} ms {meaning}; {phase.layer_us:.0f} us a layer; "
            f"on a server {low:.1f} to {high:.1f} ms (90 %)"
        )
    click.echo(f"  {report.tokens_per_s:15.0f} tokens/s of all sequences")
    click.echo(
        f"  {need.total:15.1f} GB a rank: weights {need.weights:.1f}, KV cache {need.cache:.1f}, "
        f"activations {need.activations:.1f}, reserved {need.reserved:.1f}"
    )
    click.echo(
        "  (times of one batch whose sequences start together; the intervals are those of servers"
        f"\n  that batch in flight, from {served.points} measured runs of three serving libraries)"
    )
    for name, phase in (("prefill", report.prefill), ("decode", report.decode)):
        click.echo(_title(name, phase))
        for part in phase.parts:
            share = 100 * part.us / phase.us
            click.echo(
                f"  {part.name:28}{part.times:4} x {part.prediction.us:10.2f} us"
                f"{part.us / 1e3:10.3f} ms{share:6.1f} %"
            )
        if phase.waiting:
            share = 100 * phase.waiting / phase.us
            click.echo(f"  {'launch gaps':49}{phase.waiting / 1e3:10.3f} ms{share:6.1f} %")


def _drawing(drawing: Drawing) -> None:
    click.echo(
        f"sdxl in bf16 on {drawing.board}, {count_of(drawing.batch, 'image')} of {drawing.side} "
        f"pixels with guidance, {count_of(drawing.steps, 'step')} (modelled)"
    )
    percent = 100 * drawing.half / drawing.step_us
    click.echo(
        f"  {drawing.step_us / 1e3:.2f} ms a step ± {percent:.0f} %; {drawing.seconds:.2f} s; "
        f"{drawing.memory_gb:.1f} GB; text encoders and the image's decoder are not in it"
    )
    for kind, (times, us) in sorted(drawing.kinds.items(), key=lambda row: -row[1][1]):
        share = 100 * us / drawing.step_us
        click.echo(f"  {kind:28}{times:5} times {us / 1e3:10.3f} ms{share:6.1f} %")
    if drawing.waiting:
        share = 100 * drawing.waiting / drawing.step_us
        click.echo(f"  {'launch gaps':39}{drawing.waiting / 1e3:10.3f} ms{share:6.1f} %")


def _title(name: str, phase: Pass) -> str:
    return f"{name}: {count_of(phase.step.tokens, 'token')} on contexts of {phase.step.context}"


def _beside(reports: list[Report]) -> None:
    """Print the causes of the time on each board, side by side."""
    request = reports[0].question
    click.echo(
        f"{request.model} in {request.dtype}, {request.layout}, "
        f"{count_of(request.batch, 'sequence')}, {count_of(request.given, 'token')} in, "
        f"{request.made} out (modelled)"
    )
    click.echo(" " * 30 + "".join(f"{report.question.board:>16}" for report in reports))
    for title, values in (
        ("TTFT (ms)", [report.ttft_ms for report in reports]),
        ("TPOT (ms)", [report.tpot_ms for report in reports]),
        ("tokens/s", [report.tokens_per_s for report in reports]),
        ("memory a rank (GB)", [report.memory.total for report in reports]),
    ):
        click.echo(f"{title:30}" + "".join(f"{value:16.2f}" for value in values))
    for name in ("prefill", "decode"):
        click.echo(f"{name} (ms)")
        for parts in zip(*(getattr(report, name).parts for report in reports), strict=True):
            row = "".join(f"{part.us / 1e3:16.3f}" for part in parts)
            click.echo(f"  {parts[0].name:28}{row}")
        waiting = [getattr(report, name).waiting for report in reports]
        if any(waiting):
            click.echo(f"  {'launch gaps':28}" + "".join(f"{us / 1e3:16.3f}" for us in waiting))
