"""The two modules outside of every package keep the layers that `make lint` checks for the rest."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def imported(module: str) -> set[str]:
    """The packages that a module at the top imports, but those of Python itself."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names


def test_versions_imports_nothing() -> None:
    assert imported("versions.py") == set()


def test_the_program_itself_imports_only_the_layers_below_it() -> None:
    below = {"components", "addons", "cloud", "config", "versions"}
    assert imported("__main__.py") <= below | {"pulumi"}
