"""The LLVM module of a kernel: the loops over blocks and groups, around the kernel's versions.

``entry`` loops over linear block indices and groups, and contains the fast version inline. The
masked version (for groups that some lanes leave at a top-level guard) and the exact one (lane by
lane, for groups in which a widened index wraps around) are separate functions, called rarely. Both
return 1 after a TRAP, else 0; ``entry`` returns nothing.

If the threads of a block wait for each other and a block consists of several groups, ``entry``
runs one group of one block, and a single other version serves both cases: lanes that wait for
each other cannot run one after another.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from vgpu_sim.exec.jit.analysis import nans
from vgpu_sim.exec.jit.analysis.assumptions import Fallback
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis, analyse
from vgpu_sim.exec.jit.control import block_indices
from vgpu_sim.exec.jit.control.nodes import Nodes
from vgpu_sim.exec.jit.control.prefetch import Prefetch
from vgpu_sim.exec.jit.control.regions import Regions
from vgpu_sim.exec.jit.control.vector_order import arrange
from vgpu_sim.exec.jit.emission import thread_indices
from vgpu_sim.exec.jit.emission.emitter import Emitter, Specials
from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.memory import combined_sums, shared_memory
from vgpu_sim.exec.jit.memory.local_memory import LocalMemory
from vgpu_sim.exec.jit.memory.lowering import Memory
from vgpu_sim.exec.jit.numbers.known_values import known_values
from vgpu_sim.exec.jit.planning import row_order, versions
from vgpu_sim.exec.jit.planning.plan import Plan
from vgpu_sim.exec.jit.progress import polling_loops, wait_points
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.exec.jit.text.masks import FULL, MaskWriter
from vgpu_sim.exec.jit.text.writer import Shared, Text
from vgpu_sim.exec.jit.values import environment
from vgpu_sim.exec.jit.values.bound_tests import Bounds
from vgpu_sim.exec.jit.values.launch import THREAD_BLOCK, THREAD_BLOCK_INDEX, EntryArguments
from vgpu_sim.isa import Module, has_stack

ENTRY = "entry"
_SIGNATURE = "ptr noalias %ctx, ptr noalias %params, ptr noalias %thread"
_ARGUMENTS = "ptr %ctx, ptr %params, ptr %thread"
_BLOCK = "i32 %cx, i32 %cy, i32 %cz"
_CALLS_STACK_BYTES = 4096


class Assembler:
    """Generator of the LLVM text of one kernel under one plan."""

    def __init__(
        self,
        module: Module,
        ssa: SsaFunction,
        geometry: Geometry,
        plan: Plan,
        *,
        embedded_rounding: bool,
    ) -> None:
        self._module = module
        self._ssa = ssa
        self._geometry = geometry
        self.plan = plan
        self._shared = Shared(embedded_rounding)
        self._nans = nans.NanPlan(ssa, lanes_alone=geometry.span == 1)
        self._types = environment.storage_types(ssa, self._nans)
        self._functions: list[str] = []
        self._exact_needed = False
        waits = wait_points.waits(ssa) or wait_points.lanes_wait(ssa, geometry)
        self._together = versions.has_waiting_lanes(ssa, geometry)
        # Lanes of a group that arrives at counted barriers, or its cluster's; 0: there are none.
        counted = wait_points.needs_counting(ssa, geometry) or wait_points.meets_peers(ssa)
        self.counts = geometry.span if counted else 0
        self.polls = polling_loops.polls_or_pauses(ssa)
        # Whether ``entry`` is called once per group.
        self.stops = self.counts > 0 or self.polls or (waits and geometry.groups > 1)
        self.fast = versions.analyse_fast_version(ssa, geometry, versioned=plan.versioned)
        # The bit width of sums that ``combined_sums`` may delay; 0 if there are none.
        self._combined = 0
        if not (self._together or self.stops or plan.tier == 0 or geometry.width == 1):
            self._combined = combined_sums.element_bits(self.fast)
        self._by_rows = (
            plan.tier > 0 and not self.stops and row_order.may_run_by_rows(ssa, geometry)
        )
        self._offsets = {variable.name: variable.offset for variable in module.variables}
        self._known = known_values(ssa, self._offsets)

    def text(self) -> str:
        """Return the LLVM text of the whole module."""
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
        # A group's stack is small: no frame may be so large that it skips the guard page below it.
        probe = ' "probe-stack"="inline-asm"' if self.stops else ""
        return (
            f"{declarations}\n\n"
            + "\n\n".join([*shared.helpers.values(), *self._functions])
            + "\n\n"
            f'attributes #0 = {{ nounwind "prefer-vector-width"="512"{probe} }}\n'
            f'attributes #1 = {{ nounwind noinline "prefer-vector-width"="512"{probe} }}\n'
            "!llvm.module.flags = !{!1, !2}\n!llvm.dbg.cu = !{!4}\n" + metadata + "\n"
        )

    @property
    def stack_bytes(self) -> int:
        """The stack size in bytes that a group may need. It is computed as if every value had a
        slot on the stack.

        Valid only after ``text`` has returned.
        """
        functions = [*self._functions, *self._shared.helpers.values()]
        values = sum(function.count("\n") for function in functions)
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
        return "\n".join([*lines, *arrange(text, self.plan.tier), "}"])

    def _offset_of(self, name: str) -> int:
        return self._offsets[name]

    def _version(
        self,
        text: Text,
        analysis: Analysis,
        first: str,
        block: tuple[str, str, str],
        end_label: str,
        *,
        whole: bool = True,
        table: combined_sums.Table | None = None,
    ) -> None:
        """Emit one version of the kernel into ``text``; it branches to ``end_label`` at its end.

        ``whole`` states that all lanes of its groups are threads.
        """
        labels = {"done": end_label} | {
            label: label for label in ("trap", "restart", "masked", "stop")
        }
        emitter, local = self._emitter(text, analysis, first, block, labels, table)
        local.clear()
        store, masks = emitter.values, emitter.masks
        present = (
            FULL
            if whole
            else thread_indices.present_lanes(text, analysis.geometry, emitter.specials)
        )
        bounds = Bounds(store) if self.plan.tier else None
        nodes = Nodes(emitter, Prefetch(emitter, iterations=self.stops and self.plan.tier > 0))
        Regions(text, store, masks, nodes, self._nans, labels, bounds).write(present)

    def _emitter(
        self,
        text: Text,
        analysis: Analysis,
        first: str,
        block: tuple[str, str, str],
        labels: Mapping[str, str] = MappingProxyType({}),
        table: combined_sums.Table | None = None,
    ) -> tuple[Emitter, LocalMemory]:
        launch = EntryArguments(text, self._offset_of)
        store = environment.Values(text, analysis, self._nans, self._types, launch.symbol)
        masks = MaskWriter(text, analysis.geometry.vectors)
        function, stack = self._ssa.function, has_stack(self._ssa.function)
        local = LocalMemory(text, store, masks, launch, function.local_bytes, has_stack=stack)
        memory = Memory(text, store, masks, launch, self._known, local, table)
        specials = Specials(
            first, thread_indices.slot_indices(text, analysis.geometry, first), block
        )
        return Emitter(text, store, memory, masks, launch, self._nans, specials, labels), local

    def _entry(self) -> None:
        text, subprogram = self._begin(ENTRY, self._geometry.width)
        with text.in_prologue():
            grid = block_indices.load_grid_sizes(text)
            text.do("%none = icmp uge i64 %begin, %end")
            start = block_indices.block_indices_at(text, grid, "%begin")
        text.begin("start")
        text.branch("%none", "leave", "blocks")
        text.begin("blocks")
        names = ("%block", "%cx", "%cy", "%cz")
        rows = row_order.RowOrder(text, self._geometry) if self._by_rows else None
        places = [text.reserve() for _ in names]
        if rows is not None:
            rows.begin(grid)
        text.do(f"%current = getelementptr i8, ptr %thread, i64 {THREAD_BLOCK}")
        text.do("store i64 %block, ptr %current, align 8")
        shared_memory.clear(text, self._ssa)
        if self._together and self._geometry.groups == 1 and self.plan.tier:
            following = block_indices.following_indices(text, grid, names[1:])
            Prefetch(self._emitter(text, self.fast, "0", following)[0]).next_block()
        table = combined_sums.Table(text, self._combined) if self._combined else None
        if rows is None:
            self._groups(text, table)
        else:
            self._groups(text, table, rows.groups, "block_done")
            rows.end()
        text.begin("next")
        block_indices.advance(text, grid, places, start, names if rows is None else rows.names)
        text.begin("leave")
        if table is not None:
            table.write_sums()
        text.do("ret void")
        text.begin("trap")
        text.do("ret void")
        text.begin("stop")
        text.do("ret void")
        head = f"void @{ENTRY}(ptr noalias %ctx, ptr noalias %params, i64 %begin, i64 %end,"
        head += " ptr noalias %thread) #0"
        # The first function is at the start of the code section: ``Loaded`` relies on that.
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
        self._whole_or_not(text)
        self._waiting_versions(text)
        text.begin("grouped")
        text.do("ret void")
        text.begin("trap")
        text.do("ret void")
        text.begin("stop")
        text.do("ret void")
        head = f"void @{ENTRY}(ptr noalias %ctx, ptr noalias %params, i64 %group,"
        head += " ptr noalias %thread) #0"
        self._functions.insert(0, self._finish(text, subprogram, head, "start"))

    def _groups(
        self,
        text: Text,
        table: combined_sums.Table | None,
        groups: tuple[str, str] | None = None,
        end_label: str = "next",
    ) -> None:
        """Emit the loop over a block's groups, or over the threads in ``groups`` if given."""
        geometry = self._geometry
        start, stop = groups or ("0", str(geometry.slots))

        def begin(label: str) -> None:
            text.begin(label)
            if table is not None:
                table.write_sums()

        begun = text.block_label
        text.jump("group")
        text.begin("group")
        place = text.reserve()
        self._whole_or_not(text, table)
        if self._together:
            self._waiting_versions(text)
        elif self._needs_masked():
            begin("masked")
            self._call_masked(text)
        if self._sometimes_lacks and not self._together:
            begin("partial")
            self._function("partial_version", self._partial_analysis(), whole=False)
            self._call(text, "partial_version", "%first", "stop")
            text.jump("grouped")
        if self.fast.falls_back(Fallback.LANES) and not self._together:
            begin("restart")
            self._call_exact(text, self.fast)
        text.begin("grouped")
        text.do(f"%following = add i32 %first, {geometry.span}")
        text.do(f"%more = icmp ult i32 %following, {stop}")
        text.branch("%more", "group", end_label)
        text.fill(place, "%first", "i32", [(start, begun), ("%following", "grouped")])

    @property
    def _sometimes_lacks(self) -> bool:
        return self._geometry.lacks_lanes and not self._geometry.always_lacks

    def _partial_analysis(self) -> Analysis:
        return Analysis(self._ssa, self._geometry, assume_guards=False)

    def _whole_or_not(self, text: Text, table: combined_sums.Table | None = None) -> None:
        """Emit the fast version; if there are partial groups, a test for whole groups guards it."""
        if self._sometimes_lacks:
            text.branch(thread_indices.is_whole(text, self._geometry, "%first"), "whole", "partial")
            text.begin("whole", follows=True)
        whole = not self._geometry.always_lacks
        block = ("%cx", "%cy", "%cz")
        self._version(text, self.fast, "%first", block, "grouped", whole=whole, table=table)

    def _waiting_versions(self, text: Text) -> None:
        """Emit the code to which the fast version branches, for kernels whose lanes wait."""
        needed_versions = {
            "masked": self._needs_masked(),
            "restart": self.fast.falls_back(Fallback.LANES),
            "partial": self._sometimes_lacks,
        }
        labels = [label for label, needed in needed_versions.items() if needed]
        if labels:
            exact = Analysis(self._ssa, self._geometry, assume_guards=False, may_restart=False)
            self._function("exact_version", exact, whole=not self._geometry.lacks_lanes)
        for label in labels:
            text.begin(label)
            shared_memory.clear_again(text, None if label == "partial" else self.fast)
            self._call(text, "exact_version", "%first", "stop")
            text.jump("grouped")

    def _needs_masked(self) -> bool:
        """Return whether the masked version is needed: an assumption or guard may fail."""
        blocks = self._ssa.blocks
        return self.fast.falls_back(Fallback.MASKS) or any(
            (condition := blocks[b].condition) is not None
            and not self.fast.is_uniform(condition, b)
            for b in self.fast.assumed
        )

    def _call_masked(self, text: Text) -> None:
        shared_memory.clear_again(text, self.fast)
        vectors = 2 if self._geometry.vectors % 2 == 0 else 1
        geometry = replace(self._geometry, vectors=vectors)
        if not geometry.is_legal:
            geometry = replace(self._geometry, vectors=1)
        analysis = analyse(self._ssa, geometry, assume_guards=False)
        lacks = self._geometry.always_lacks
        self._function("masked_version", analysis, whole=not lacks)
        for part in range(0, self._geometry.span, geometry.span):
            if lacks and self._geometry.linear and part >= self._geometry.threads:
                break  # the only group: no threads beyond this lane
            offset = text.let(f"add i32 %first, {part}")
            self._call(text, "masked_version", offset, "stop")
        text.jump("grouped")

    def _call(self, text: Text, name: str, first: str, stop: str) -> None:
        block = "i32 %cx, i32 %cy, i32 %cz"
        failed = text.let(f"call i1 @{name}({_ARGUMENTS}, {block}, i32 {first})")
        onward = text.label("called")
        text.branch(failed, stop, onward)
        text.begin(onward, follows=True)

    def _call_exact(self, text: Text, started: Analysis) -> None:
        shared_memory.clear_again(text, started)
        if not self._exact_needed:
            self._exact_needed = True
            geometry = Geometry(self._geometry.block, 1, 1)
            self._function("exact_version", analyse(self._ssa, geometry, assume_guards=False))
        origin, lane = text.block_label, text.label("lane")
        text.jump(lane)
        text.begin(lane)
        place, counter = text.reserve(), text.name()
        first = text.let(f"add i32 %first, {counter}")
        if self._geometry.lacks_lanes:
            self._call_if_there(text, first, "stop")
        else:
            self._call(text, "exact_version", first, "stop")
        following = text.let(f"add i32 {counter}, 1")
        has_more_lanes = text.let(f"icmp ult i32 {following}, {started.geometry.span}")
        text.fill(place, counter, "i32", [("0", origin), (following, text.block_label)])
        text.branch(has_more_lanes, lane, "grouped")

    def _call_if_there(self, text: Text, slot: str, stop: str) -> None:
        """Call the exact version for one slot of the group, if a thread occupies it."""
        exists, thread = thread_indices.thread_of(text, self._geometry, slot)
        call_label, onward = text.label("there"), text.label("counted")
        text.branch(exists, call_label, onward)
        text.begin(call_label, follows=True)
        self._call(text, "exact_version", thread, stop)
        text.jump(onward)
        text.begin(onward, follows=True)

    def _function(self, name: str, analysis: Analysis, *, whole: bool = True) -> None:
        text, subprogram = self._begin(name, analysis.geometry.width)
        text.begin("start")
        block = ("%cx", "%cy", "%cz")
        self._version(text, analysis, "%first", block, "grouped", whole=whole)
        if analysis.falls_back(Fallback.LANES):
            text.begin("restart")
            self._call_exact(text, analysis)
        text.begin("grouped")
        text.do("ret i1 false")
        text.begin("trap")
        text.do("ret i1 true")
        text.begin("stop")
        text.do("ret i1 true")
        head = f"internal i1 @{name}({_SIGNATURE}, {_BLOCK}, i32 %first) #1"
        self._functions.append(self._finish(text, subprogram, head, "start"))
