"""The state machine of one shell: every cell of its table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trioshell import Status
from trioshell._lifecycle import Lifecycle, State


def running() -> Lifecycle:
    life = Lifecycle()
    life.born()
    return life


def test_lifecycle_starts_unseen() -> None:
    life = Lifecycle()
    assert life.state is State.STARTING
    assert not life.live
    assert not life.ended
    assert not life.deleted


def test_lifecycle_is_running_until_settled() -> None:
    """C4: a shell that is being killed is still running."""
    life = running()
    assert life.live
    assert life.claim(Status.KILLED)
    assert life.live
    life.settle(by_itself=False)
    assert not life.live
    assert life.ended


@pytest.mark.parametrize("first", [Status.TIMEOUT, Status.KILLED])
@pytest.mark.parametrize("second", [Status.TIMEOUT, Status.KILLED])
def test_lifecycle_first_claim_stands(first: Status, second: Status) -> None:
    """C3: later causes change nothing."""
    life = running()
    assert life.claim(first)
    assert not life.claim(second)
    assert life.settle(by_itself=False).status is first


@pytest.mark.parametrize("claim", [None, Status.TIMEOUT, Status.KILLED])
def test_lifecycle_own_end_beats_a_claim_that_came_too_late(claim: Status | None) -> None:
    """C3: a leader that ended before any signal reached it has exited, whatever was claimed."""
    life = running()
    if claim is not None:
        life.claim(claim)
    assert life.settle(by_itself=True).status is Status.EXITED


def test_lifecycle_end_by_the_launcher_without_a_claim_is_a_kill() -> None:
    """An output limit that kills is enforced next to the process, without asking anybody."""
    assert running().settle(by_itself=False).status is Status.KILLED


def test_lifecycle_settles_once() -> None:
    """C1: one guarded finaliser."""
    life = running()
    life.settle(by_itself=True)
    with pytest.raises(RuntimeError, match="ended"):
        life.settle(by_itself=False)


@pytest.mark.parametrize("state", [State.STARTING, State.VOID, State.DELETED])
def test_lifecycle_settles_only_what_lives(state: State) -> None:
    with pytest.raises(RuntimeError, match=state.value):
        Lifecycle(state).settle(by_itself=True)


def test_lifecycle_removal_of_a_running_shell_tells_waiters_and_deletes() -> None:
    """C7."""
    life = running()
    assert life.claim(Status.KILLED, removal=True)
    verdict = life.settle(by_itself=False)
    assert verdict.status is Status.KILLED
    assert verdict.removed
    assert verdict.delete


@pytest.mark.parametrize("cause", [Status.TIMEOUT, Status.KILLED])
def test_lifecycle_removal_of_an_ending_shell_leaves_waiters_their_end(cause: Status) -> None:
    """C7: those waiting for an end that came first get that end."""
    life = running()
    life.claim(cause)
    assert not life.claim(Status.KILLED, removal=True)
    verdict = life.settle(by_itself=False)
    assert verdict.status is cause
    assert not verdict.removed
    assert verdict.delete


def test_lifecycle_removal_that_lost_against_the_end_still_deletes() -> None:
    life = running()
    life.claim(Status.KILLED, removal=True)
    verdict = life.settle(by_itself=True)
    assert verdict.status is Status.EXITED
    assert not verdict.removed
    assert verdict.delete


def test_lifecycle_second_removal_keeps_the_first_word() -> None:
    life = running()
    life.claim(Status.KILLED, removal=True)
    life.claim(Status.KILLED, removal=True)
    assert life.settle(by_itself=False).removed


def test_lifecycle_claim_on_an_ended_shell_is_none() -> None:
    life = running()
    life.settle(by_itself=True)
    assert not life.claim(Status.KILLED, removal=True)
    assert life.ended


def test_lifecycle_deletes_once() -> None:
    """C1: at most one deleted, after the exited."""
    life = running()
    with pytest.raises(RuntimeError, match="running"):
        life.delete()
    life.settle(by_itself=True)
    assert life.delete()
    assert not life.delete()
    assert life.deleted
    assert life.ended


def test_lifecycle_stillborn_is_never_spoken_of() -> None:
    """C2."""
    life = Lifecycle()
    life.stillborn()
    assert not life.live
    assert not life.ended
    with pytest.raises(RuntimeError, match="void"):
        life.born()


def test_lifecycle_is_born_once() -> None:
    with pytest.raises(RuntimeError, match="running"):
        running().born()


OPERATIONS = st.sampled_from(["timeout", "kill", "remove", "settle", "own", "delete"])


@given(st.lists(OPERATIONS, max_size=12))
def test_lifecycle_says_the_grammar_whatever_is_asked(operations: list[str]) -> None:
    """C1: any order of requests yields a prefix of exited, deleted."""
    life = running()
    said: list[str] = []
    for operation in operations:
        try:
            match operation:
                case "timeout":
                    life.claim(Status.TIMEOUT)
                case "kill":
                    life.claim(Status.KILLED)
                case "remove":
                    life.claim(Status.KILLED, removal=True)
                case "settle" | "own":
                    life.settle(by_itself=operation == "own")
                    said.append("exited")
                case "delete":
                    if life.delete():
                        said.append("deleted")
        except RuntimeError:
            assert not (operation == "settle" and life.live)
    assert said in ([], ["exited"], ["exited", "deleted"])
