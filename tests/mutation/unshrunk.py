"""A pytest plugin: Hypothesis as a mutation needs it, by default.

A counterexample ends a trial; making it smaller takes minutes and changes nothing. The same
examples are tried each time, so that a trial can be repeated, and a busy machine is no failure.
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
