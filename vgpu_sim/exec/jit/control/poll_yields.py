"""Yields at the latch of a polling loop: at intervals, the group yields to other groups.

The number of iterations until the next yield (the credit) is stored in the thread state. The
scheduler renews it on every switch. An iteration costs one decrement in memory, whatever values
are in registers.
"""

from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.launch import THREAD_STOP, THREAD_TURNS, EntryArguments


def consume_credit(text: Text, launch: EntryArguments) -> None:
    """Emit code that decrements the credit, the number of iterations that remain until the next
    yield.

    If no credit is left, the code yields to other groups. The scheduler then renews the credit.
    """
    with text.known.open_scope():
        place = text.let(f"getelementptr i8, ptr %thread, i64 {THREAD_TURNS}")
        left = text.let(f"load i32, ptr {place}, align 4")
        left = text.let(f"add i32 {left}, -1")
        text.do(f"store i32 {left}, ptr {place}, align 4")
        spent = text.let(f"icmp eq i32 {left}, 0")
        yield_label, onward = text.label("rests"), text.label("onward")
        text.branch(spent, yield_label, onward)
        text.begin(yield_label, follows=True)
        text.do(f"call void {launch.thread(THREAD_STOP, 'ptr')}(ptr %thread, i64 0)")
        text.jump(onward)
        text.begin(onward, follows=True)
