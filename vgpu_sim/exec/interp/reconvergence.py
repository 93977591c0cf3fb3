"""Where diverged lanes meet again: the immediate post-dominator of each branch."""

from vgpu_sim.isa import Function, Op


def reconvergence_points(function: Function) -> dict[int, int]:
    """Map each branch's word to the word of its immediate post-dominator; -1 is the end."""
    code = function.code
    end = len(code)
    successors: list[list[int]] = []
    for word, instruction in enumerate(code):
        after: list[int] = []
        if instruction.op is Op.BRA and instruction.target is not None:
            after.append(instruction.target)
        if instruction.op in (Op.RET, Op.TRAP):
            after.append(end)
        if instruction.guard is not None or not after:
            after.append(word + 1)
        successors.append(after)
    everything = frozenset(range(end + 1))
    post: list[frozenset[int]] = [everything] * end + [frozenset([end])]
    changed = True
    while changed:
        changed = False
        for word in reversed(range(end)):
            common = frozenset.intersection(*(post[s] for s in successors[word])) | {word}
            if common != post[word]:
                post[word] = common
                changed = True
    result = {}
    for word, instruction in enumerate(code):
        if instruction.op is Op.BRA:
            strict = post[word] - {word}
            nearest = max(strict, key=lambda candidate: len(post[candidate]), default=end)
            result[word] = -1 if nearest == end else nearest
    return result
