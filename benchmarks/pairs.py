"""Facts of runs and test sets for the theme ``translation``, in processes of their own, by ``jobs.py``."""

import hashlib
from itertools import islice
from pathlib import Path
from typing import Any

__all__ = ["beginning_of_pairs", "run_facts", "split_pairs"]


_VALIDATION = ("forward_perplexity", "backward_perplexity", "masked_accuracy")


def run_facts(run: str) -> dict[str, Any]:
    """Returns what a finished run was trained on, how, and the command that repeats it."""
    from benchmarks.harness import public_name
    from wenmai.config.recipe import settings_of
    from wenmai.core.registry import find_system
    from wenmai.training.run import Run

    opened = Run(run)
    recipe, summary = opened.recipe, opened.summary
    system = find_system(recipe.system)
    changed = {
        setting.name: public_name(value) if isinstance(value, str) and Path(value).is_absolute() else value
        for setting in settings_of(system.load().sections)
        if (value := getattr(recipe.sections[setting.section], setting.name))
        != system.settings.get(setting.name, setting.default)
    }
    corpus = public_name(",".join(recipe.corpus)) or "PAIRS"
    valid = changed.pop("valid", None)
    model = recipe.sections["model"]
    found = summary.get("validation") or {}
    return {
        **{name: found[name] for name in _VALIDATION if name in found},
        "run": opened.path.resolve().name,
        "system": recipe.system,
        "corpus": corpus,
        "valid": None if valid is None else public_name(valid),
        "changed": changed,
        "attention": getattr(model, "context", "attention") == "attention",
        "training_seconds": summary["seconds"],
        "training_tokens_per_second": summary.get("tokens_per_second"),
        "training_tokens": summary.get("tokens"),
        "parameters": summary.get("parameters"),
        "steps": summary.get("steps"),
        "threads": summary.get("threads"),
        "size_bytes": opened.model_bytes,
        "peak_memory_bytes": summary.get("peak_memory_bytes"),
        "model_sha256": _fingerprint(opened.model_folder),
    }


def _fingerprint(folder: Path) -> str:
    """The SHA-256 of a model: of its parameters, or of all its files."""
    files = [folder / "model.safetensors"]
    if not files[0].exists():
        files = sorted(path for path in folder.iterdir() if path.is_file())
    content = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            content.update(hashlib.file_digest(file, "sha256").digest())
    return content.hexdigest()


def beginning_of_pairs(pairs: str, count: int, target: str) -> dict[str, Any]:
    """Writes the first pairs as a TSV file."""
    from wenmai.data.pairs import read_pairs

    return {"pairs": _write_pairs(Path(target), islice(read_pairs(pairs), count))}


def split_pairs(pairs: str, target: str) -> dict[str, Any]:
    """Splits pairs that come in one file into ``TARGET-train.tsv``, ``-valid.tsv`` and ``-test.tsv``: 96, 2 and 2 %.

    A hash of the first side decides, so the split is the same everywhere. Pairs of which either side stands in the
    other two files are left out of the first.
    """
    from wenmai.data.pairs import read_pairs

    parts: dict[str, list[tuple[str, str]]] = {"train": [], "valid": [], "test": []}
    for pair in read_pairs(pairs):
        place = int.from_bytes(hashlib.sha256(pair[0].encode()).digest()[:4], "big") % 50
        parts[{0: "test", 1: "valid"}.get(place, "train")].append(pair)
    asked = {text for name in ("valid", "test") for pair in parts[name] for text in pair}
    parts["train"] = [pair for pair in parts["train"] if not asked & set(pair)]
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    return {name: _write_pairs(Path(f"{target}-{name}.tsv"), found) for name, found in parts.items()}


def _write_pairs(path: Path, pairs: Any) -> int:
    lines = [f"{source}\t{target}\n" for source, target in pairs]
    path.write_text("".join(lines), encoding="utf-8")
    return len(lines)
