"""The part of an output that is shown first."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trioshell._excerpt import Excerpt, Part, excerpt

from .memory import Memory


def take(data: bytes, *, part: Part = "tail", lines: int = 2000, limit: int = 100) -> Excerpt:
    return excerpt(Memory(data), part=part, lines=lines, limit=limit)


@pytest.mark.parametrize("part", get_args(Part))
@pytest.mark.parametrize("data", [b"", b"a", b"a\n", b"a\nb\n", b"\n\n"])
def test_excerpt_of_a_short_output_is_all_of_it(part: Part, data: bytes) -> None:
    assert take(data, part=part) == Excerpt(data.decode(), 0)


def test_excerpt_tail_keeps_the_last_whole_lines() -> None:
    assert take(b"one\ntwo\nthree\n", lines=2) == Excerpt("two\nthree\n", 4)
    assert take(b"one\ntwo\nthree\n", limit=8) == Excerpt("three\n", 8)
    assert take(b"one\ntwo\nthree", limit=9) == Excerpt("two\nthree", 4)


def test_excerpt_head_keeps_the_first_whole_lines() -> None:
    assert take(b"one\ntwo\nthree\n", part="head", lines=2) == Excerpt("one\ntwo\n", 6)
    assert take(b"one\ntwo\nthree\n", part="head", limit=9) == Excerpt("one\ntwo\n", 6)


def test_excerpt_both_says_what_is_between() -> None:
    taken = take(b"one\ntwo\nthree\nfour\n", part="both", lines=2)
    assert taken.text == "one\n[... 10 bytes not shown ...]\nfour\n"
    assert taken.missing == 10


def test_excerpt_line_longer_than_the_limit_is_cut_at_a_character() -> None:
    """A last line that is too long is shown from its end, also with a newline after it."""
    taken = take("≤≤≤≤≤\n".encode(), limit=8)
    assert taken == Excerpt("≤≤\n", 9)
    assert take("≤≤≤".encode(), part="head", limit=8) == Excerpt("≤≤", 3)


@pytest.mark.parametrize("part", get_args(Part))
def test_excerpt_of_nothing_is_nothing(part: Part) -> None:
    assert take(b"one\ntwo\n", part=part, lines=0).missing == 8
    assert take(b"one\ntwo\n", part=part, limit=0).missing == 8


def test_excerpt_tail_begins_after_a_gap() -> None:
    capture = Memory(b"head......tail\n", dropped=(4, 10))
    assert excerpt(capture, part="tail", lines=9, limit=100) == Excerpt("tail\n", 10)


@given(
    st.lists(st.sampled_from(["a", "≤", "\n", "bc"])).map("".join),
    st.sampled_from(get_args(Part)),
    st.integers(0, 9),
    st.integers(0, 20),
)
def test_excerpt_counts_what_it_leaves_out(text: str, part: Part, lines: int, limit: int) -> None:
    taken = take(text.encode(), part=part, lines=lines, limit=limit)
    shown = taken.text
    if taken.missing and part == "both":
        marker = f"[... {taken.missing} bytes not shown ...]\n"
        assert marker in shown
        head, tail = shown.split(marker)
        assert text.encode().startswith(head.removesuffix("\n").encode())
        assert text.encode().endswith(tail.encode())
        return
    assert "\ufffd" not in shown
    assert len(shown.encode()) == len(text.encode()) - taken.missing <= max(limit, 0)
    assert text.endswith(shown) if part == "tail" else text.startswith(shown)
    assert shown.count("\n") <= lines
