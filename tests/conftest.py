from __future__ import annotations

import signal

from hypothesis import HealthCheck, Phase, settings

# A run in the background, or under nohup, ignores these, and so would every program it starts.
# That is kept for commands, and tested where it is meant; everywhere else a signal is to be heard.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

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
