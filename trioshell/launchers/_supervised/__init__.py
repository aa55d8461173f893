"""The supervised launcher: nothing is left behind, whoever dies.

The processes behind it are explained in ``_helpers``; here is the host's part. ``launcher`` keeps
one ``forkserver`` and a few idle supervisors; it hands each command (``order``) to one of them
over its ``link``, and the host sees it as a ``process``.
"""

from __future__ import annotations

from .forkserver import HelperError as HelperError
from .launcher import SupervisedLauncher as SupervisedLauncher
