"""Every Python block of the documentation is a program that runs, or says that it is none.

*   A block of ``python`` runs in a process of its own, in an empty directory, with warnings as
    errors. It must end with exit status 0 and without a word on stderr.
*   If the next block has ``<!-- output -->`` before it, it must print exactly that.
*   A block with ``<!-- fragment -->`` before it is not run, but has to compile.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(
    r"(?:^<!-- (?P<comment>fragment|output) -->\n)?"
    r"^(?P<fence>```+)(?P<language>\S*)\n(?P<body>.*?)^(?P=fence)$\n?",
    re.MULTILINE | re.DOTALL,
)


@attrs.frozen
class Example:
    """A Python block, where it stands, and what it must print."""

    name: str
    code: str
    is_fragment: bool = False
    output: str | None = None


def examples(text: str, name: str) -> list[Example]:
    """The Python blocks of a page."""
    found: list[Example] = []
    for block in _BLOCK.finditer(text):
        body, comment = block["body"], block["comment"]
        if block["language"] == "python":
            line = text.count("\n", 0, block.start("fence")) + 1
            found.append(Example(f"{name}:{line}", body, comment == "fragment"))
        elif comment == "output":
            found[-1] = attrs.evolve(found[-1], output=body)
    return found


ALL = [
    example
    for page in PAGES
    if "_build" not in page.parts
    for example in examples(page.read_text(), str(page.relative_to(ROOT)))
]


@pytest.mark.slow
@pytest.mark.parametrize("example", ALL, ids=lambda each: each.name)
def test_example_does_what_it_says(example: Example, tmp_path: Path) -> None:
    compile(example.code, example.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if example.is_fragment:
        return
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example.code],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert example.output in (None, done.stdout)


def test_examples_are_found_in_all_forms() -> None:
    """The blocks of this page: a program with output, a fragment, one in another language."""
    page = """
Text.

```python
print("hello")
```

That prints:

<!-- output -->
```text
hello
```

<!-- fragment -->
```python
await anything
```

```sh
exit 1
```

````python
text = '''
```python
'''
````
"""
    assert examples(page, "page.md") == [
        Example("page.md:4", 'print("hello")\n', output="hello\n"),
        Example("page.md:16", "await anything\n", is_fragment=True),
        Example("page.md:24", "text = '''\n```python\n'''\n"),
    ]


def test_readme_has_an_example() -> None:
    assert any(each.name.startswith("README.md:") and not each.is_fragment for each in ALL)
