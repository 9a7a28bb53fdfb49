"""Evaluate translators on pairs: BLEU and chrF, by length, and the significance of differences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wenmai.core.columns import in_columns
from wenmai.core.errors import RunError
from wenmai.core.showing import Table
from wenmai.core.wording import say
from wenmai.data.pairs import Pairs, PairsStats, read_pairs
from wenmai.measures.translation import (
    LengthBucket,
    PairedDifference,
    PairedResult,
    TranslationResult,
    compare_translations,
    measure_translation,
    require_tokenization,
)
from wenmai.runs.comparison import Comparison, Difference, Kind, LinePoint, Measure, Panel, Samples
from wenmai.runs.measuring.measurer import Evaluation, Measurer, Progress, Turns, title_of, unwatched
from wenmai.training.run import Run

__all__ = ["TRANSLATORS", "TranslationEvaluation", "check", "compare", "evaluate"]

_BEAM = 5
_METRICS = ("bleu", "chrf", "exact_match")
_SHOWN = 4  # translations


@dataclass(frozen=True, kw_only=True, repr=False)
class TranslationEvaluation(Evaluation):
    """The evaluation on a test set.

    Attributes:
        on: The test set.
        result: Its metrics.
        against: The run it was compared with, if any.
        difference: This run minus the other, with its significance.
        left_out: What of the test set was left out, one sentence for each reason.
    """

    on: str
    result: TranslationResult
    against: str | None = None
    difference: PairedResult | None = None
    left_out: Sequence[str] = ()

    @property
    def notes(self) -> list[str]:
        """What was left out."""
        return list(self.left_out)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; the metrics of the run are at the top."""
        found = {"run": self.run, "on": self.on, **self.result.as_dict()}
        if self.difference is not None:
            found |= {"against": self.against, "difference": self.difference.as_dict()}
        return found

    def __str__(self) -> str:
        rows = [[say(name) for name in ("length", "sentences", "BLEU", "chrF", "exact")]]
        for bucket in self.result.buckets:
            metrics = [f"{bucket.bleu:.1f}", f"{bucket.chrf:.1f}", f"{bucket.exact_match:.1%}"]
            rows.append([f"{bucket.name} {say(self.result.length_unit)}", str(bucket.sentences), *metrics])
        lines = [str(self.result), in_columns(rows)]
        if self.difference is not None:
            lines += [
                f"{name} {paired.difference:+z.2f} against {self.against} [{paired.low:+z.2f}, {paired.high:+z.2f}], "
                f"p = {paired.p_value:.4f}"
                for name, paired in (("BLEU", self.difference.bleu), ("chrF", self.difference.chrf))
            ]
        return "\n".join(lines)

    def _facts(self) -> dict[str, Any]:
        found = self.result
        return {"run": self.run, "on": self.on, "against": self.against, "bleu": found.bleu, "chrf": found.chrf}

    def table(self) -> Table:
        """Returns a row for all sentences, and one for those of about one length."""
        found, unit = self.result, self.result.length_unit
        every = {"length": "all", **{name: getattr(found, name) for name in ("sentences", *_METRICS)}}
        rows = [
            {"length": f"{bucket.name} {unit}", **{name: getattr(bucket, name) for name in ("sentences", *_METRICS)}}
            for bucket in found.buckets
        ]
        return Table.of([every, *rows])


def evaluate(
    run: Run,
    *,
    on: str | Path | Iterable[tuple[str, str]],
    against: str | Path | Run | None = None,
    beam: int = _BEAM,
    tokenize: str | None = None,
    progress: Progress = unwatched,
) -> TranslationEvaluation:
    """Evaluates a translator on a test set by BLEU and chrF.

    Args:
        run: A finished run that translates.
        on: Pairs, named as for training; reversed if the run was trained so.
        against: Another run, to test the difference.
        beam: Hypotheses kept at each step; 1 is greedy.
        tokenize: sacreBLEU's tokeniser; None: ``zh`` for Chinese references, otherwise ``13a``.
        progress: Watches.

    Raises:
        RunError: if a run is not finished or does not translate, or the two translate in opposite directions.
        CorpusError: if the test set cannot be read.
        SettingError: if there is no such tokeniser, or sacreBLEU is not installed.
    """
    require_tokenization(tokenize)
    pairs = read_pairs(on, swap=_swapped(run))
    other = against if isinstance(against, Run) or against is None else Run(against)
    runs = [run] if other is None else [run, other]
    _require_one_direction(runs)
    sources, references, left_out = _read(pairs)
    turns, made = Turns(progress, runs=len(runs), sets=1), []
    for one in runs:
        turns.begin(pairs.describe())
        made.append(one.model_for("translate").translate(sources, beam_size=beam))
    chosen: Any = tokenize
    return TranslationEvaluation(
        run=str(run.path),
        on=str(on) if isinstance(on, str | Path) else "pairs from Python",
        result=measure_translation(sources, made[0], references, tokenize=chosen),
        against=None if other is None else str(other.path),
        difference=None if other is None else compare_translations(made[1], made[0], references, tokenize=chosen),
        left_out=left_out,
    )


def compare(
    runs: Sequence[Run],
    comparison: Comparison,
    *,
    on: Sequence[str],
    beam: int = _BEAM,
    tokenize: str | None = None,
    progress: Progress = unwatched,
) -> Comparison:
    """Compares BLEU and chrF, by length of the source, and tests the differences from the first run.

    Args:
        runs: The runs.
        comparison: Describes them.
        on: Pairs, as of :func:`evaluate`; translations of the first are shown.
        beam: As of :func:`evaluate`.
        tokenize: As of :func:`evaluate`.
        progress: Watches.

    Raises:
        RunError: if two runs translate in opposite directions.
        CorpusError: if a test set cannot be read.
        SettingError: as :func:`evaluate`.
    """
    require_tokenization(tokenize)
    _require_one_direction(runs)
    sets = {name: read_pairs(name, swap=_swapped(runs[0])) for name in on}
    texts = {name: _read(pairs) for name, pairs in sets.items()}
    files = [source for pairs in sets.values() for source in pairs.sources]
    chosen: Any = tokenize
    first: dict[str, list[str]] = {}
    turns = Turns(progress, runs=len(runs), sets=len(on))
    systems, panels, signatures = [], dict[str, Panel](), dict[str, None]()
    for run, system in zip(runs, comparison.systems, strict=True):
        model = run.read_model()
        measures, lines, shown = list[Measure](), dict[str, list[LinePoint]](), dict[str, str]()
        for name, pairs in sets.items():
            turns.begin(pairs.describe(), system.name)
            sources, references, left_out = texts[name]
            made = model.translate(sources, beam_size=beam)
            result = measure_translation(sources, made, references, tokenize=chosen)
            tested = None
            if name in first:
                tested = compare_translations(first[name], made, references, tokenize=chosen)
            first.setdefault(name, made)
            title = ", ".join(title_of(source, files) for source in pairs.sources)
            measures += _measures(title, result, tested, left_out)
            lines[title] = [_point(bucket, result.length_unit) for bucket in result.buckets]
            panels.setdefault(title, _panel(title, result.length_unit))
            signatures |= {result.signature: None, result.chrf_signature: None}
            shown = shown or {sources[place]: made[place] for place in _places(len(sources))}
        systems.append(replace(system, measures=measures, lines=lines, samples=shown))
    sources, references, _ = texts[on[0]]
    expected = dict(zip(sources, references, strict=True))
    signed = f" sacreBLEU’s signatures: {'; '.join(signatures)}."
    return replace(
        comparison,
        systems=systems,
        panels=panels,
        sampled=replace(_SAMPLED, references={source: expected[source] for source in systems[0].samples}),
        kinds=comparison.kinds | {"bleu": replace(_BLEU, about=_BLEU.about + signed)},
    )


def check(*, on: Sequence[str], tokenize: str | None = None, **others: Any) -> None:  # noqa: ANN401  what names no file
    """Makes sure that pairs are there, and downloads them if need be, and that BLEU can be computed.

    Raises:
        CorpusError: if they are not.
        SettingError: as :func:`evaluate`.
    """
    require_tokenization(tokenize)
    for name in on:
        read_pairs(name)


def _swapped(run: Run) -> bool:
    swap: bool = run.recipe.sections["data"].swap
    return swap


def _require_one_direction(runs: Sequence[Run]) -> None:
    for run in runs[1:]:
        run.require("translate")
        if _swapped(run) != _swapped(runs[0]):
            raise RunError(f"{run.path} and {runs[0].path} translate in opposite directions")


def _read(pairs: Pairs) -> tuple[list[str], list[str], list[str]]:
    """Returns sources, references, and what was left out."""
    stats = PairsStats()
    read = list(pairs.read(stats))
    return [source for source, _ in read], [target for _, target in read], stats.left_out()


def _measures(
    name: str, result: TranslationResult, tested: PairedResult | None, left_out: Sequence[str]
) -> list[Measure]:
    scored = (
        ("bleu", result.bleu, result.bleu_low, result.bleu_high, tested and tested.bleu),
        ("chrf", result.chrf, result.chrf_low, result.chrf_high, tested and tested.chrf),
    )
    return [
        Measure(
            name=name,
            kind=kind,
            value=value,
            low=low,
            high=high,
            total=result.sentences,
            parts=[
                Measure(
                    name=f"{bucket.name} {result.length_unit}",
                    kind=kind,
                    value=getattr(bucket, kind),
                    total=bucket.sentences,
                )
                for bucket in result.buckets
            ],
            difference=_difference(paired) if paired else None,
            notes=list(left_out) if kind == "bleu" else [],
        )
        for kind, value, low, high, paired in scored
    ]


def _difference(paired: PairedDifference) -> Difference:
    return Difference(value=paired.difference, low=paired.low, high=paired.high, p_value=paired.p_value)


def _point(bucket: LengthBucket, unit: str) -> LinePoint:
    """A bucket is drawn at its middle; the last, which has no end, at its beginning."""
    middle = bucket.low if bucket.high is None else (bucket.low + bucket.high) / 2
    return LinePoint(x=middle, y=bucket.bleu, note=f"{bucket.name} {unit}, {bucket.sentences:,} sentences")


def _places(count: int) -> list[int]:
    """Some sentences at even distances."""
    places: list[int] = np.unique(np.linspace(0, count - 1, _SHOWN + 2)[1:-1].astype(int)).tolist()
    return places


def _panel(name: str, unit: str) -> Panel:
    return Panel(
        section="Long and short sentences",
        title=f"BLEU, {name}",
        axis=f"Length of the source, {unit}",
        unit=unit,
        caption="BLEU of the sentences whose source is about so long; a bucket of few sentences says little.",
    )


_BLEU = Kind(
    title="BLEU, 0 to 100",
    name="BLEU",
    items="sentences",
    about="measures how many sequences of one to four words are also in the references, with a penalty on short"
    " translations.",
)
_SAMPLED = Samples(
    title="Translations",
    caption="Sentences at even distances in the test set. Nothing was chosen by hand.",
    continued=False,
)
TRANSLATORS = Measurer(
    models="translators",
    evaluate=evaluate,
    compare=compare,
    check=check,
    own_tokens=True,
    kinds={
        "bleu": _BLEU,
        "chrf": Kind(
            title="chrF2, 0 to 100",
            name="chrF2",
            items="sentences",
            about="is the F2 score of sequences of one to six characters: recall counts twice as much as precision.",
        ),
    },
)
