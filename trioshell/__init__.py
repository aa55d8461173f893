"""Run shell commands under trio, and know exactly how they ended."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    raise ImportError("trioshell needs a POSIX system: Linux, macOS or a BSD. Windows is not one.")

from ._ansi import strip_ansi as strip_ansi
from ._events import Created as Created
from ._events import Deleted as Deleted
from ._events import Event as Event
from ._events import Exited as Exited
from ._events import Subscription as Subscription
from ._exceptions import DirectoryInUseError as DirectoryInUseError
from ._exceptions import OutputLostError as OutputLostError
from ._exceptions import ShellError as ShellError
from ._exceptions import ShellNotFoundError as ShellNotFoundError
from ._exceptions import ShellRemovedError as ShellRemovedError
from ._exceptions import SpawnError as SpawnError
from ._exceptions import SubscriptionLaggedError as SubscriptionLaggedError
from ._follow import Follower as Follower
from ._follow import LineReader as LineReader
from ._pages import Page as Page
from ._public import publish as _publish
from ._records import Leftover as Leftover
from ._records import Pty as Pty
from ._records import Result as Result
from ._records import ShellInfo as ShellInfo
from ._records import Status as Status
from ._records import Usage as Usage
from ._shell import Shell as Shell
from ._shells import Shells as Shells
from ._shells import Statistics as Statistics
from ._shells import open_shells as open_shells
from .launchers import Guarantees as Guarantees

__version__: str

_publish(globals(), "trioshell")


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module 'trioshell' has no attribute {name!r}")
    from importlib.metadata import version

    return version("trioshell")
