"""A pytest plugin: Hypothesis's default settings for mutation trials.

A counterexample ends a trial; shrinking it takes minutes and does not change the verdict. The
examples are the same each time, so that a trial can be repeated, and slowness on a busy machine
is not a failure.
"""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "unshrunk",
    phases=(Phase.explicit, Phase.generate),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=(HealthCheck.too_slow,),
)
settings.load_profile("unshrunk")
