"""The verdicts of compiler and assembler on many kernels, and their differences."""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from support.tools.legality.assembler import DIED, Assembler, Kernel, whole_file
from support.tools.legality.breaks import BREAKS
from support.tools.legality.forms import all_forms, alternatives, kernel
from vgpu_sim import compiler

VALID = "valid"
_NOT_PTX = "32-Bit"  # an error about the assembler itself, not about the text
_BLAMED = re.compile(r"instruction '([_a-z0-9]+)")
_SEED = 7


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel: its family and form, and how it is broken (``valid``: it is not broken)."""

    family: str
    spelling: str
    how: str
    line: str
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class Verdict:
    """Both verdicts: "" for legal, otherwise the reason."""

    case: Case
    ours: str
    theirs: str

    @property
    def agrees(self) -> bool:
        return bool(self.ours) == bool(self.theirs)

    @property
    def falsely_accepted(self) -> bool:
        return bool(self.theirs) and not self.ours


def cases(per_form: int = 3) -> Iterator[Case]:
    """Yield every form, and ``per_form`` broken variants of each that an assembler accepts.

    The first forms of an instruction are broken in every available way.
    """
    draw = random.Random(_SEED)
    seen: Counter[str] = Counter()
    done: set[tuple[object, ...]] = set()
    for form in all_forms():
        yield from _once(done, Case(form.family, form.spelling, VALID, form.text, kernel(form)))
        seen[form.opcode] += 1
        others = list(alternatives(form))
        for other in draw.sample(others, min(len(others), per_form)):
            case = Case(form.family, form.spelling, VALID, other.text, kernel(other))
            yield from _once(done, case)
        broken = [
            Case(form.family, form.spelling, how.__name__, text, kernel(changed, text, before))
            for how in BREAKS
            for changed, text, before in how(form)
        ]
        every = seen[form.opcode] <= 1
        for case in broken if every else draw.sample(broken, min(per_form, len(broken))):
            yield from _once(done, case)


def _once(done: set[tuple[object, ...]], case: Case) -> Iterator[Case]:
    key = (case.how, case.kernel)
    if key not in done:
        done.add(key)
        yield case


def ours(one: Kernel) -> str:
    """Return why our compiler considers a kernel illegal; "" if it does not."""
    number = int(one.target.rstrip("af"))
    try:
        compiler.compile_ptx(whole_file(one), capability=(number // 10, number % 10), partial=True)
    except compiler.UnsupportedPtxError:
        return ""
    except compiler.PtxError as error:
        return error.diagnostics[0].message
    return ""


def refusal(one: Kernel) -> str:
    """Return why our compiler refuses a legal kernel; "" if it takes it, or it is not legal."""
    number = int(one.target.rstrip("af"))
    try:
        compiler.compile_ptx(whole_file(one), capability=(number // 10, number % 10))
    except compiler.UnsupportedPtxError as error:
        return error.diagnostics[0].message
    except compiler.PtxError:
        return ""
    return ""


def verdicts(cases: Sequence[Case], assembler: Assembler, workers: int = 2) -> list[Verdict]:
    """Return both verdicts for each case, without cases that crash the assembler."""
    kernels = [case.kernel for case in cases]
    with ProcessPoolExecutor(workers) as pool:
        own = list(pool.map(ours, kernels, chunksize=200))
    theirs = assembler.refusals(kernels)
    found = [Verdict(*one) for one in zip(cases, own, theirs, strict=True)]
    return [one for one in found if _is_verdict(one)]


def _is_verdict(found: Verdict) -> bool:
    """Return whether the assembler rejected the text, rather than its own translation of it.

    It crashes on some texts, no longer supports 32-bit addresses, and rejects instructions
    because of its own rewriting: it then blames an instruction, such as a ``mov`` with
    modifiers, that no line of the text contains.
    """
    blamed = _BLAMED.search(found.theirs)
    own_fault = blamed is not None and not found.case.spelling.startswith(blamed[1])
    return found.theirs != DIED and _NOT_PTX not in found.theirs and not own_fault


def within(found: Sequence[Verdict]) -> list[Verdict]:
    """Leave out verdicts on broken variants of illegal forms, which are broken in more than one
    way.
    """
    illegal = {
        one.case.spelling for one in found if one.case.how == VALID and one.theirs and one.ours
    }
    return [one for one in found if one.case.spelling not in illegal or one.case.how == VALID]


def table(found: Iterable[Verdict]) -> str:
    """Return a table by family: cases, agreement, false accepts and false refusals."""
    families: dict[str, list[Verdict]] = defaultdict(list)
    for one in found:
        families[one.case.family].append(one)
    everything = [one for some in families.values() for one in some]
    lines = [
        "| family | valid | broken | agreement | falsely accepted | falsely refused |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_row(name, some) for name, some in families.items()]
    lines.append(_row("**all**", everything))
    return "\n".join(lines)


def agreement(found: Sequence[Verdict]) -> float:
    """Return the share of verdicts that agree."""
    return sum(one.agrees for one in found) / len(found)


def false_accepts(found: Sequence[Verdict]) -> float:
    """Return the share of cases that only the assembler refuses."""
    return sum(one.falsely_accepted for one in found) / len(found)


def _row(name: str, some: Sequence[Verdict]) -> str:
    valid = sum(not one.theirs for one in some)
    accepted = sum(one.falsely_accepted for one in some)
    refused = sum(not one.agrees for one in some) - accepted
    counts = f"{valid} | {len(some) - valid} | {100 * agreement(some):.2f} %"
    return f"| {name} | {counts} | {accepted} | {refused} |"
