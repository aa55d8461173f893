"""Find and replay races: schedules for any trio code, and all that tests of shells need.

Neither pytest nor Hypothesis is needed to import this; the strategies (`schedules`, `scripts`,
`lifecycles`, `programs`) ask for Hypothesis when they are called.
"""

from __future__ import annotations

from .._public import publish as _publish
from ._calls import Call as Call
from ._calls import Recorder as Recorder
from ._cancel import cancel_everywhere as cancel_everywhere
from ._check import check_events as check_events
from ._explore import Report as Report
from ._explore import explore as explore
from ._fake import FakeLauncher as FakeLauncher
from ._hang import Hang as Hang
from ._leftovers import assert_nothing_left as assert_nothing_left
from ._log import EventLog as EventLog
from ._member import Member as Member
from ._member import Sent as Sent
from ._play import Performance as Performance
from ._play import perform as perform
from ._play import play as play
from ._process import FakeProcess as FakeProcess
from ._program import Do as Do
from ._program import Life as Life
from ._program import Program as Program
from ._program import Reader as Reader
from ._quiet import quiet as quiet
from ._rules import RULES as RULES
from ._rules import Rule as Rule
from ._rules import Violation as Violation
from ._run import run as run
from ._schedule import GateWarning as GateWarning
from ._schedule import Schedule as Schedule
from ._schedules import schedules as schedules
from ._script import Script as Script
from ._strategies import lifecycles as lifecycles
from ._strategies import programs as programs
from ._strategies import scripts as scripts
from ._zoo import zoo as zoo

_publish(globals(), "trioshell.testing")
