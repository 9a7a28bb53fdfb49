"""Test texts that a model was trained on, of which its metrics say too much good.

The files of the training text are read again, if they are still there and plain text: some lines of the test set are
looked for in them. That finds copies of a file, and a test set that was cut from the training text or lies inside it.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from wenmai.data.example_settings import ExamplesConfig
from wenmai.data.relation_settings import RelationsConfig
from wenmai.training.run import Run

__all__ = ["seen_in_training"]

_LINES, _FEWEST_BYTES = 500, 24  # sampled lines; shorter ones are in many texts
_MOST_BYTES = 1 << 26  # of each file: a fraction of a second
_SHARE = 0.1  # of the sampled lines; fewer may be phrases that everybody writes


def seen_in_training(run: Run, test_sets: Sequence[str | Path]) -> Iterator[str]:
    """Yields a note on each test set of which lines are in the training text of a run.

    Args:
        run: The run.
        test_sets: Files, or several separated by commas; names of the catalogue are not looked up.
    """
    if any(isinstance(section, ExamplesConfig | RelationsConfig) for section in run.recipe.sections.values()):
        return  # whose examples are looked for, see wenmai/runs/measuring: lines are neither examples nor documents
    sources = run.corpus.get("sources", ())
    named = [source["path"] for source in sources if "path" in source and not source.get("valid")]
    sources = [Path(name) for name in dict.fromkeys([*run.recipe.corpus, *named])]  # a folder is named by its files
    for test_set in test_sets:
        files = [Path(part) for part in str(test_set).split(",") if _is_file(part)]
        sampled = {line for file in files for line in _sample(file)}
        found = _found(sampled, sources)
        if sampled and found >= _SHARE * len(sampled):
            yield (
                f"{test_set}: {found:,} of {len(sampled):,} sampled lines are in the text that {run.path} was trained "
                "on, so its results are better than on new text"
            )


def _sample(file: Path) -> list[bytes]:
    """Returns long lines of a file, at even distances."""
    with open(file, "rb") as stream:
        lines = [line for line in _lines(stream) if len(line) >= _FEWEST_BYTES]
    return lines[:: -(-len(lines) // _LINES)] if lines else []


def _found(wanted: set[bytes], sources: Sequence[Path]) -> int:
    found = set[bytes]()
    for source in sources:
        if wanted and _is_file(str(source)):
            with suppress(OSError), open(source, "rb") as stream:  # rights may have changed since the training
                found |= wanted.intersection(_lines(stream))
    return len(found)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    return (line.strip() for line in stream.readlines(_MOST_BYTES))


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False
