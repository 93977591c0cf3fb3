"""The complete comparison: ``PYTHONPATH=.:tests python -m support.tools.legality [MODE]``.

Prints the table of ``docs/legality.md`` and every kind of difference with an example; exits with
1 when a goal is missed, or the kinds differ from those in ``residue``. The mode ``features`` compares
tensor features by target alone; ``unsupported`` lists the legal forms that the compiler refuses, and
needs no assembler. ``inline FOLDER [TEXT]`` verifies that the inline assembly in the folder's C++
headers compiles where it is legal; with TEXT, only in headers with it in their paths.
"""

import sys
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from support.tools.legality import assembler, compare, features, inline, reasons
from support.tools.legality.forms import all_forms, kernel
from support.tools.legality.residue import changes, key

_GOAL, _FAMILY_GOAL, _ACCEPTS_GOAL = 0.99, 0.95, 0.005


def matrix() -> int:
    """Compare the tensor features; every verdict has to agree."""
    ptxas = assembler.require()
    found = compare.verdicts(list(features.cases()), assembler.Assembler(ptxas))
    print(f"ptxas {assembler.release(ptxas)}\n\n{compare.table(found)}\n")
    different = [one for one in found if not one.agrees]
    for one in different:
        said = f"only ours: {one.ours}" if one.ours else f"only theirs: {one.theirs}"
        print(f"sm_{one.case.kernel.target} {one.case.line} {said}")
    _print_reasons(found)
    return int(bool(different))


def list_refusals() -> int:
    """List the forms that are legal and not supported, by instruction and target."""
    forms = list(all_forms())
    with ProcessPoolExecutor(2) as pool:
        reasons_of = list(pool.map(compare.refusal, map(kernel, forms), chunksize=200))
    kinds: dict[tuple[str, str], list[str]] = defaultdict(list)
    for form, reason in zip(forms, reasons_of, strict=True):
        if reason:
            kinds[form.opcode, form.target].append(f"{form.text} {reason}")
    for (opcode, target), some in sorted(kinds.items()):
        print(f"{len(some):4} {opcode} on sm_{target}: {some[0]}")
    print(f"{sum(map(len, kinds.values()))} of {len(forms)} forms")
    return 0


def check_headers(folder: str, within: str = "") -> int:
    """Compile the inline assembly of a folder's headers; everything legal has to compile."""
    found, left_out = inline.find(Path(folder), within)
    ptxas = assembler.require()
    made = inline.results(found, assembler.Assembler(ptxas))
    refused = [one for one in made if one.refusal]
    for one in refused:
        print(f"{one.inline.place} on sm_{one.target}: {one.refusal}")
    legal = sum(bool(one.target) for one in made)
    print(
        f"ptxas {assembler.release(ptxas)}: {legal} of {len(found)} assemblies are legal, and"
        f" {len(refused)} of these are refused; {left_out} depend on the preprocessor"
    )
    return int(bool(refused))


def _print_reasons(found: list[compare.Verdict]) -> None:
    rejected = list(reasons.both_causes(found))
    share = 100 * reasons.agreement(found)
    print(f"\nsame cause for {share:.2f} % of the {len(rejected)} texts that both reject; others:")
    others = Counter((own, other) for own, other, _ in rejected if own != other)
    for (own, other), count in others.most_common():
        print(f"{count:4} ours: {own}; theirs: {other}")


def main() -> int:
    modes = {"features": matrix, "unsupported": list_refusals}
    if sys.argv[1:2] == ["inline"]:
        return check_headers(*sys.argv[2:])
    if sys.argv[1:]:
        return modes[sys.argv[1]]()
    ptxas = assembler.require()
    found = compare.verdicts(list(compare.cases(per_form=2)), assembler.Assembler(ptxas))
    print(f"ptxas {assembler.release(ptxas)}\n\n{compare.table(found)}\n")
    kinds: dict[tuple[str, str], list[compare.Verdict]] = defaultdict(list)
    families: dict[str, list[compare.Verdict]] = defaultdict(list)
    for one in found:
        families[one.case.family].append(one)
        if not one.agrees:
            kinds[key(one)].append(one)
    for (opcode, how), some in sorted(kinds.items()):
        first = some[0]
        file = f"sm_{first.case.kernel.target} {first.case.kernel.version}"
        verdict = f"only ours: {first.ours}" if first.ours else f"only theirs: {first.theirs}"
        print(f"{len(some):4} {opcode} {how}: {first.case.line} [{file}] {verdict}")
    wrong = changes(set(kinds))
    print("\n".join(wrong))
    _print_reasons(found)
    met = (
        compare.agreement(found) >= _GOAL
        and compare.false_accepts(found) <= _ACCEPTS_GOAL
        and all(compare.agreement(some) >= _FAMILY_GOAL for some in families.values())
    )
    return int(bool(wrong) or not met)


if __name__ == "__main__":
    sys.exit(main())
