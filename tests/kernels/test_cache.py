"""numba keeps compiled kernels by the text of one file; changes of the files it imports must not go unseen."""

import ast
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import wenmai
import wenmai.kernels

FILES = sorted(Path(wenmai.kernels.__path__[0]).glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_kernel_is_compiled_again_when_a_file_that_it_uses_changes(path):
    tree = ast.parse(path.read_bytes())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    compiles = "numba" in imported
    used = [file for file in FILES if compiles and f"wenmai.kernels.{file.stem}" in imported]
    made_of = ", ".join(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()[:12]}" for file in used)
    assert not used or f'\n_MADE_OF = "{made_of}"' in path.read_text(), f'{path} needs the line _MADE_OF = "{made_of}"'


@pytest.mark.parametrize("writable", [True, False])
def test_kernels_are_kept_in_the_cache_where_the_package_cannot_be_written(writable, cache_folder):
    program = (
        "import os; allowed = os.access\n"
        f"os.access = lambda path, mode: {writable} if 'kernels' in str(path) else allowed(path, mode)\n"
        "import wenmai.kernels, numba; print(numba.config.CACHE_DIR)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["PYTHONPATH"] = str(Path(wenmai.__file__).parents[1])
    found = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ("" if writable else str(cache_folder / "kernels"))


def test_kernels_are_compiled_where_neither_the_package_nor_the_cache_can_be_written(tmp_path):
    (tmp_path / "cache").touch()
    (tmp_path / "temporary").mkdir()
    program = (
        "import os; allowed = os.access\n"
        "os.access = lambda path, mode: 'kernels' not in str(path) and allowed(path, mode)\n"
        "import wenmai.kernels.huffman, numba; print(numba.config.CACHE_DIR)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {
        "PYTHONPATH": str(Path(wenmai.__file__).parents[1]),
        "WENMAI_CACHE": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path / "temporary"),
    }
    found = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).parent == tmp_path / "temporary"
    assert list((tmp_path / "temporary").iterdir()) == []
