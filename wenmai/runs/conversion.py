"""Join runs that convert pinyin."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wenmai.core.errors import RunError, SettingError
from wenmai.core.wording import say
from wenmai.text.pinyin.letters import without_breaks
from wenmai.training.run import Run

if TYPE_CHECKING:
    from wenmai.inference.pinyin_joined import JoinedConverter

__all__ = ["joined", "require_conversion", "write_attention"]


def joined(model: Any, ngram: str | Path | Run, weight: float = 1.0) -> "JoinedConverter":  # noqa: ANN401  checked there
    """Returns a network of pinyin joined with the n-grams of another run.

    Args:
        model: The network, as :func:`wenmai.load` gives it.
        ngram: A finished run of ``pinyin-ngram``.
        weight: What the log-probabilities of the network are multiplied with.

    Raises:
        RunError: if the run is not finished, or does not convert.
        SettingError: if the two are other models.
    """
    from wenmai.inference.pinyin_joined import JoinedConverter

    return JoinedConverter(model, Run.of(ngram).model_for("convert"), weight=weight)


def require_conversion(
    model: Any,  # noqa: ANN401
    *,
    fuzzy: bool = False,
    context: bool = False,
    attention: Path | None = None,
) -> None:
    """Makes sure that a converter takes options, before anything is converted.

    Args:
        model: The converter.
        fuzzy: Whether there are fuzzy pairs.
        context: Whether there is text before the input.
        attention: The file for its attention.

    Raises:
        SettingError: if it does not.
    """
    from wenmai.inference.pinyin_letters_model import PinyinLettersModel
    from wenmai.runs.alignment import require_alignment

    if fuzzy and isinstance(model, PinyinLettersModel):
        raise SettingError(
            "--fuzzy: pinyin-letters labels letters as they are typed, and takes no sounds for each other; use a run "
            "of pinyin or pinyin-ngram"
        )
    if context and isinstance(model, PinyinLettersModel):
        raise SettingError(
            "--context: pinyin-letters labels letters by themselves, and does not read the text before them; use a run "
            "of pinyin or pinyin-ngram"
        )
    if attention is None:
        return
    require_alignment(attention)
    if not hasattr(_network(model), "attention"):
        raise SettingError(f"--attention {attention}: only runs of pinyin have attention that is drawn")


def write_attention(
    model: Any,  # noqa: ANN401  a converter; checked by require_conversion
    texts: Sequence[str],
    path: str | Path,
    **options: Any,  # noqa: ANN401
) -> Path:
    """Writes the attention of each layer and head of an encoder to syllables.

    Args:
        model: The encoder, or one joined with n-grams.
        texts: Inputs, at least one that is more than spaces and apostrophes; others are left out.
        path: A page (``.html``), or a picture (``.png``) of the first text.
        **options: ``toned``, ``context`` and ``fuzzy``, as of ``convert``.

    Raises:
        SettingError: for another ending, no text, or a model without attention.
        RunError: if the file cannot be written.
    """
    from wenmai.runs.alignment import Alignment, write_alignment_page, write_alignment_picture

    target, network = Path(path), _network(model)
    require_conversion(model, attention=target)
    alignments = []
    for text in texts:
        if without_breaks(text):
            found = network.attention(text, **options)
            alignments.append(
                Alignment(
                    source=text,
                    translation=found.text,
                    source_tokens=found.tokens,
                    target_tokens=[*found.text] or found.tokens,
                    weights=found.weights,
                )
            )
    if not alignments:
        raise SettingError("there is no text whose attention could be shown")
    try:
        if target.suffix == ".html":
            title = say("Attention of {kind}", kind=network.kind)
            write_alignment_page(target, alignments, title=title, sides=("syllables", "Chinese characters"))
        else:
            write_alignment_picture(target, alignments[0])
    except OSError as error:
        raise RunError(f"{target}: cannot be written ({error.strerror})") from None
    return target


def _network(model: Any) -> Any:  # noqa: ANN401
    return getattr(model, "network", model)
