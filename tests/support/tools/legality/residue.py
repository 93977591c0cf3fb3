"""The remaining differences between assembler and compiler, by instruction and kind of break, with
reasons.

``test_legality`` fails when its sample shows a difference that is not listed, and the whole comparison
(``python -m support.tools.legality``) also when a listed one no longer occurs.
"""

from support.tools.legality.compare import Verdict

Key = tuple[str, str]

_IGNORED = "the assembler ignores what PTX ISA does not allow there"
_DETAIL = "the table knows what the instruction needs, not what this detail of it does"
_COUNT = "how many operands there are decides what is needed, which the table cannot say"
_SPACE = "a variable that the access reaches by its state space alone, and by no hint or prefetch"
_ORDER = "a word that is one with the instruction's name, at another place"
_HINT = "the assembler takes a cache policy without .L2::cache_hint"
_KIND = "the assembler takes another kind of register than PTX ISA says"
_WORDS = "the assembler takes eight elements of 16 bits, volatile, which PTX ISA does not have"
_BEYOND = "the assembler does not compare an access with the parameter's size"
_LOCAL = "the assembler takes a variable in local memory for one in shared memory there"

RESIDUE: dict[Key, str] = {
    ("addc", "foreign_modifier"): _IGNORED,
    ("atom", "too_many_operands"): _HINT,
    ("atom", "wrong_state_space"): _SPACE,
    ("atom", "wrong_type"): _IGNORED,
    ("clmad", "wrong_type"): _IGNORED,
    ("clusterlaunchcontrol", "wrong_state_space"): _LOCAL,
    ("cvt", "oldest_version"): _DETAIL,
    ("cvt", "special_register"): _KIND,
    ("fns", "wrong_kind"): _KIND,
    ("ld", "oldest_version"): _DETAIL,
    ("ld", "valid"): _BEYOND,
    ("ld", "wrong_type"): _WORDS,
    ("mad24", "foreign_modifier"): _IGNORED,
    ("madc", "foreign_modifier"): _IGNORED,
    ("max", "valid"): _COUNT,
    ("mbarrier", "modifier_left_out"): _IGNORED,
    ("mbarrier", "modifiers_in_other_order"): _ORDER,
    ("mbarrier", "valid"): _COUNT,
    ("movmatrix", "predicate_for_number"): _KIND,
    ("prefetch", "valid"): _SPACE,
    ("prefetchu", "wrong_state_space"): _SPACE,
    ("red", "wrong_state_space"): _SPACE,
    ("set", "oldest_version"): _DETAIL,
    ("st", "wrong_type"): _WORDS,
    ("st", "wrong_width"): _KIND,
    ("subc", "foreign_modifier"): _IGNORED,
    ("testp", "modifier_left_out"): _IGNORED,
    ("vshr", "modifiers_in_other_order"): _ORDER,
    ("wgmma", "modifiers_in_other_order"): _IGNORED,
}


def key(found: Verdict) -> Key:
    """Return the kind of a difference."""
    return found.case.spelling.partition(".")[0], found.case.how


def changes(different: set[Key]) -> list[str]:
    """Return the differences between the found kinds and those of the list."""
    new = [f"new: {one}" for one in sorted(different - RESIDUE.keys())]
    return new + [f"gone: {one}" for one in sorted(RESIDUE.keys() - different)]
