"""Which ``.target`` and ``.version`` the forms of instructions need (PTX ISA, "Target ISA Notes").

A row is one or several instructions, words that all have to stand among the modifiers for the row
to apply (``a|b`` one of several, ``$class`` one of a class, ``sp::*`` any that begins so, ``!a``
none of those, ``.a.b`` those at the end), a colon, the target and the PTX version. Of the rows that
apply each has to be met.
A target is a number (that one and newer ones), ``90a`` (architecture-specific: that one alone),
``100f`` (family-specific, or the same family's architecture-specific ones), several with ``/``, or
``<70@6.4`` (older ones alone, from PTX 6.4 on). What has no row runs everywhere, as far as we know:
a row stands here only where it is certain.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache

from vgpu_sim.compiler.ptx.grammar.words import CLASSES

Version = tuple[int, int]

REQUIREMENTS = """
# Integer arithmetic
dp4a|dp2a                                   : 61 5.0
fns                                         : 30 6.0
szext|bmsk                                  : 70 7.6
add|min|max u16x2|s16x2                     : 90 8.0
add|sub|neg|min|max u8x4|s8x4               : 107f/120f 9.2
add sat u32|u16x2|s16x2                     : 107f/120f 9.2
min|max relu s32|s16x2                      : 90 8.0
clmad                                       : 80 9.3
lop3                                        : 50 4.3
lop3 and|or                                 : 70 8.2
shf                                         : 32 3.1

# Floating point, halves, mixed precision
add|sub|mul|fma f16|f16x2                   : 53 4.2
add|sub|mul bf16|bf16x2                     : 90 7.8
fma bf16|bf16x2                             : 80 7.0
fma relu                                    : 80 7.0
fma oob                                     : 90 8.1
neg f16|f16x2                               : 53 6.0
abs f16|f16x2                               : 53 6.5
neg|abs bf16|bf16x2                         : 80 7.0
min|max f16|f16x2|bf16|bf16x2               : 80 7.0
min|max NaN                                 : 80 7.0
min|max xorsign                             : 86 7.2
min|max abs !xorsign                        : 100 8.8
add|sub f32 f16|bf16                        : 100 8.6
fma f32 f16|bf16                            : 100 8.6
add|sub|mul|fma f32x2                       : 100 8.6
tanh f32|f16|f16x2                          : 75 7.0
tanh bf16|bf16x2                            : 90 7.8
ex2 f16|f16x2                               : 75 7.0
ex2 bf16|bf16x2                             : 90 7.8
set|setp f16|f16x2                          : 53 4.2
set|setp bf16|bf16x2                        : 90 7.8

# Conversion
cvt f16x2 f32                               : 80 7.0
cvt tf32                                    : 80 7.0
cvt rn|rz tf32                              : 90 7.8
cvt rn|rz satfinite tf32                    : 100 8.6
cvt bf16|bf16x2                             : 80 7.0
cvt relu                                    : 80 7.0
cvt bf16 u8|u16|u32|u64|s8|s16|s32|s64|f16|f64 : 90 7.8
cvt e4m3x2|e5m2x2                           : 89 7.8
cvt e2m1x2|e2m3x2|e3m2x2|ue8m0x2            : 100f/110f/120f 8.6
cvt e4m3x2|e5m2x2 bf16x2                    : 100f/110f/120f 8.6
cvt rs                                      : 100a/103a/107a 8.7
cvt pzo                                     : 107a 9.2
cvt rz $f8x2                                : 107a 9.4
cvt scaled::n1::ue8m0                       : 107a 9.2
cvt scaled::n2::ue8m0 $f8x2                 : 100f/110f/120f 9.2
cvt ftz .f32.bf16                           : 90 7.8
cvt .bf16.bf16                              : 90 7.8
cvt ue5m3x2                                 : 107a 9.2
cvt s2f6x2                                  : 100a/103a/107a/110a/120a/121a 9.1
cvt pack                                    : 72 6.5
cvt pack s4|u4|s2|u2                        : 75 6.5

# Movement
mov b128                                    : 70 8.3
mapa|getctarank                             : 90 7.8
cvta|isspacep param                         : 70 7.7
ld|st b128                                  : 70 8.3
ld|st v8 $just_32                           : 100 8.8
ld|st v4 $just_64                           : 100 8.8
ld nc                                       : 32 3.1
ld relaxed|acquire                          : 70 6.0
st relaxed|release                          : 70 6.0
ld|st cluster                               : 90 7.8
ld|st mmio                                  : 70 8.2
ld|st $evict1                               : 70 7.4
ld|st L2::cache_hint                        : 80 7.4
ld L2::64B|L2::128B                         : 75 7.4
ld L2::256B                                 : 80 7.4
ld|st|atom|red|isspacep|cvta shared::cluster : 90 7.8
st async                                    : 90 8.1
st bulk                                     : 100 8.6
prefetch tensormap                          : 90 8.0
prefetch L2::evict_last|L2::evict_normal    : 80 7.4
applypriority|discard|createpolicy          : 80 7.4
cp async !bulk                              : 80 7.0
cp async L2::64B|L2::128B|L2::256B|L2::cache_hint !bulk : 80 7.4
cp async bulk                               : 90 8.0
mbarrier test_wait acquire|relaxed          : 80 8.0
mbarrier try_wait acquire|relaxed           : 90 8.0
cvt .f32.bf16                               : 80 7.1
tensormap replace                           : 90a/100f/110f/120f 8.3
tensormap cp_fenceproxy                     : 90 8.3
multimem                                    : 90 8.1

# Synchronisation and communication
shfl|vote !sync                             : <70@6.4 1.0
shfl|vote sync                              : 30 6.0
match                                       : 70 6.0
activemask                                  : 30 6.2
redux                                       : 80 7.0
redux f32                                   : 100f 8.6
elect                                       : 90 8.0
bar warp                                    : 30 6.0
barrier !cluster                            : 30 6.0
barrier cluster                             : 90 7.8
griddepcontrol                              : 90 7.8
fence                                       : 70 6.0
fence cluster                               : 90 7.8
fence acquire|release !proxy !mbarrier_init : 90 8.6
fence mbarrier_init                         : 90 8.0
fence tensormap::generic                    : 90 8.3
membar async                                : 90 8.0
fence proxy async                           : 90 8.0
fence mbarrier_init                         : 90 8.0
atom|red relaxed|acquire|release|acq_rel    : 70 5.0
atom|red cta|gpu|sys                        : 60 5.0
atom|red cluster                            : 90 7.8
atom|red add f64                            : 60 5.0
atom|red f16x2                              : 60 6.2
atom|red f16                                : 70 6.3
atom|red bf16|bf16x2                        : 90 7.8
atom cas b16                                : 70 6.3
atom b128                                   : 90 8.3
ld|st|atom|red|isspacep|cvta|mbarrier shared::cta : 30 7.8
ld proxy::readonly                          : 90 9.4
ld|st param::func                           : 70 8.3
prefetch L1::32B                            : 90 9.4
ld|st b128 sys                              : 70 8.4
ld|st volatile local                        : 30 9.1
fence alias acquire|release                 : 90 9.4
fence alias                                 : 70 7.5
fence generic::fabric|fabric::generic|fabric::fabric : 107a 9.4
mbarrier multicast::*                       : 107a 9.4
isspacep|cvta|ld|st param::entry|param::func : 70 7.7
atom|red $vec                               : 90 8.1
atom|red L2::cache_hint                     : 80 7.4
red async                                   : 90 8.1
mbarrier                                    : 80 7.0
mbarrier try_wait                           : 90 7.8
mbarrier expect_tx|complete_tx              : 90 8.0
mbarrier cluster|shared::cluster            : 90 8.0
mbarrier arrive|arrive_drop|test_wait relaxed : 90 8.0
mbarrier layout::*                          : 90 9.2
clusterlaunchcontrol                        : 100 8.6

# Control, stack, the rest
brx                                         : 30 6.0
alloca|stacksave|stackrestore               : 52 7.3
nanosleep                                   : 70 6.3
setmaxnreg                                  : 90a/100a/100f/101a/103a/110a/120a/120f 8.0

# Matrices
wmma                                        : 70 6.0
mma                                         : 70 6.4
mma sp|sp::*                                : 80 7.1
mma kind::*                                 : 120a/120f/121a 8.7
ldmatrix                                    : 75 6.5
stmatrix                                    : 90 7.8
movmatrix                                   : 75 7.8
wgmma                                       : 90a 8.0
tcgen05                                     : 100a/100f/101a/101f/103a/110a/110f 8.6
"""

SPECIAL_REGISTERS = """
%clock64 : 20 2.0
%globaltimer %globaltimer_lo %globaltimer_hi : 30 3.1
%lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt : 20 2.0
%total_smem_size %dynamic_smem_size : 20 4.1
%aggr_smem_size : 90 8.1
%clusterid %nclusterid %cluster_ctaid %cluster_nctaid : 90 7.8
%cluster_ctarank %cluster_nctarank %is_explicit_cluster : 90 7.8
%current_graph_exec : 50 8.0
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A ``.target`` such as ``sm_90a``: number 90, suffix ``a``."""

    number: int
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """What a form needs: one of ``targets`` (texts of the table), and a PTX version."""

    targets: tuple[str, ...]
    version: Version

    def error(self, target: Target, version: Version) -> str:
        """Return what is missing, to be put behind the form's name; "" if nothing is."""
        if not any(_meets(target, version, wanted) for wanted in self.targets):
            return f"needs {self._shown()}, the file's .target is {_name(target)}"
        if version < self.version:
            wanted, own = ("{}.{}".format(*one) for one in (self.version, version))
            return f"needs PTX {wanted}, the file's .version is {own}"
        return ""

    def _shown(self) -> str:
        (first, *others) = self.targets
        if first.startswith("<"):
            return f"a .target older than sm_{first[1:].partition('@')[0]}"
        if first.isdigit() and not others:
            return f".target sm_{first} or newer"
        return ".target " + " or ".join(f"sm_{one}" for one in self.targets)


def _name(target: Target) -> str:
    return f"sm_{target.number}{target.suffix}"


def _meets(target: Target, version: Version, wanted: str) -> bool:
    if wanted.startswith("<"):
        newer, _, since = wanted[1:].partition("@")
        return target.number < int(newer) or version < _version(since)
    if wanted.isdigit():
        return target.number >= int(wanted)
    number = int(wanted[:-1])
    if wanted.endswith("a"):
        return target == Target(number, "a")
    same_family = target.number // 10 == number // 10 and target.number >= number
    return same_family and target.suffix in ("a", "f")


@dataclass(frozen=True, slots=True)
class Condition:
    """Words that have to stand among the modifiers of a form, or must not."""

    wanted: tuple[frozenset[str], ...]
    prefixes: tuple[str, ...]
    absent: frozenset[str]
    end: tuple[str, ...]

    def __call__(self, modifiers: tuple[str, ...]) -> bool:
        """Return whether ``modifiers``, without their dots, meet it."""
        return (
            (not self.end or modifiers[-len(self.end) :] == self.end)
            and all(not words.isdisjoint(modifiers) for words in self.wanted)
            and self.absent.isdisjoint(modifiers)
            and (not self.prefixes or any(word.startswith(self.prefixes) for word in modifiers))
        )


@dataclass(frozen=True, slots=True)
class _Row:
    applies: Condition
    need: Need


def needs(opcode: str, modifiers: tuple[str, ...]) -> list[Need]:
    """Return what an instruction needs; ``modifiers`` are without their dots."""
    return [row.need for row in _rows().get(opcode, ()) if row.applies(modifiers)]


def need_of_special(name: str) -> Need | None:
    """Return what a special register needs."""
    return _specials().get(name)


@cache
def _rows() -> dict[str, tuple[_Row, ...]]:
    found: dict[str, list[_Row]] = defaultdict(list)
    for line in _lines(REQUIREMENTS):
        form, _, need = line.partition(" : ")
        opcodes, *tokens = form.split()
        row = _Row(condition(tokens), _need(need))
        for opcode in opcodes.split("|"):
            found[opcode].append(row)
    return {opcode: tuple(rows) for opcode, rows in found.items()}


@cache
def _specials() -> dict[str, Need]:
    found = {}
    for line in _lines(SPECIAL_REGISTERS):
        names, _, need = line.partition(" : ")
        found.update(dict.fromkeys(names.split(), _need(need)))
    return found


def _lines(table: str) -> list[str]:
    return [line for line in table.splitlines() if line and not line.startswith("#")]


def _need(text: str) -> Need:
    targets, version = text.split()
    return Need(tuple(targets.split("/")), _version(version))


def _version(text: str) -> Version:
    major, minor = text.split(".")
    return int(major), int(minor)


def condition(tokens: list[str]) -> Condition:
    """Read the words of a row of this table, or of ``signatures``."""
    wanted, prefixes, absent = [], [], set[str]()
    end: tuple[str, ...] = ()
    for token in tokens:
        if token.startswith("."):
            end = tuple(token[1:].split("."))
            continue
        words = set[str]()
        for word in token.split("|"):
            if word.startswith("!"):
                absent.add(word[1:])
            elif word.startswith("$"):
                words |= CLASSES[word[1:]]
            elif word.endswith("*"):
                prefixes.append(word[:-1])
            else:
                words.add(word)
        if "*" in token:
            prefixes += words
        elif words:
            wanted.append(frozenset(words))
    return Condition(tuple(wanted), tuple(prefixes), frozenset(absent), end)
