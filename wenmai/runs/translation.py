"""Write the attention of translations."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wenmai.core.errors import RunError, SettingError
from wenmai.core.wording import say
from wenmai.runs.alignment import Alignment, require_alignment, write_alignment_page, write_alignment_picture
from wenmai.training.run import Run

if TYPE_CHECKING:
    from wenmai.inference.translator import Translation, Translator

__all__ = [
    "require_attention",
    "translation_json",
    "write_attention",
]


def write_attention(
    run: str | Path | Run,
    texts: Sequence[str],
    path: str | Path,
    *,
    translations: Sequence["Translation"] | None = None,
) -> Path:
    """Writes the attention of each layer and head in translations.

    Args:
        run: A finished run that translates.
        texts: At least one that is not empty.
        path: A page (``.html``), or a picture (``.png``) of the first text.
        translations: The translation of each text; none: they are made here.

    Raises:
        SettingError: for another ending, or no text.
        RunError: if the file cannot be written.
    """
    target = Path(path)
    opened = run if isinstance(run, Run) else Run(run)
    translator: Translator = opened.model_for("translate")
    require_attention(translator, target)
    made: Sequence[Translation | None] = [None] * len(texts) if translations is None else translations
    maps = [translator.attention(*pair) for pair in zip(texts, made, strict=True) if pair[0].strip()]
    if not maps:
        raise SettingError("there is no text whose attention could be shown")
    alignments = [
        Alignment(
            source=found.source,
            translation=found.translation,
            source_tokens=found.source_tokens,
            target_tokens=found.target_tokens,
            weights=found.weights,
        )
        for found in maps
    ]
    try:
        if target.suffix == ".html":
            write_alignment_page(target, alignments, title=say("Attention of {kind}", kind=translator.kind))
        else:
            write_alignment_picture(target, alignments[0])
    except OSError as error:
        raise RunError(f"{target}: cannot be written ({error.strerror})") from None
    return target


def require_attention(translator: "Translator", path: Path) -> None:
    """Makes sure that :func:`write_attention` can write such a file.

    Raises:
        SettingError: for another ending than ``.html`` and ``.png``, a place where nothing can be written, or a model
            without attention.
    """
    require_alignment(path)
    if not translator.has_attention:
        raise SettingError(
            f"--attention {path}: this {translator.kind} has no attention (context={translator.config.context})"
        )


def translation_json(source: str, found: Sequence[Any]) -> dict[str, Any]:
    """Returns the translations of one text as JSON values."""
    rows = []
    for one in found:
        row = {"text": one.text, "score": one.score, "log_prob": one.log_prob, "tokens": len(one.tokens)}
        rows.append(row | {"pieces": list(one.tokens), "cut": one.cut})
    return {"text": source, "translations": rows}
