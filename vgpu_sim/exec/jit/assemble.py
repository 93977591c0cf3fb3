"""The LLVM module of a kernel: the loop over blocks and groups around its versions.

``entry`` loops over linear block indices and groups and holds the fast version in line. The masked
version (for groups that some lanes leave at a top guard) and the exact one (lane by lane, for
groups in which a widened index wraps around) are functions of their own, called rarely. All return
1 after a TRAP, 0 else; ``entry`` returns nothing.

Where the threads of a block wait for each other, and a block is more than one group, ``entry`` runs
one group of one block, and there is one other version, for both cases: lanes that wait together
cannot be run one after the other.
"""

from dataclasses import replace

from vgpu_sim.exec.jit import nans, stops, values
from vgpu_sim.exec.jit.analysis import Analysis
from vgpu_sim.exec.jit.emitter import Emitter, Specials
from vgpu_sim.exec.jit.geometry import Geometry
from vgpu_sim.exec.jit.launch import (
    CONTEXT_GRID,
    STATUS_LAUNCH_FAILED,
    THREAD_BLOCK,
    THREAD_BLOCK_INDEX,
    THREAD_STATUS,
    EntryArguments,
)
from vgpu_sim.exec.jit.masks import MaskWriter
from vgpu_sim.exec.jit.memory import Memory
from vgpu_sim.exec.jit.nodes import Nodes
from vgpu_sim.exec.jit.plan import Plan
from vgpu_sim.exec.jit.provenance import Provenance
from vgpu_sim.exec.jit.regions import Regions
from vgpu_sim.exec.jit.ssa import SsaFunction
from vgpu_sim.exec.jit.text import Shared, Text
from vgpu_sim.isa import Module

ENTRY = "entry"
_SIGNATURE = "ptr noalias %ctx, ptr noalias %params, ptr noalias %thread"
_ARGUMENTS = "ptr %ctx, ptr %params, ptr %thread"
_BLOCK = "i32 %cx, i32 %cy, i32 %cz"
_CALLS_STACK_BYTES = 4096


class Assembler:
    """Builds the text of one kernel under one plan."""

    def __init__(self, module: Module, ssa: SsaFunction, geometry: Geometry, plan: Plan) -> None:
        self._module = module
        self._ssa = ssa
        self._geometry = geometry
        self.plan = plan
        self._shared = Shared()
        self._nans = nans.NanPlan(ssa)
        self._types = values.storage_types(ssa, self._nans)
        self._functions: list[str] = []
        self._exact_needed = False
        self._waits = any(stops.stops(ssa))
        # Whether groups are called one by one.
        self.counts = stops.counted(ssa)
        self.stops = self._waits and (geometry.groups > 1 or self.counts)
        self.fast = Analysis(ssa, geometry, assume_guards=plan.versioned)
        self._offsets = {variable.name: variable.offset for variable in module.variables}
        self._provenance = Provenance(ssa, self._offsets)

    def text(self) -> str:
        """Return the whole module."""
        shared = self._shared
        shared.add_metadata("!{}")
        shared.add_metadata('!{i32 2, !"Debug Info Version", i32 3}')
        shared.add_metadata('!{i32 2, !"Dwarf Version", i32 4}')
        shared.add_metadata('!DIFile(filename: "kernel", directory: "")')
        shared.add_metadata(
            "distinct !DICompileUnit(language: DW_LANG_C99, file: !3,"
            " isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)"
        )
        shared.add_metadata("!DISubroutineType(types: !0)")
        if self.stops:
            self._group_entry()
        else:
            self._entry()
        declarations = "\n".join(sorted(shared.declarations))
        metadata = "\n".join(f"!{n} = {node}" for n, node in enumerate(shared.metadata))
        # A group's stack is small: no frame may step over the guard below it.
        probe = ' "probe-stack"="inline-asm"' if self.stops else ""
        return (
            f"{declarations}\n\n" + "\n\n".join(self._functions) + "\n\n"
            f'attributes #0 = {{ nounwind "prefer-vector-width"="512"{probe} }}\n'
            f'attributes #1 = {{ nounwind noinline "prefer-vector-width"="512"{probe} }}\n'
            "!llvm.module.flags = !{!1, !2}\n!llvm.dbg.cu = !{!4}\n" + metadata + "\n"
        )

    @property
    def stack_bytes(self) -> int:
        """How much stack a group needs at most, after ``text``: every value has a place there."""
        values = sum(function.count("\n") for function in self._functions)
        return _CALLS_STACK_BYTES + values * 8 * self._geometry.width

    def _begin(self, name: str, width: int) -> tuple[Text, int]:
        subprogram = self._shared.add_metadata(
            f'distinct !DISubprogram(name: "{name}", scope: !3, file: !3, line: 1, type: !5,'
            " unit: !4, spFlags: DISPFlagDefinition | DISPFlagOptimized)"
        )
        return Text(self._shared, subprogram, width), subprogram

    def _finish(self, text: Text, subprogram: int, head: str, first_label: str) -> str:
        lines = [f"define {head} !dbg !{subprogram} {{", "entry:", *text.prologue]
        lines += [f"  br label %{first_label}, !dbg !{self._shared.location(1, subprogram)}"]
        return "\n".join([*lines, *text.body, "}"])

    def _offset_of(self, name: str) -> int:
        return self._offsets[name]

    def _version(
        self,
        text: Text,
        analysis: Analysis,
        first: str,
        block: tuple[str, str, str],
        done: str,
    ) -> None:
        """Write one version at the present place; it runs on to ``done``."""
        labels = {"done": done, "trap": "trap", "restart": "restart", "masked": "masked"}
        launch = EntryArguments(text, self._offset_of)
        store = values.Values(text, analysis, self._nans, self._types, launch.symbol)
        masks = MaskWriter(text, analysis.geometry.strips)
        memory = Memory(text, store, masks, launch, self._provenance)
        specials = Specials(first, self._bases(text, first), block)
        emitter = Emitter(text, store, memory, masks, launch, self._nans, specials, labels)
        Regions(text, store, masks, Nodes(emitter), self._nans, labels).write()

    def _bases(self, text: Text, first: str) -> tuple[str, str, str]:
        """Return the thread indices of a group's first lane."""
        x, y, z = self._geometry.block
        column, row, plane = first, "0", "0"
        if y > 1 or z > 1:
            column = text.let(f"urem i32 {first}, {x}")
            row = text.let(f"udiv i32 {first}, {x}")
        if z > 1:
            plane = text.let(f"udiv i32 {row}, {y}")
            row = text.let(f"urem i32 {row}, {y}")
        return column, row, plane

    def _entry(self) -> None:
        text, subprogram = self._begin(ENTRY, self._geometry.width)
        with text.in_prologue():
            grid = [self._grid_size(text, axis) for axis in range(3)]
            text.do("%none = icmp uge i64 %begin, %end")
            start = self._first_block(text, grid)
        text.begin("start")
        text.branch("%none", "leave", "blocks")
        text.begin("blocks")
        places, names = [text.reserve() for _ in range(4)], ["%block", "%cx", "%cy", "%cz"]
        text.do(f"%current = getelementptr i8, ptr %thread, i64 {THREAD_BLOCK}")
        text.do("store i64 %block, ptr %current, align 8")
        self._groups(text)
        text.begin("next")
        self._advance(text, grid, places, names, start)
        text.begin("leave")
        text.do("ret void")
        text.begin("trap")
        self._store_status(text)
        text.do("ret void")
        text.begin("stop")
        text.do("ret void")
        head = f"void @{ENTRY}(ptr noalias %ctx, ptr noalias %params, i64 %begin, i64 %end,"
        head += " ptr noalias %thread) #0"
        # First, so that it stands where the code section begins: ``Loaded`` relies on that.
        self._functions.insert(0, self._finish(text, subprogram, head, "start"))

    def _group_entry(self) -> None:
        text, subprogram = self._begin(ENTRY, self._geometry.width)
        with text.in_prologue():
            text.do("%number = trunc i64 %group to i32")
            text.do(f"%first = mul i32 %number, {self._geometry.span}")
            for axis, name in enumerate(("%cx", "%cy", "%cz")):
                place = text.let(
                    f"getelementptr i8, ptr %thread, i64 {THREAD_BLOCK_INDEX + 4 * axis}"
                )
                text.do(f"{name} = load i32, ptr {place}, align 4")
        text.begin("start")
        self._version(text, self.fast, "%first", ("%cx", "%cy", "%cz"), "grouped")
        self._waiting_versions(text)
        text.begin("grouped")
        text.do("ret void")
        text.begin("trap")
        self._store_status(text)
        text.do("ret void")
        text.begin("stop")
        text.do("ret void")
        head = f"void @{ENTRY}(ptr noalias %ctx, ptr noalias %params, i64 %group,"
        head += " ptr noalias %thread) #0"
        self._functions.insert(0, self._finish(text, subprogram, head, "start"))

    def _grid_size(self, text: Text, axis: int) -> str:
        address = text.let(f"getelementptr i8, ptr %ctx, i64 {CONTEXT_GRID + 4 * axis}")
        return text.let(f"load i32, ptr {address}, align 4, !invariant.load !0")

    def _first_block(self, text: Text, grid: list[str]) -> tuple[str, ...]:
        """Block indices of ``%begin``: x fastest."""
        rest, indices = "%begin", []
        for size in grid[:2]:
            wide = text.let(f"zext i32 {size} to i64")
            # An empty grid never gets here with blocks to run, but must not divide by zero.
            wide = text.intrinsic("umax", "i64", False, wide, "1")
            index = text.let(f"urem i64 {rest}, {wide}")
            indices.append(text.let(f"trunc i64 {index} to i32"))
            rest = text.let(f"udiv i64 {rest}, {wide}")
        return (*indices, text.let(f"trunc i64 {rest} to i32"))

    def _groups(self, text: Text) -> None:
        geometry = self._geometry
        text.jump("group")
        text.begin("group")
        place = text.reserve()
        self._version(text, self.fast, "%first", ("%cx", "%cy", "%cz"), "grouped")
        if self._waits:
            self._waiting_versions(text)
        elif self._guarded():
            text.begin("masked")
            self._call_masked(text)
        if self.fast.checked and not self._waits:
            text.begin("restart")
            self._call_exact(text, geometry.span, "grouped", "stop")
        text.begin("grouped")
        text.do(f"%following = add i32 %first, {geometry.span}")
        text.do(f"%more = icmp ult i32 %following, {geometry.threads}")
        text.branch("%more", "group", "next")
        text.fill(place, "%first", "i32", [("0", "blocks"), ("%following", "grouped")])

    def _waiting_versions(self, text: Text) -> None:
        """Write what the fast version of lanes that wait for each other leads to."""
        wanted = {"masked": self._guarded(), "restart": bool(self.fast.checked)}
        labels = [label for label, needed in wanted.items() if needed]
        if labels:
            exact = Analysis(self._ssa, self._geometry, assume_guards=False, may_restart=False)
            self._function("exact_version", exact)
        for label in labels:
            text.begin(label)
            self._call(text, "exact_version", "%first", "stop")
            text.jump("grouped")

    def _guarded(self) -> bool:
        """Return whether some assumed guard may send single lanes away."""
        blocks = self._ssa.blocks
        return any(
            (condition := blocks[b].condition) is not None and not self.fast.uniform(condition, b)
            for b in self.fast.assumed
        )

    def _call_masked(self, text: Text) -> None:
        strips = 2 if self._geometry.strips % 2 == 0 else 1
        geometry = replace(self._geometry, strips=strips)
        if not geometry.legal:
            geometry = replace(self._geometry, strips=1)
        self._function("masked_version", Analysis(self._ssa, geometry, assume_guards=False))
        for part in range(self._geometry.span // geometry.span):
            offset = text.let(f"add i32 %first, {part * geometry.span}")
            self._call(text, "masked_version", offset, "stop")
        text.jump("grouped")

    def _call(self, text: Text, name: str, first: str, stop: str) -> None:
        block = "i32 %cx, i32 %cy, i32 %cz"
        failed = text.let(f"call i1 @{name}({_ARGUMENTS}, {block}, i32 {first})")
        onward = text.label("called")
        text.branch(failed, stop, onward)
        text.begin(onward, follows=True)

    def _call_exact(self, text: Text, span: int, done: str, stop: str) -> None:
        if not self._exact_needed:
            self._exact_needed = True
            geometry = Geometry(self._geometry.block, 1, 1)
            self._function("exact_version", Analysis(self._ssa, geometry, assume_guards=False))
        origin, lane = text.block_label, text.label("lane")
        text.jump(lane)
        text.begin(lane)
        place, counter = text.reserve(), text.name()
        first = text.let(f"add i32 %first, {counter}")
        self._call(text, "exact_version", first, stop)
        following = text.let(f"add i32 {counter}, 1")
        more = text.let(f"icmp ult i32 {following}, {span}")
        ways = [("0", origin), (following, text.block_label)]
        text.fill(place, counter, "i32", ways)
        text.branch(more, lane, done)

    def _function(self, name: str, analysis: Analysis) -> None:
        text, subprogram = self._begin(name, analysis.geometry.width)
        text.begin("start")
        self._version(text, analysis, "%first", ("%cx", "%cy", "%cz"), "grouped")
        if analysis.checked:
            text.begin("restart")
            self._call_exact(text, analysis.geometry.span, "grouped", "stop")
        text.begin("grouped")
        text.do("ret i1 false")
        text.begin("trap")
        self._store_status(text)
        text.do("ret i1 true")
        text.begin("stop")
        text.do("ret i1 true")
        head = f"internal i1 @{name}({_SIGNATURE}, {_BLOCK}, i32 %first) #1"
        self._functions.append(self._finish(text, subprogram, head, "start"))

    @staticmethod
    def _store_status(text: Text) -> None:
        address = text.let(f"getelementptr i8, ptr %thread, i64 {THREAD_STATUS}")
        text.do(f"store i32 {STATUS_LAUNCH_FAILED}, ptr {address}, align 4")

    def _advance(
        self,
        text: Text,
        grid: list[str],
        places: list[int],
        names: list[str],
        start: tuple[str, ...],
    ) -> None:
        """Step to the next block index, carrying from x to y to z."""
        text.do("%after = add i64 %block, 1")
        following: list[str] = []
        carry, stepped = "true", ""
        for name, size in zip(names[1:], grid, strict=True):
            step = text.let(f"zext i1 {carry} to i32")
            stepped = text.let(f"add i32 {name}, {step}")
            full = text.let(f"icmp uge i32 {stepped}, {size}")
            carry = full
            following.append(text.let(f"select i1 {full}, i32 0, i32 {stepped}"))
        following[2] = stepped
        text.do("%unfinished = icmp ult i64 %after, %end")
        text.branch("%unfinished", "blocks", "leave")
        values_ = [("%begin", "%after"), *zip(start, following, strict=True)]
        for place, name, (first, later) in zip(places, names, values_, strict=True):
            type_ = "i64" if name == "%block" else "i32"
            text.fill(place, name, type_, [(first, "start"), (later, "next")])
