"""The effects of instructions on the registers of the running thread."""

from collections.abc import Callable

from support.oracles.scalar_ptx import integers, numbers, video
from support.oracles.scalar_ptx.gathering import Arrival
from support.oracles.scalar_ptx.operands import STOP, Operands, Step
from support.oracles.scalar_ptx.text import (
    Inverse,
    Number,
    Operand,
    Several,
    Statement,
    SyntaxFault,
)


class Steps(Operands):
    """Steps that need no memory; ``_arrival`` holds the thread's operands at a collective."""

    _arrival: Arrival | None = None

    def _plain(
        self, what: numbers.Function, operands: tuple[Operand, ...], *, wider: bool = False
    ) -> Step:
        if len(operands) != len(what.sources) + 1:
            raise SyntaxFault("wrong number of operands")
        first, *rest = operands
        if what.bits == 1:
            d, extend = self._predicate(first), None
        else:
            d = self._target(first, what.bits, wider=wider)
            extend = self._extension(first, what.bits, what.signed)
        sources = [
            self._predicate(o) if bits == 1 else self._source(o, bits, wider=wider)
            for o, bits in zip(rest, what.sources, strict=True)
        ]
        compute = what.compute
        if wider or extend:
            mask, (x,) = (1 << what.sources[0]) - 1, sources
            if extend:
                return lambda r: r.__setitem__(d, extend(compute(r[x] & mask)))
            return lambda r: r.__setitem__(d, compute(r[x] & mask))
        if len(sources) == 1:
            (x,) = sources
            return lambda r: r.__setitem__(d, compute(r[x]))
        if len(sources) == 2:
            x, y = sources
            return lambda r: r.__setitem__(d, compute(r[x], r[y]))
        if len(sources) == 3:
            x, y, z = sources
            return lambda r: r.__setitem__(d, compute(r[x], r[y], r[z]))
        return lambda r: r.__setitem__(d, compute(*(r[s] for s in sources)))

    def _carried(
        self,
        bits: int,
        compute: Callable[..., tuple[int, int]],
        operands: tuple[Operand, ...],
    ) -> Step:
        first, *rest = operands
        d, flag = self._target(first, bits), self._carry
        sources = [self._source(operand, bits) for operand in rest]

        def step(r: list[int]) -> None:
            r[d], r[flag] = compute(r[flag], *(r[s] for s in sources))

        return step

    def _video(self, what: video.Video) -> Step:
        d, compute = self._target(what.to, 32), what.compute
        sources = [self._source(operand, 32) for operand in what.sources]
        return lambda r: r.__setitem__(d, compute(*(r[s] for s in sources)))

    def _lop3(self, combine: str, operands: tuple[Operand, ...]) -> Step:
        """Return the step of ``lop3.and`` and ``lop3.or``, which also compute a predicate."""
        first, *inputs, chooser = operands
        assert isinstance(first, Several)
        what = integers.function(("lop3", "b32"))
        assert what is not None
        d = None if first.parts[0] == "_" else self._target(first.parts[0], 32)
        p, q = self._predicate(first.parts[1]), self._predicate(chooser)
        sources = [self._source(operand, 32) for operand in inputs]

        def step(r: list[int]) -> None:
            value, with_ = what.compute(*(r[s] for s in sources)), r[q]
            if d is not None:
                r[d] = value
            some = int(value != 0)
            r[p] = some & with_ if combine == "and" else some | with_

        return step

    def _setp(self, modifiers: list[str], operands: tuple[Operand, ...]) -> Step:
        bits, test = numbers.comparison(modifiers)
        first, a, b, *third = operands
        targets = first.parts if isinstance(first, Several) else (first,)
        places = [None if t == "_" else self._predicate(t) for t in targets]
        x, y = self._source(a, bits), self._source(b, bits)
        combine = modifiers[1] if third else ""
        with_what = third[0] if third else Number(0)
        inverted = isinstance(with_what, Inverse)
        c = self._predicate(with_what.name if isinstance(with_what, Inverse) else with_what)

        def step(r: list[int]) -> None:
            outcome = test(r[x], r[y])
            with_ = bool(r[c]) != inverted
            for place, result in zip(places, (outcome, not outcome), strict=False):
                if combine == "and":
                    result = result and with_
                elif combine == "or":
                    result = result or with_
                elif combine == "xor":
                    result = result != with_
                if place is not None:
                    r[place] = int(result)

        return step

    def _collective(self, statement: Statement) -> Step:
        """Record a thread's operands; the code that runs the block resumes the thread."""
        opcode, last = statement.words[0], statement.words[-1]
        first, *operands, mask = statement.operands
        targets = first.parts if isinstance(first, Several) else (first,)
        members = self._source(mask, 32)
        inverted = operands and isinstance(operands[0], Inverse)
        if opcode == "vote":
            flag = operands[0].name if isinstance(operands[0], Inverse) else operands[0]
            sources = [self._predicate(flag)]
        else:
            bits = 64 if last == "b64" else 32
            sources = [self._source(operand, bits) for operand in operands]
        predicate = opcode == "vote" and last == "pred"
        d = self._predicate(targets[0]) if predicate else self._target(targets[0], 32)
        p = self._predicate(targets[1]) if len(targets) > 1 else None

        def step(r: list[int]) -> int:
            a, b, c = (*(r[source] for source in sources), 0, 0, 0)[:3]

            def write(number: int, flag: int) -> None:
                r[d] = flag if predicate else number
                if p is not None:
                    r[p] = flag

            given = (a ^ 1 if inverted else a, b, c)
            self._arrival = Arrival(statement.words, r[members], given, write)
            return STOP

        return step

    def _pieces(self, bits: int, to: Operand, value: Operand) -> Step:
        if isinstance(value, Several):
            piece = bits // len(value.parts)
            sources = [self._source(part, piece) for part in value.parts]
            d = self._target(to, bits)
            return lambda r: r.__setitem__(
                d, sum(r[s] << (i * piece) for i, s in enumerate(sources))
            )
        assert isinstance(to, Several)
        piece = bits // len(to.parts)
        places = [None if p == "_" else self._target(p, piece) for p in to.parts]
        x = self._source(value, bits)

        def step(r: list[int]) -> None:
            whole = r[x]
            for i, place in enumerate(places):
                if place is not None:
                    r[place] = whole >> (i * piece) & ((1 << piece) - 1)

        return step
