"""The statement on the accuracy of predictions for users' kernels, which output and pages repeat.

``docs/silicon.md`` has the comparison. A test checks that the figures here are those of its table.
"""

from typing import Final

KERNELS: Final = 120
MEDIAN_PERCENT: Final = 15
STATEMENT: Final = (
    f"on an H100, the median error of {KERNELS} kernels is {MEDIAN_PERCENT} %, but some classes are"
    " wrong by more than a factor of 2; no other board was compared"
)
