"""Translate with a run, measure it on a test set, and look into it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wenmai.core.errors import RunError, SettingError
from wenmai.data.pairs import read_pairs
from wenmai.measures.translation import PairedResult, TranslationResult, compare_translations, measure_translation
from wenmai.runs.alignment import Alignment, write_alignment_page, write_alignment_picture
from wenmai.training.run import Run

if TYPE_CHECKING:
    from wenmai.inference.translator import Translation, Translator

__all__ = [
    "TranslationEvaluation",
    "evaluate_translation",
    "require_attention",
    "translation_json",
    "translator_of",
    "write_attention",
]


@dataclass(frozen=True, kw_only=True)
class TranslationEvaluation:
    """What was measured on a test set.

    Attributes:
        run: The run.
        on: The test set.
        result: Its figures.
        against: The run it was compared with, if any.
        difference: This run minus the other, with its significance.
    """

    run: str
    on: str
    result: TranslationResult
    against: str | None = None
    difference: PairedResult | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; the figures of the run are at the top."""
        found = {"run": self.run, "on": self.on, **self.result.as_dict()}
        if self.difference is not None:
            found |= {"against": self.against, "difference": self.difference.as_dict()}
        return found


def translator_of(run: str | Path | Run) -> "Translator":
    """Loads the model of a finished run that translates.

    Raises:
        RunError: if the run is not finished, or is of a system that does not translate.
    """
    opened = run if isinstance(run, Run) else Run(run)
    opened.require("translate")
    translator: Translator = opened.model
    return translator


def evaluate_translation(
    run: str | Path | Run,
    on: str | Path | Iterable[tuple[str, str]],
    *,
    against: str | Path | Run | None = None,
    tokenize: str | None = None,
    **options: Any,  # noqa: ANN401  checked by the translator
) -> TranslationEvaluation:
    """Translates a test set and measures the result by BLEU and chrF.

    Args:
        run: A finished run that translates.
        on: Pairs, named as for training; they are turned round if the run was trained so.
        against: Another run: is the difference more than chance?
        tokenize: sacreBLEU's tokeniser; None: ``zh`` for Chinese references, otherwise ``13a``.
        **options: How to search; see :meth:`wenmai.inference.translator.Translator.stream`.

    Raises:
        RunError: if a run is not finished or does not translate, or the two translate in opposite directions.
        CorpusError: if the test set cannot be read.
    """
    opened = run if isinstance(run, Run) else Run(run)
    translator = translator_of(opened)
    swap = opened.recipe.sections["data"].swap
    pairs = list(read_pairs(on, swap=swap))
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    made = translator.translate(sources, **options)
    chosen: Any = tokenize
    result = measure_translation(sources, made, references, tokenize=chosen)
    name = str(on) if isinstance(on, str | Path) else "pairs from Python"
    if against is None:
        return TranslationEvaluation(run=str(opened.path), on=name, result=result)
    other = against if isinstance(against, Run) else Run(against)
    second = translator_of(other)
    if other.recipe.sections["data"].swap != swap:
        raise RunError(f"{other.path} and {opened.path} translate in opposite directions")
    difference = compare_translations(second.translate(sources, **options), made, references, tokenize=chosen)
    return TranslationEvaluation(
        run=str(opened.path), on=name, result=result, against=str(other.path), difference=difference
    )


def write_attention(
    run: str | Path | Run,
    texts: Sequence[str],
    path: str | Path,
    *,
    translations: Sequence["Translation"] | None = None,
) -> Path:
    """Writes what each layer and head attended to in translations.

    Args:
        run: A finished run that translates.
        texts: At least one that is not empty.
        path: A page (``.html``), or a picture (``.png``) of the first text.
        translations: The translation of each text; none: they are made.

    Raises:
        SettingError: for another ending, or no text.
        RunError: if the file cannot be written.
    """
    target = Path(path)
    translator = translator_of(run)
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
            write_alignment_page(target, alignments, title=f"Attention of {translator.kind}")
        else:
            write_alignment_picture(target, alignments[0])
    except OSError as error:
        raise RunError(f"{target}: cannot be written ({error.strerror})") from None
    return target


def require_attention(translator: "Translator", path: Path) -> None:
    """Makes sure that :func:`write_attention` can write such a file.

    Raises:
        SettingError: for another ending than ``.html`` and ``.png``, or a model without attention.
    """
    if path.suffix not in (".html", ".png"):
        raise SettingError(f"--attention {path}: expected a name that ends in .html (a page) or .png (a picture)")
    if not translator.has_attention:
        raise SettingError(
            f"--attention {path}: this {translator.kind} has no attention (context={translator.config.context})"
        )


def translation_json(source: str, found: Sequence[Any]) -> dict[str, Any]:
    """Returns the translations of one text as JSON values."""
    return {"source": source, "translations": [asdict(translation) for translation in found]}
