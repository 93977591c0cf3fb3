"""At the end of a polling loop's turn: now and then the group lets others run.

What is left of its credit stands in the thread state, where whoever it lets run renews it: so a
turn costs one decrement in memory, whatever lives in registers.
"""

from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.launch import THREAD_STOP, THREAD_TURNS, EntryArguments


def take(text: Text, launch: EntryArguments) -> None:
    """Take one turn off the credit; with the last one let others run, which renews it."""
    with text.known.within():
        place = text.let(f"getelementptr i8, ptr %thread, i64 {THREAD_TURNS}")
        left = text.let(f"load i32, ptr {place}, align 4")
        left = text.let(f"add i32 {left}, -1")
        text.do(f"store i32 {left}, ptr {place}, align 4")
        spent = text.let(f"icmp eq i32 {left}, 0")
        rest, onward = text.label("rests"), text.label("onward")
        text.branch(spent, rest, onward)
        text.begin(rest, follows=True)
        text.do(f"call void {launch.thread(THREAD_STOP, 'ptr')}(ptr %thread, i64 0)")
        text.jump(onward)
        text.begin(onward, follows=True)
