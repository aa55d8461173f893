"""How Sphinx builds these pages: ``nox -s docs``, in which a warning is an error."""

from __future__ import annotations

import builtins
import importlib.metadata
import sys

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

project = "trioshell"
author = "the trioshell authors"
copyright = author
version = release = importlib.metadata.version("trioshell")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"trioshell {version}"

myst_enable_extensions = ["attrs_inline", "deflist"]
myst_heading_anchors = 3

# `name` in a docstring is a reference; in nitpicky mode one that leads nowhere is an error.
default_role = "py:obj"
autoclass_content = "class"  # handles have no public constructor
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "separated"
autodoc_default_options = {"members": True, "exclude-members": "__init__, __new__"}
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# Short for a union in an annotation, where the text beside it says what it holds; type variables;
# what a call returns only to be awaited or entered; a name of Hypothesis.
_in_annotations = ["Command", "Reason", "Leave", "Op", "Outcome", "Sender", "Ts"]
_in_annotations += ["trioshell.testing._run.T", "trioshell.testing._quiet.Quiet", "SearchStrategy"]
nitpick_ignore = [("py:class", name) for name in _in_annotations]

# Names of other projects are not looked up: the build reads nothing from the network.
_elsewhere = "|".join(["trio", "attrs", *sys.stdlib_module_names])
nitpick_ignore_regex = [
    ("py:.*", rf"({_elsewhere})(\..+)?"),
    ("py:.*", "|".join(dir(builtins))),
]


def resolve_short_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement
) -> nodes.Node | None:
    """Docstrings of `trioshell.launchers` name `Shell` as a user knows it, without a module."""
    name = f"trioshell.{node.get('reftarget')}"
    python = env.domains.python_domain
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, text)


def setup(app: Sphinx) -> None:
    app.connect("missing-reference", resolve_short_name)
