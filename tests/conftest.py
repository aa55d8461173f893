from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

pytest_plugins = ["pytester", "tests.leaks"]

settings.register_profile(
    "ci",
    # Time says nothing on a shared machine: no deadline, no complaint about slow data.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # New examples on every run: what one run misses the next may find, and the blob repeats it.
    derandomize=False,
    print_blob=True,
    # The explain phase reruns a failing example many times to annotate it, and traces each line.
    phases=[phase for phase in Phase if phase is not Phase.explain],
)
settings.load_profile("ci")
