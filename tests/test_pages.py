"""C13: bytes exact, offsets for ever, and texts that join at every border."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trioshell import Page
from trioshell._pages import page

from .memory import Memory

PIECES = st.one_of(
    st.binary(max_size=4),
    st.text(max_size=3).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([b"\xe2\x89\xa4", b"\xe2", b"\x89", b"\xf0\x9f\x98\x80", b"\xed\xa0", b"\n"]),
)


def read_all(capture: Memory, limit: int) -> list[Page]:
    pages = [page(capture, 0, limit, ended=True)]
    while not pages[-1].final:
        pages.append(page(capture, pages[-1].cursor, limit, ended=True))
    return pages


@given(st.lists(PIECES, max_size=12).map(b"".join), st.integers(1, 7))
@example(b"\xe1\x80\xe1\x80", 3)
def test_pages_of_an_ended_shell_join_to_bytes_and_text(data: bytes, limit: int) -> None:
    pages = read_all(Memory(data), limit)
    assert b"".join(each.data for each in pages) == data
    assert "".join(each.text for each in pages) == data.decode("utf-8", "replace")
    assert all(len(each.data) <= limit for each in pages)


@given(
    st.lists(PIECES, max_size=12).map(b"".join),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), max_size=30),
)
def test_pages_read_while_it_grows_join_to_bytes_and_text(
    data: bytes, steps: list[tuple[int, int]]
) -> None:
    """A page of a running shell ends before a character that is still being written."""
    capture = Memory()
    pages: list[Page] = [Page(b"", 0, 0)]
    for grown, limit in steps:
        capture.data = data[: len(capture.data) + grown]
        pages.append(page(capture, pages[-1].cursor, limit, ended=False))
        assert "\ufffd" not in pages[-1].text or "\ufffd" in data.decode("utf-8", "replace")
    capture.data = data
    pages.append(page(capture, pages[-1].cursor, len(data) + 1, ended=True))
    assert b"".join(each.data for each in pages) == data
    assert "".join(each.text for each in pages) == data.decode("utf-8", "replace")


@given(st.binary(max_size=40), st.integers(0, 40), st.integers(0, 40), st.integers(1, 9))
def test_pages_and_gaps_cover_the_stream(data: bytes, first: int, last: int, limit: int) -> None:
    first, last = sorted((min(first, len(data)), min(last, len(data))))
    pages = read_all(Memory(data, (first, last)), limit)
    assert sum(len(each.data) + each.gap for each in pages) == len(data)
    assert b"".join(each.data for each in pages) == data[:first] + data[last:]


def test_page_of_a_running_shell_is_not_final() -> None:
    assert not page(Memory(b"ab"), 0, 9, ended=False).final
    assert not page(Memory(b"ab"), 0, 1, ended=True).final
    assert page(Memory(b"ab"), 0, 2, ended=True).final


@pytest.mark.parametrize("cursor", [3, 10**9])
def test_page_beyond_the_end_is_empty_at_the_end(cursor: int) -> None:
    assert page(Memory(b"abc"), cursor, 9, ended=True) == Page(b"", 3, 3, 0, True)


def test_page_unfinished_character_comes_once_after_the_end() -> None:
    capture = Memory(b"a\xe2")
    running = page(capture, 0, 9, ended=False)
    assert (running.data, running.text, running.cursor) == (b"a", "a", 1)
    ended = page(capture, running.cursor, 9, ended=True)
    assert (ended.data, ended.text, ended.final) == (b"\xe2", "\ufffd", True)
