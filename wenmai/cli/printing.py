"""Results on stdout: aligned columns for people, one JSON value for scripts."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wenmai.core.columns import in_columns
from wenmai.core.quantities import words_a_second

__all__ = ["plain", "setting_value", "show_columns", "show_comparison", "show_rows", "show_run"]


def show_run(run: Any, as_json: bool) -> None:  # noqa: ANN401  a Run, not imported for speed
    """Prints the result of a training."""
    summary = run.summary
    if as_json:
        print(json.dumps(summary, ensure_ascii=False, allow_nan=False))
        return
    if "imported" in summary:
        print(f"{run.path}: imported from {summary['imported']}")
        return
    loss = [] if summary["loss"] is None else [f"loss {summary['loss']:.4f}"]
    if "tokens_per_second" in summary:
        speed = f"{summary['tokens_per_second']:,.0f} tokens/s"
    else:
        speed = f"{words_a_second(summary['words_per_second'])} words/s"
    print(f"{run.path}: {', '.join([*loss, speed])}, {summary['seconds']:.1f} s")


def show_comparison(comparison: Any) -> None:  # noqa: ANN401  a Comparison
    """Prints the table of a comparison."""
    columns = list(
        dict.fromkeys((measure.name, measure.kind) for one in comparison.systems for measure in one.measures)
    )
    names = [name for name, _ in columns]
    kinds = {kind: comparison.kinds[kind].name or kind for kind in comparison.kinds}
    titles = [f"{name} ({kinds.get(kind, kind)})" if names.count(name) > 1 else name for name, kind in columns]
    rows = []
    for system in comparison.systems:
        found = {(measure.name, measure.kind): measure for measure in system.measures}
        cells = [system.name]
        cells += [_interval(found[column]) if column in found else "-" for column in columns]
        speed = system.words_per_second
        cells += ["-" if speed is None else words_a_second(speed)]
        cells += ["-" if system.seconds is None else f"{system.seconds:.1f}"]
        for size in (system.peak_memory_bytes, system.size_bytes):
            cells.append("-" if size is None else f"{size / 1e6:.0f}")
        rows.append(cells)
    show_columns([["system", *titles, "words/s", "seconds", "peak MB", "size MB"], *rows])


def _interval(measure: Any) -> str:  # noqa: ANN401  a Measure
    if measure.value is None:
        return "-"
    return (
        f"{measure.value:.3f} [{measure.low:.3f}, {measure.high:.3f}]"
        if measure.low is not None
        else f"{measure.value:.3f}"
    )


def show_rows(rows: Iterable[Any], as_json: bool, cells: Any) -> None:  # noqa: ANN401
    """Prints rows as one JSON list, or as columns of ``cells(row)``."""
    rows = list(rows)
    if as_json:
        print(json.dumps(rows, ensure_ascii=False, allow_nan=False))
    else:
        show_columns([[str(cell) for cell in cells(row)] for row in rows])


def show_columns(rows: list[list[str]]) -> None:
    """Prints aligned columns, wide characters included."""
    if rows:
        print(in_columns(rows))


def setting_value(value: Any) -> str:  # noqa: ANN401  a setting's default
    """Writes a value as ``--set`` takes it."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def plain(value: Any) -> Any:  # noqa: ANN401  a dataclass of the catalogue, or a path
    """Turns entries of the catalogue into JSON values."""
    from dataclasses import asdict, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(item) for name, item in asdict(value).items()}
    return str(value) if isinstance(value, Path) else value
