"""The example of CONTRIBUTING.md: a package from outside, found by a real entry point, keeps the contract of ours."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.contract.examples import TEXTS

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package as installers leave it there, and the environment in which Python finds it."""
    folder = tmp_path_factory.mktemp("site")
    files = dict(FILE.findall((ROOT / "CONTRIBUTING.md").read_text()))
    project = tomllib.loads(files.pop("pyproject.toml"))["project"]
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    facts = folder / "{name}-{version}.dist-info".format(**project)
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".format(**project))
    groups = project["entry-points"].items()
    points = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in of.items()) for group, of in groups]
    (facts / "entry_points.txt").write_text("\n".join(points))
    return folder, os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT))), "OMP_NUM_THREADS": "1"}


@pytest.mark.timeout(600)
def test_its_systems_keep_the_contract(installed):
    _, environment = installed
    tests = ["tests/contract/test_systems.py", "tests/contract/test_language_models.py"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--examples", "toys.examples", *tests]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-5000:]
    assert re.search(r"[1-9]\d+ passed", ended.stdout)


LIFE = """
import sys
from wenmai.cli.main import main

for line in sys.stdin.read().splitlines():
    print(">", line, main(line.split()), flush=True)
"""


def test_the_shell_knows_them_as_it_knows_ours(installed, tmp_path, cache_folder):
    _, environment = installed
    for name, contents in TEXTS.items():
        (tmp_path / name).write_text(contents["enough"])
    loop = "--set epochs=1 --set batch_tokens=24 --set learning_rate=0.01 --quiet"
    language = f"{loop} --set hidden_size=16 --set kind=whitespace --set min_count=1"
    commands = [
        "systems",
        "systems topics",
        f"train fading text.txt --out fading {language}",
        f"train alibi text.txt --out alibi {language} --set max_length=16",
        f"train topics labels.txt --from fading --out topics {loop}",
        f"train topics labels.txt --from fading --out others {loop}",
        f"train --from alibi text.txt --out more {loop}",
        "resume topics",
        "verify topics",
        "score alibi --file text.txt",
        "next fading a --topn 3",
        "generate alibi a --max-tokens 4",
        "classify topics --file text.txt",
        "evaluate fading --on text.txt --json",
        "evaluate topics --on labels.txt",
        "compare fading alibi --on text.txt --out language",
        "compare topics others --on labels.txt --out labels",
        "export fading ctranslate2 engine",
    ]
    command = [sys.executable, "-c", LIFE]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, input="\n".join(commands), capture_output=True, text=True, check=False
    )
    codes = dict(re.findall(r"^> (.*) (\d+)$", ended.stdout, re.MULTILINE))
    refused = "export fading ctranslate2 engine"
    assert codes == dict.fromkeys(commands, "0") | {refused: codes[refused]}, ended.stderr
    assert codes[refused] != "0"
    assert "a run of fading, which cannot be exported as ctranslate2" in ended.stderr
    assert "topics      classifier of texts" in re.sub(" {2,}", "      ", ended.stdout)
    found = json.loads((tmp_path / "language" / "comparison.json").read_text())
    assert [system["name"] for system in found["systems"]] == ["fading", "alibi"]
