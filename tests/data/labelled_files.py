"""Labelled files that tests write and read."""

import gzip
import json
from pathlib import Path
from typing import Any

from wenmai.data.examples import ExamplesConfig, open_examples

__all__ = ["read", "written"]


def written(path: Path, content: Any, encoding: str = "utf-8") -> Path:
    if isinstance(content, list) and path.name.split(".")[1] in ("jsonl", "ndjson"):
        content = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in content)
    elif not isinstance(content, str | bytes):
        content = json.dumps(content, ensure_ascii=False)
    data = content.encode(encoding) if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path: Any, task: Any, labelled: bool = True, **settings: Any) -> list[Any]:
    return list(open_examples(path, task, ExamplesConfig(**settings), labelled=labelled))
