"""Several waits at once, the first of which decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import trio

Function = Callable[[], Awaitable[Any]]


async def first_of(*functions: Function, beside: Iterable[Function] = ()) -> None:
    """Run functions at once; when the first one ends, cancel the others and return.

    Args:
        functions: Each may decide; which one did is for the caller to look up.
        beside: Run as long as the others do, and decide nothing.

    Cancellation: as in a call of one of them. A nursery would raise a group of the `Cancelled`
    of its children, and callers that clean up after a `Cancelled` would not know it.
    """
    error = None
    try:
        async with trio.open_nursery() as nursery:
            for function in beside:
                nursery.start_soon(_run, function, None, name=function)
            for function in functions:
                nursery.start_soon(_run, function, nursery.cancel_scope, name=function)
    except BaseExceptionGroup as group:
        error = _single(group)
    if error is not None:  # raised out here, it keeps its own cause and context
        raise error


def _single(group: BaseExceptionGroup[BaseException]) -> BaseException:
    errors = group.split(trio.Cancelled)[1]
    if errors is None:
        return group.exceptions[0]
    return errors.exceptions[0] if len(errors.exceptions) == 1 else errors


# Ctrl+C is for the main task. Raised in here it could come between reading and storing.
@trio.lowlevel.enable_ki_protection
async def _run(function: Function, scope: trio.CancelScope | None) -> None:
    await function()
    if scope is not None:
        scope.cancel()
