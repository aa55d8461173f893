"""The direct launcher: commands as children of the host, on any POSIX system.

`launcher` starts them (`spawn`, `starter`, `wiring`), `process` is the state machine of one, and
the rest are its parts: when the leader ends (`exit_watch`), who else is there and how they are
ended (`session`, `census`, `holders`), and where the output goes (`pump`, `store`).
"""

from __future__ import annotations

from .launcher import DirectLauncher as DirectLauncher
