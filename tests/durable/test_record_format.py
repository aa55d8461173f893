from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trioshell import Leftover, ShellInfo, Status, Usage
from trioshell._durable.identity import Identity
from trioshell._durable.record_format import (
    MAX_METADATA,
    STATES,
    Record,
    RecordError,
    decode,
    encode,
    metadata_copy,
)

ID = "sh_" + "0123456789ab" * 2 + "cdef"
FILE = "/state/output/x.out"

# With lone surrogates, as `os.fsdecode` makes them of bytes that are no UTF-8.
texts = st.text(st.characters(codec=None)).map(
    lambda text: os.fsdecode(text.encode("utf-8", "surrogatepass")[:50])
)
numbers = st.integers(-(2**63), 2**63)
seconds = st.floats(0, 2**40)
arguments = st.one_of(texts, st.binary(max_size=20), texts.map(Path))
values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
identities = st.builds(Identity, st.text(max_size=40), numbers, numbers, numbers, numbers)
places = st.tuples(numbers, numbers)
ends: dict[str, st.SearchStrategy[Any]] = {
    "returncode": st.none() | st.integers(-64, 255),
    "size": st.integers(0, 2**63),
    "usage": st.none() | st.builds(Usage, seconds, seconds, st.integers(0, 2**50)),
    "leftovers": st.lists(st.builds(Leftover, numbers, texts), max_size=2).map(tuple),
    "output_error": st.none() | texts,
    "cut": st.booleans(),
    "reason": st.none() | texts,
}


@st.composite
def records(draw: st.DrawFn) -> Record:
    state = draw(st.sampled_from(STATES))
    ended = state in ("kept", "ended")
    info = ShellInfo(
        id=ID,
        file=FILE,
        command=draw(texts | st.lists(arguments, min_size=1, max_size=4).map(tuple)),
        cwd=draw(st.none() | texts),
        shell=draw(st.none() | texts),
        pid=draw(numbers),
        metadata=draw(st.dictionaries(texts, values, max_size=3)),
        started=draw(seconds),
        status=draw(st.sampled_from([each for each in Status if each != Status.RUNNING]))
        if ended
        else Status.RUNNING,
        ended=draw(seconds) if ended else None,
        **{name: draw(strategy) for name, strategy in ends.items()},
    )
    return Record(
        info=info,
        place=None if state == "starting" else draw(places),
        owner=draw(st.none() | identities),
        process=draw(st.none() | identities),
        keeper=draw(st.none() | identities),
        output_limit=draw(st.none() | st.integers(1, 2**60)),
        kept=state == "kept",
    )


def read(data: bytes, state: str) -> Record:
    return decode(data, id=ID, state=state, file=FILE)


A_RECORD = Record(
    info=ShellInfo(
        id=ID,
        file=FILE,
        command=("echo", b"\xff\xfe", Path("x"), "\udcff"),
        cwd="/tmp/\udcfe",
        shell=None,
        pid=42,
        status=Status.EXITED,
        metadata={"k": "\udcff"},
        started=1.5,
        ended=2.5,
        returncode=-9,
        usage=Usage(0.1, 0.2, 3),
        leftovers=(Leftover(7, "seven"),),
    ),
    place=(1, 2),
    owner=Identity("boot", 1, 2, 3, 4),
    process=Identity("boot", 5, 6, 7, 8),
)


@given(records())
@example(A_RECORD)
def test_record_comes_back_equal(record: Record) -> None:
    data = encode(record)
    assert data.isascii()
    assert read(data, record.state) == record


@given(records(), st.data())
@example(A_RECORD, None)
def test_record_cut_anywhere_is_refused(record: Record, data: st.DataObject | None) -> None:
    """Only the last byte, the newline, may be missing."""
    whole = encode(record)
    cuts = range(len(whole) - 1)
    for cut in cuts if data is None else [data.draw(st.sampled_from(cuts))]:
        with pytest.raises(RecordError):
            read(whole[:cut], record.state)


@given(st.binary(), st.sampled_from(STATES))
@example(b"", "ended")
@example(b"null", "ended")
@example(b"[1, 2]", "ended")
@example(b'{"version": true}', "ended")
@example(b"[" * 100_000, "ended")
@example(b'{"version": 1, "info": ' + b'{"a": ' * 50_000, "ended")
@example(b"\x00" * 1000, "running")
@example(b"9" * 10_000, "running")
def test_garbage_is_refused(data: bytes, state: str) -> None:
    with pytest.raises(RecordError):
        read(data, state)


def paths(value: object) -> list[tuple[str | int, ...]]:
    """The way to every part of a JSON value."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [()] + [(key, *rest) for key, inner in items for rest in paths(inner)]


WRONG: list[Any] = [None, True, -1, 1.5, "x", [], {}, [1], {"x": 1}, 2**70]


@given(st.data())
def test_record_with_a_changed_part_is_read_exactly_or_refused(data: st.DataObject) -> None:
    """Whatever somebody edits: it is understood as it stands, or not at all."""
    raw = json.loads(encode(A_RECORD))
    *way, last = data.draw(st.sampled_from(paths(raw)[1:]))
    value = data.draw(st.sampled_from(WRONG))
    parent = raw
    for key in way:
        parent = parent[key]
    parent[last] = value
    try:
        record = read(json.dumps(raw).encode(), "ended")
    except RecordError:
        return
    again = json.loads(encode(record))
    for name in ("file", "signal"):  # for people: not read back
        again["info"][name] = raw["info"].get(name)
    assert again == raw


@pytest.mark.parametrize("version", [0, 2, 10**6])
def test_record_of_another_version_says_so(version: int) -> None:
    raw = json.loads(encode(A_RECORD)) | {"version": version}
    with pytest.raises(RecordError, match=f"version {version}.*knows version 1"):
        read(json.dumps(raw).encode(), "ended")


def test_record_is_that_of_its_file() -> None:
    data = encode(A_RECORD)
    with pytest.raises(RecordError, match="named for another shell"):
        decode(data, id="sh_" + "0" * 28, state="ended", file=FILE)
    with pytest.raises(RecordError, match="by its name it is running, by its contents ended"):
        read(data, "running")


def test_capture_file_is_not_taken_from_the_record() -> None:
    """It is deleted with the shell, so a record must not be able to name it."""
    raw = json.loads(encode(A_RECORD))
    raw["info"]["file"] = "/etc/passwd"
    assert read(json.dumps(raw).encode(), "ended").info.file == FILE


@given(st.dictionaries(texts, values, max_size=4))
def test_metadata_of_json_values_are_kept(metadata: dict[str, Any]) -> None:
    copy = metadata_copy(metadata)
    assert copy == metadata
    assert copy is not metadata


_circular: dict[str, Any] = {}
_circular["self"] = _circular


@pytest.mark.parametrize(
    "metadata",
    [
        {"k": (1, 2)},
        {1: "k"},
        {"k": b"bytes"},
        {"k": object()},
        {"k": float("nan")},
        {"k": float("inf")},  # JSON has no word for it
        {"k": {1, 2}},
        {"k": "\ud83d\ude00"},  # two halves, which JSON would join
        _circular,
    ],
)
def test_metadata_that_would_change_are_refused(metadata: dict[Any, Any]) -> None:
    with pytest.raises(ValueError, match="metadata"):
        metadata_copy(metadata)


def test_metadata_have_a_limit() -> None:
    metadata_copy({"k": "x" * (MAX_METADATA - 20)})
    with pytest.raises(ValueError, match=f"the limit is {MAX_METADATA}"):
        metadata_copy({"k": "x" * MAX_METADATA})
