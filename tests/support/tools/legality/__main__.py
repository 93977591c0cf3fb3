"""The complete comparison: ``PYTHONPATH=.:tests python -m support.tools.legality [--all]``.

Prints the table of ``docs/legality.md`` and every kind of difference with an example; exits with
1 when a goal is missed, or the kinds differ from those in ``residue``.
"""

import sys
from collections import defaultdict

from support.tools.legality import assembler, compare
from support.tools.legality.residue import changes, key

_GOAL, _FAMILY_GOAL, _ACCEPTS_GOAL = 0.99, 0.95, 0.005


def main() -> int:
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
    met = (
        compare.agreement(found) >= _GOAL
        and compare.false_accepts(found) <= _ACCEPTS_GOAL
        and all(compare.agreement(some) >= _FAMILY_GOAL for some in families.values())
    )
    return int(bool(wrong) or not met)


if __name__ == "__main__":
    sys.exit(main())
