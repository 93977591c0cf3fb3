"""A short run of the fuzzer of memory operations; ``make fuzz memory=1`` runs a long one."""

from support.fuzzers.memory_shadow import Shadow

STEPS = 1500


def test_random_operations_leave_the_memory_as_expected(driver):
    shadow = Shadow(driver, seed=26)
    shadow.run(STEPS)
    assert sum(shadow.counts.values()) > STEPS * 0.9
    assert len(shadow.counts) == 10, "every operation was chosen"
