"""Find and replay races: schedules for any trio code.

Neither pytest nor Hypothesis is needed to import this; `schedules` asks for Hypothesis when it is
called.
"""

from __future__ import annotations

from ._cancel import cancel_everywhere as cancel_everywhere
from ._explore import Report as Report
from ._explore import explore as explore
from ._fake import FakeLauncher as FakeLauncher
from ._hang import Hang as Hang
from ._member import Member as Member
from ._member import Sent as Sent
from ._process import FakeProcess as FakeProcess
from ._quiet import quiet as quiet
from ._run import run as run
from ._schedule import GateWarning as GateWarning
from ._schedule import Schedule as Schedule
from ._schedules import schedules as schedules
from ._script import Script as Script
