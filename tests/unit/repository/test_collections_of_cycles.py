"""How often this test process searches for reference cycles."""

import gc

from support.watches.collections_of_cycles import THRESHOLD


def test_collected_tests_are_exempt_and_searches_are_rare() -> None:
    assert gc.isenabled()
    assert gc.get_threshold()[0] == THRESHOLD
    assert gc.get_freeze_count() > THRESHOLD
