"""Where processes come from: the seam, and the launchers behind it."""

from __future__ import annotations

import sys

from .._public import publish as _publish
from .._records import Ending as Ending
from ._best import best_launcher as best_launcher
from ._direct import DirectLauncher as DirectLauncher
from ._seam import Background as Background
from ._seam import Capture as Capture
from ._seam import Guarantees as Guarantees
from ._seam import Launcher as Launcher
from ._seam import OnOutputLimit as OnOutputLimit
from ._seam import Process as Process
from ._seam import Spec as Spec

if sys.platform == "linux":
    from ._supervised import SupervisedLauncher as SupervisedLauncher

_publish(globals(), "trioshell.launchers")
