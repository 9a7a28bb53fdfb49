"""numba keeps compiled kernels by the text of one file; changes of the files it imports must not go unseen."""

import ast
import hashlib
from pathlib import Path

import pytest

import wenmai.kernels

FILES = sorted(Path(wenmai.kernels.__path__[0]).glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_kernel_is_compiled_again_when_a_file_that_it_uses_changes(path):
    tree = ast.parse(path.read_bytes())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    used = [file for file in FILES if f"wenmai.kernels.{file.stem}" in imported]
    made_of = ", ".join(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()[:12]}" for file in used)
    assert not used or f'\n_MADE_OF = "{made_of}"' in path.read_text(), f'{path} needs the line _MADE_OF = "{made_of}"'
