"""What `make check` measures besides the linters: how long files are and how long starting takes.

Times are the best of several whole processes, the interpreter included, because that is what a user waits for.
They are no test: a loaded machine may exceed them without anything being wrong.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MAX_LINES = 450
LONGER_FILES = {  # file: (its own limit, why it is better in one piece)
    "wenmai/kernels/window.py": (700, "one step and the loops around it, compiled as one unit"),
}

REPEATS = 10
START_SECONDS = {
    "import wenmai": ([sys.executable, "-c", "import wenmai"], 0.100),
    "wenmai --help": ([str(Path(sys.executable).with_name("wenmai")), "--help"], 0.300),
}


def long_files() -> list[str]:
    """Prints the longest files and returns what is wrong with their sizes."""
    lines = {path: len((ROOT / path).read_bytes().splitlines()) for path in _sources()}
    problems = []
    print(f"\nLongest files (limit {MAX_LINES} lines)")
    for path in sorted(lines, key=lambda path: -lines[path])[:8]:
        limit, reason = LONGER_FILES.get(path, (MAX_LINES, ""))
        print(f"{lines[path]:6} {path}" + (f"  (limit {limit}: {reason})" if reason else ""))
        if lines[path] > limit:
            problems.append(f"{path} has {lines[path]} lines, more than {limit}: split it by subject")
    for path in LONGER_FILES:
        if lines.get(path, 0) <= MAX_LINES:
            problems.append(f"{path} needs no exception: take it out of LONGER_FILES")
    return problems


def slow_starts() -> list[str]:
    """Prints how long each command takes and returns what fails or is over its budget."""
    problems = []
    print(f"\nStarting (best of {REPEATS})")
    for name, (command, budget) in START_SECONDS.items():
        try:
            best = min(_seconds(command) for _ in range(REPEATS))
        except subprocess.CalledProcessError as error:
            problems.append(f"`{name}` fails with exit code {error.returncode}")
            continue
        print(f"{best * 1000:6.0f} ms  {name}  (budget {budget * 1000:.0f} ms)")
        if best > budget:
            problems.append(f"`{name}` takes {best * 1000:.0f} ms: see `python -X importtime` for what it imports")
    return problems


def _sources() -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in (ROOT / "wenmai").rglob("*.py")]


def _seconds(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    return time.perf_counter() - begin


if __name__ == "__main__":
    found = long_files() + slow_starts()
    print(*found, sep="\n")
    sys.exit(bool(found))
