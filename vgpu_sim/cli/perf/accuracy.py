"""``tessera perf validate`` and ``fit`` compare predictions with measurements of real boards, and
fit parameters to these.
"""

import json
from pathlib import Path

import click

from vgpu_sim.cli import progress
from vgpu_sim.cli.errors import fail
from vgpu_sim.cli.perf.group import exit_with_error, make_completer, new_file, to_board_names
from vgpu_sim.perf import parameters, plots
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.errors import NoData, PerfError, UnknownModel
from vgpu_sim.perf.models.serving_intervals import FILE as SERVED
from vgpu_sim.perf.validation import families, page, serving, unseen
from vgpu_sim.perf.validation.families import FAMILIES, Verdict

_boards = click.option(
    "--board",
    "boards",
    multiple=True,
    metavar="NAME",
    help="Only this board; may be repeated.",
    callback=to_board_names,
    shell_complete=make_completer(BOARDS),
)
_family = click.option("--family", type=click.Choice(list(FAMILIES)), help="Only this family.")
_HEAD = (
    "table                                  fitted  tested   MAPE  median    p90   bias"
    "  log-corr  in 90 %  goal   +res  in 90 %  goal   roof   5-NN    RBF"
)
_SERVED = (
    "whole models                              points     MAPE  measured/predicted"
    "  in operators'  in 90 %, held out"
)

_UNSEEN = (
    "board         from                             fitted  tested   MAPE  median    p90   bias"
    "  in 90 %  goal"
)


def _keys(family: str | None, boards: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the tables of measurements that the options select, as (family, table)."""
    return [
        (name, key)
        for name, kernel_family in FAMILIES.items()
        for key in kernel_family.keys
        if family in (None, name) and (not boards or key.split("/")[0] in boards)
    ]


@click.command(help="Compare predictions with measurements of real boards.")
@_boards
@_family
@click.option(
    "--rows", type=click.IntRange(min=1), help="Use at most N rows of each table, spread evenly."
)
@click.option("--worst", is_flag=True, help="Print each table's 20 worst shapes.")
@click.option(
    "--donor",
    metavar="NAME",
    callback=to_board_names,
    shell_complete=make_completer(BOARDS),
    help="Predict with this board's parameters, as for a board without measurements.",
)
@click.option(
    "--unseen",
    "blind",
    is_flag=True,
    help="Predict GEMM only from fits to other boards' rows, chosen in advance (ADR 69).",
)
@click.option(
    "--served",
    is_flag=True,
    help="Compare only whole models, with measured serving runs.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    callback=new_file,
    help="Also write an HTML page with plots and the worst shapes.",
)
def validate(
    boards: tuple[str, ...],
    family: str | None,
    rows: int | None,
    worst: bool,
    donor: str | None,
    blind: bool,
    served: bool,
    html: Path | None,
) -> None:
    """Print a table of prediction errors, computed only from rows that were not used for
    fitting.
    """
    if served:
        _alone("--served", unseen=blind, family=family, worst=worst, donor=donor, html=html)
        _validate_served(boards, rows)
        return
    if blind:
        _alone("--unseen", family=family, worst=worst, donor=donor, html=html)
        _validate_unseen(boards, rows)
        return
    _validate_tables(boards, family, rows, worst, donor, html)
    if not (boards or family or donor):
        _validate_served(boards, rows)


def _validate_tables(
    boards: tuple[str, ...],
    family: str | None,
    rows: int | None,
    worst: bool,
    donor: str | None,
    html: Path | None,
) -> None:
    verdicts = []
    try:
        keys = _keys(family, boards)
        if not keys:
            raise NoData(f"no measurements of {family or 'any family'} on {', '.join(boards)}")
        if html is not None:
            plots.require()
        with progress.track("tables", len(keys)) as steps:
            for name, key in keys:
                steps.begin(f"{name}/{key}")
                verdicts.append(families.validate(FAMILIES[name], key, rows, donor))
                steps.advance()
                if len(verdicts) == 1:
                    click.echo(_HEAD)
                click.echo(_line(verdicts[-1]))
                if worst:
                    _name_worst(verdicts[-1])
        if html is not None:
            html.write_text(page.page(verdicts), encoding="utf-8")
            click.echo(f"{html}: {len(verdicts)} tables", err=True)
        _echo_wins(verdicts)
    except PerfError as err:
        exit_with_error(err)
    except OSError as err:
        fail(f"{err.filename}: {err.strerror}")


def _alone(option: str, **others: object) -> None:
    """Refuse other options that have no effect together with ``option``."""
    conflicting_options = [f"--{name}" for name, value in others.items() if value]
    if conflicting_options:
        raise click.UsageError(
            f"{option} cannot be combined with {' or '.join(conflicting_options)}"
        )


def _validate_unseen(boards: tuple[str, ...], rows: int | None) -> None:
    try:
        missing, targets = None, _targets(boards)
        click.echo(_UNSEEN)
        for target in targets:
            try:
                fitted = parameters.load(unseen.FAMILY, unseen.key(target))
            except UnknownModel as err:
                missing = err
                continue
            accuracy = unseen.validate(target, fitted, rows)
            missed = "" if round(accuracy.mape, 1) <= unseen.GOALS[target] else "  MISSED"
            click.echo(
                f"{target:14}{' + '.join(unseen.DONORS[target]):32}{fitted.rows:7}{accuracy.rows:8}"
                f"{accuracy.mape:7.1f}{accuracy.median:8.1f}{accuracy.p90:7.1f}{accuracy.bias:+7.1f}"
                f"{accuracy.inside:9.1f}{unseen.GOALS[target]:6.1f}{missed}"
            )
        if missing is not None:
            raise missing
    except PerfError as err:
        exit_with_error(err)


def _targets(boards: tuple[str, ...]) -> list[str]:
    """Return the selected boards that have donors. Raises NoData."""
    targets = [name for name in unseen.DONORS if not boards or name in boards]
    if not targets:
        raise NoData(f"no donor boards are defined for {', '.join(boards)}")
    return targets


def _validate_served(boards: tuple[str, ...], max_points: int | None) -> None:
    try:
        points, excluded = serving.predict_points(max_points)
        rows = serving.validate(points)
    except PerfError as err:
        exit_with_error(err)
    click.echo(_SERVED)
    rows = [row for row in rows if not boards or row.group[1] in boards]
    for row in rows:
        model, board, library = row.group
        inside = "-" if row.inside is None else f"{row.inside:.1f}"
        click.echo(
            f"{f'{model}/{board}/{library} {row.time.upper()}':42}{row.points:6}{row.mape:9.1f}"
            f"{row.ratio:20.2f}{row.inside_operators:15.1f}{inside:>19}"
        )
    for time in serving.TIMES:
        compared = [(row.points, row.inside) for row in rows if row.time == time]
        count = sum(number for number, _ in compared)
        weighted_shares = [number * share for number, share in compared if share is not None]
        if weighted_shares:
            share = sum(weighted_shares) / count
            click.echo(f"{time.upper()}: {share:.1f} % of {count} inside the interval printed")
    reasons = ", ".join(f"{why} {count}" for why, count in excluded.most_common())
    click.echo(f"not compared: {reasons}")


def _echo_wins(verdicts: list[Verdict]) -> None:
    """Print the tables for which a baseline without a mechanism is closer to the measurements."""
    for verdict in verdicts:
        if verdict.better_baselines:
            names = ", ".join(
                f"{name} {verdict.baselines[name]:.1f} %" for name in verdict.better_baselines
            )
            own = (verdict.corrected or verdict.accuracy).mape
            click.echo(f"better than {verdict.family.name}/{verdict.key} ({own:.1f} %): {names}")


def _line(verdict: Verdict) -> str:
    accuracy = verdict.accuracy
    goal = "-" if verdict.goal is None else f"{verdict.goal:.1f}"
    missed = "  MISSED" if verdict.met is False else ""
    corrected = _corrected_columns(verdict)
    return (
        f"{verdict.family.name + '/' + verdict.key:38}{verdict.fitted.rows:7}{accuracy.rows:8}"
        f"{accuracy.mape:7.1f}{accuracy.median:8.1f}{accuracy.p90:7.1f}{accuracy.bias:+7.1f}"
        f"{accuracy.log_correlation:10.4f}{accuracy.inside:9.1f}{goal:>6}{corrected}"
        f"{''.join(f'{verdict.baselines[name]:7.1f}' for name in verdict.baselines)}{missed}"
    )


def _corrected_columns(verdict: Verdict) -> str:
    if verdict.corrected is None:
        return f"{'-':>7}{'-':>9}{'-':>6}"
    goal = "-" if verdict.corrected_goal is None else f"{verdict.corrected_goal:.1f}"
    return f"{verdict.corrected.mape:7.1f}{verdict.corrected.inside:9.1f}{goal:>6}"


def _name_worst(verdict: Verdict) -> None:
    for sample in verdict.worst:
        shape = " ".join(f"{name}={value}" for name, value in sample.shape.items())
        click.echo(
            f"    {sample.error:+8.0f} %  measured {sample.measured:.4g} us, predicted "
            f"{sample.predicted:.4g} us  {shape}  ({sample.suspect})"
        )


@click.command(help="Fit the models' parameters again, and write them to a directory.")
@_boards
@_family
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Directory of the FAMILY.json files: vgpu_sim/perf/fitted in a checkout. Other entries"
    " stay.",
)
@click.option("--residual", is_flag=True, help="Keep the parameters; fit only the residual again.")
@click.option("--unseen", "blind", is_flag=True, help="Fit other boards' rows instead (ADR 69).")
@click.option("--served", is_flag=True, help="Fit only the intervals of whole models.")
def fit(
    boards: tuple[str, ...],
    family: str | None,
    into: Path,
    residual: bool,
    blind: bool,
    served: bool,
) -> None:
    """Write the fitted parameters."""
    if served:
        _alone("--served", unseen=blind, family=family, residual=residual, board=boards)
        _fit_served(into)
        return
    if blind:
        _alone("--unseen", family=family, residual=residual)
    into.mkdir(parents=True, exist_ok=True)
    try:
        if blind:
            _fit_unseen(into, _targets(boards))
            return
        keys = _keys(family, boards)
        with progress.track("tables", len(keys)) as steps:
            for name, key in keys:
                steps.begin(f"{name}/{key}")
                _fit_table(into, name, key, residual)
                steps.advance()
    except PerfError as err:
        exit_with_error(err)


def _fit_table(into: Path, name: str, key: str, residual: bool) -> None:
    file, kernel_family = into / f"{name}.json", FAMILIES[name]
    fitted_by_key = parameters.read(file.read_text()) if file.exists() else {}
    fitted_by_key[key] = (
        kernel_family.fit_residual(key, fitted_by_key[key])
        if residual and key in fitted_by_key
        else kernel_family.fit(key)
    )
    file.write_text(parameters.render(fitted_by_key))


def _fit_unseen(into: Path, targets: list[str]) -> None:
    file = into / f"{unseen.FAMILY}.json"
    fitted_by_key = parameters.read(file.read_text()) if file.exists() else {}
    with progress.track("boards", len(targets)) as steps:
        for target in targets:
            steps.begin(target)
            fitted_by_key[unseen.key(target)] = unseen.fit(target)
            file.write_text(parameters.render(fitted_by_key))
            steps.advance()


def _fit_served(into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    try:
        bands = serving.fit(serving.predict_points()[0])
    except PerfError as err:
        exit_with_error(err)
    (into / SERVED).write_text(json.dumps(bands.as_json(), indent=1) + "\n", encoding="utf-8")
