"""Evaluate converters of pinyin: character error rates by form of the input, n-best lists, readings, and speed."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import harmonic_mean
from typing import Any

import numpy as np

from wenmai.core.clock import CLOCK
from wenmai.core.columns import in_columns
from wenmai.core.errors import SettingError
from wenmai.core.showing import Table
from wenmai.core.wording import say
from wenmai.data.catalogue import resolve
from wenmai.data.transliteration import TransliterationExample, read_gold
from wenmai.measures.conversion import Conversion, measure_conversion, ratio_intervals
from wenmai.runs.comparison import ComparedSystem, Comparison, Kind, Measure
from wenmai.runs.conversion import joined
from wenmai.runs.measuring.measurer import Evaluation, Measurer, Progress, Turns, title_of, unwatched
from wenmai.text.pinyin.letters import typed_letters
from wenmai.text.pinyin.readings import readings_of
from wenmai.text.pinyin.syllables import split_tone
from wenmai.training.run import Run

__all__ = ["CONVERTERS", "Annotation", "ConversionEvaluation", "check", "compare", "evaluate"]

_K = 5  # candidates of a sentence
_TONES = frozenset("012345")
_TOP = (1, 2, 3, 5, 10)  # sizes of lists of candidates, besides that of all
_SHOWN = 10  # syllables with most errors, of each form


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """How many syllables of a gold file are written rightly from its characters.

    Attributes:
        syllables: Syllables with a tone.
        accuracy: The share that the run writes rightly, from ``low`` to ``high``.
        low: See ``accuracy``.
        high: See ``accuracy``.
        pypinyin: The share of pypinyin, from ``pypinyin_low`` to ``pypinyin_high``.
        pypinyin_low: See ``pypinyin``.
        pypinyin_high: See ``pypinyin``.
    """

    syllables: int
    accuracy: float
    low: float | None
    high: float | None
    pypinyin: float
    pypinyin_low: float | None
    pypinyin_high: float | None


@dataclass(frozen=True, kw_only=True, repr=False)
class ConversionEvaluation(Evaluation):
    """The evaluation on a test set.

    Attributes:
        on: The test set.
        results: The measures by form of the input: letters alone, syllables with spaces, and these with tones.
        speeds: Sentences a second, by form, one candidate each.
        annotation: Of the readings of characters; None where the run writes none, or the file has none.
        weights: Of a network that is joined with n-grams: its weight, by form.
    """

    on: str
    results: dict[str, Conversion]
    speeds: dict[str, float]
    annotation: Annotation | None = None
    weights: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values, the measures by form."""
        forms = {
            form: {**result.as_dict(), "sentences_per_second": self.speeds[form]}
            for form, result in self.results.items()
        }
        found: dict[str, Any] = {"run": self.run, "on": self.on, "forms": forms}
        if self.weights:
            found["weights"] = self.weights
        if self.annotation is not None:
            found["annotation"] = asdict(self.annotation)
        return found

    def __str__(self) -> str:
        found = [*self.results.values()]
        rows = [
            [say("input"), *map(say, self.results)],
            ["CER", *[_shown(one.cer, one.cer_low, one.cer_high, ".4f") for one in found]],
            [say("sentences"), *[_shown(one.sentence_accuracy, one.sentence_low, one.sentence_high) for one in found]],
            [say("syllables"), *[_shown(one.syllable_accuracy, one.syllable_low, one.syllable_high) for one in found]],
        ]
        if all(one.coverage for one in found):
            last = [one.coverage[-1] for one in found]
            most = max(one.k for one in last)
            rows.append([say("best {k}", k=most), *[_shown(one.share, one.low, one.high) for one in last]])
        rows += [_tone_row(tone, found) for tone in sorted({one.tone for each in found for one in each.tones} - {0})]
        rows.append([say("sentences/s"), *[f"{speed:,.0f}" for speed in self.speeds.values()]])
        lines = [in_columns(rows)]
        if self.weights:
            weights = ", ".join(f"{say(form)} {one:g}" for form, one in self.weights.items())
            lines.append(f"weight of the network: {weights}")
        for form, result in self.results.items():
            if result.syllables:
                shown = [f"{one.syllable} {one.errors}/{one.total}" for one in result.syllables[:_SHOWN]]
                lines.append(f"errors by syllable, {form}: {', '.join(shown)}")
        if self.annotation is not None:
            read = self.annotation
            right = _shown(read.accuracy, read.low, read.high, ".2%")
            usual = _shown(read.pypinyin, read.pypinyin_low, read.pypinyin_high, ".2%")
            lines.append(f"readings of {read.syllables:,} characters: {right} right, pypinyin {usual}")
        return "\n".join(lines)

    def table(self) -> Table:
        """Returns a row for each form of the input, and those of each tone."""
        rows = []
        for form, one in self.results.items():
            row = {"input": form, "sentences": one.sentences}
            row |= {"cer": one.cer, "cer_low": one.cer_low, "cer_high": one.cer_high}
            for name in ("sentence", "syllable"):
                row |= {f"{name}_{end}": getattr(one, f"{name}_{end}") for end in ("accuracy", "low", "high")}
            if one.coverage:
                last = one.coverage[-1]
                row |= {f"best {last.k}": last.share, f"best {last.k} low": last.low, f"best {last.k} high": last.high}
            row |= {f"tone {tone.tone}": tone.accuracy for tone in one.tones}
            rows.append(row | {"sentences_per_second": self.speeds[form]})
        return Table.of(rows)


def _tone_row(tone: int, found: Sequence[Conversion]) -> list[str]:
    """How many syllables of a tone are right, by form of the input."""
    known = [{one.tone: one for one in each.tones}.get(tone) for each in found]
    return [
        say("tone {tone}", tone=tone),
        *["" if one is None else _shown(one.accuracy, one.low, one.high) for one in known],
    ]


def _shown(value: float | None, low: float | None, high: float | None, form: str = ".1%") -> str:
    """A value with its interval."""
    if value is None:
        return ""
    return f"{value:{form}}" if low is None or high is None else f"{value:{form}} [{low:{form}}, {high:{form}}]"


def evaluate(
    run: Run,
    *,
    on: str | Path,
    k: int = _K,
    ngram: str | Path | Run | None = None,
    weight: float | None = None,
    tune: str | Path | None = None,
    progress: Progress = unwatched,
) -> ConversionEvaluation:
    """Evaluates a converter on sentences whose pinyin is known, or on Chinese text, of which it is made.

    Each sentence is typed in three forms: as letters alone, as syllables with spaces, and as these with tones.

    Args:
        run: A finished run that converts.
        on: A gold file, or text, one sentence a line; or a name of the catalogue.
        k: Candidates of each sentence, for the share of sentences that are among them.
        ngram: A run of ``pinyin-ngram`` that a run of ``pinyin`` is joined with.
        weight: What scores of the network are multiplied with; None: 1, or as tuned.
        tune: Other sentences, on which the weight with the fewest errors is found, for each form.
        progress: Watches.

    Raises:
        SettingError: if options make no sense together.
        RunError: if the run is not finished or does not convert.
        CorpusError: if the test set cannot be read.
    """
    examples = list(read_gold(on))
    if ngram is None and not (weight is None and tune is None):
        raise SettingError("weight and tune are those of a network beside n-grams; add --ngram RUN, or leave them out")
    if weight is not None and tune is not None:
        raise SettingError("the weight is given, or tuned on sentences; leave out --weight or --tune")
    network = run.model_for("convert")
    model = network if ngram is None else joined(network, ngram, 1.0 if weight is None else weight)
    held = [] if tune is None else list(read_gold(tune))
    forms = _forms_of(examples)
    turns = Turns(progress, sets=len(forms))
    results, speeds, weights = {}, {}, {}
    for form in forms:
        turns.begin(on, form)
        if held:
            model.tune([_FORMS[form](one) for one in held], [one.characters for one in held])
        if ngram is not None:
            weights[form] = model.weight
        results[form], speeds[form] = _measured(model, examples, form, k)
    annotation = None
    if "annotate" in run.task.verbs and any(example.typed for example in examples):
        annotation = _annotated(network, examples)
    return ConversionEvaluation(
        run=str(run.path), on=str(on), results=results, speeds=speeds, annotation=annotation, weights=weights
    )


def compare(
    runs: Sequence[Run],
    comparison: Comparison,
    *,
    on: Sequence[str],
    k: int = _K,
    ngram: str | Path | Run | None = None,
    tune: str | Path | None = None,
    progress: Progress = unwatched,
) -> Comparison:
    """Compares character error rates, right sentences and speed, by form of the input.

    Args:
        runs: The runs.
        comparison: Describes them.
        on: Test sets, as of :func:`evaluate`.
        k: Candidates of each sentence.
        ngram: A run of ``pinyin-ngram``: each network of the runs is joined with it as one more system.
        tune: The sentences on which their weights are found; None: the weight is 1.
        progress: Watches.

    Raises:
        CorpusError: if a test set cannot be read.
        SettingError: if ``tune`` stands without ``ngram``, or no run can be joined with it.
    """
    if ngram is None and tune is not None:
        raise SettingError("tune finds the weight of a network beside n-grams; add --ngram RUN, or leave it out")
    sets = {name: list(read_gold(name)) for name in on}
    held = [] if tune is None else list(read_gold(tune))
    compared = [*zip(comparison.systems, runs, strict=True)]
    alone = len(compared)
    if ngram is not None:
        compared += _with_ngrams(runs, comparison.systems, Run.of(ngram))
    turns = Turns(progress, runs=len(compared), sets=sum(len(_forms_of(examples)) for examples in sets.values()))
    systems = list[ComparedSystem]()
    for number, (system, run) in enumerate(compared):
        model: Any = run.read_model()
        if number >= alone and ngram is not None:
            model = joined(model, ngram)
        measures, speeds, weights = list[Measure](), list[float](), dict[str, float]()
        for name, examples in sets.items():
            for form in _forms_of(examples):
                turns.begin(name, system.name)
                if number >= alone:
                    if (known := weights.get(form)) is not None:
                        model.weight = known
                    elif held:
                        model.tune([_FORMS[form](one) for one in held], [one.characters for one in held])
                    weights[form] = model.weight
                result, speed = _measured(model, examples, form, k)
                measures += _measures(f"{title_of(name, on)}, {form}", result, speed)
                speeds.append(speed)
        answered = harmonic_mean(speeds) if speeds else None
        settings = system.settings | {f"weight, {form}": weight for form, weight in weights.items()}
        systems.append(replace(system, measures=measures, answers_per_second=answered, settings=settings))
        del model  # one at a time: n-grams are large
    return replace(comparison, systems=systems)


def _with_ngrams(
    runs: Sequence[Run], systems: Sequence[ComparedSystem], ngram: Run
) -> list[tuple[ComparedSystem, Run]]:
    """Describes each network among systems joined with n-grams, as systems that were not trained as such.

    Raises:
        SettingError: if there is no network.
    """
    from wenmai.tasks.pinyin_ngram import PinyinNgramTask

    names = {run.path.resolve(): system.name for run, system in zip(runs, systems, strict=True)}
    named = names.get(ngram.path.resolve(), ngram.path.name)
    found: list[tuple[ComparedSystem, Run]] = []
    if not isinstance(ngram.task, PinyinNgramTask):  # before anything is measured
        raise SettingError("a run of pinyin is joined with one of pinyin-ngram; name one of each")
    for run, system in zip(runs, systems, strict=True):
        if "annotate" in run.task.verbs:
            name = f"{system.name} + {named}"
            both = ComparedSystem(name=name, label="a network joined with n-grams", run=system.run)
            found.append((both, run))
    if not found:
        raise SettingError(
            f"{ngram.path}: none of the runs is a network that can be joined with it; name one of pinyin"
        )
    return found


def check(*, on: Sequence[str], **others: Any) -> None:  # noqa: ANN401  what names no file
    """Makes sure that test sets are there, and downloads them if need be.

    Raises:
        CorpusError: if they are not.
    """
    for name in on:
        resolve(name)
        next(iter(read_gold(name)))


def _letters(example: TransliterationExample) -> str:
    typed = example.typed
    if typed and not any(one.isspace() or one.isdigit() for one in typed):
        return typed  # as the file has it
    items = typed_letters(example.syllables, erhua=example.erhua)
    return "".join(f"'{one}" if place and one in _TONES else one for place, one in enumerate(items))


def _spaced(example: TransliterationExample, *, toned: bool) -> str:
    typed = typed_letters(example.syllables, toned=toned, erhua=example.erhua)
    joined = [one if place in example.erhua or not place else f" {one}" for place, one in enumerate(typed)]
    return "".join(joined)


_FORMS: dict[str, Callable[[TransliterationExample], str]] = {
    "toneless unspaced": _letters,
    "toneless spaced": lambda example: _spaced(example, toned=False),
    "toned spaced": lambda example: _spaced(example, toned=True),
}


def _forms_of(examples: Sequence[TransliterationExample]) -> list[str]:
    """The forms in which sentences can be typed: with tones only if the file has some."""
    toned = any(split_tone(one)[1] for example in examples for one in example.syllables)
    return list(_FORMS) if toned else list(_FORMS)[:2]


def _measured(
    model: Any,  # noqa: ANN401  a Converter, or one joined of two
    examples: Sequence[TransliterationExample],
    form: str,
    k: int,
) -> tuple[Conversion, float]:
    typed = [_FORMS[form](example) for example in examples]
    model.convert(typed[:2])  # compiles, and fills what is kept
    begin = CLOCK.now()
    model.convert(typed)
    seconds = CLOCK.now() - begin
    found = [[one.text for one in candidates] for candidates in model.convert(typed, n_best=k)]
    result = measure_conversion(
        [example.characters for example in examples],
        [texts[0] if texts else "" for texts in found],
        readings=[example.syllables for example in examples],
        n_best=found,
        top=(*_TOP, k),
    )
    return result, len(typed) / max(seconds, 1e-9)


def _annotated(model: Any, examples: Sequence[TransliterationExample]) -> Annotation | None:  # noqa: ANN401  an Annotator
    gold = [example for example in examples if any(split_tone(one)[1] for one in example.syllables)]
    if not gold or not getattr(model, "annotates", True):
        return None
    texts = [example.characters for example in gold]
    counts = np.zeros((3, len(gold)))  # of each sentence: written rightly by the run and by pypinyin, and all
    for number, (example, found, known) in enumerate(
        zip(gold, model.annotate(texts), map(readings_of, texts), strict=True)
    ):
        for syllable, one, other in zip(example.syllables, found, known, strict=True):
            if split_tone(syllable)[1]:
                counts[:, number] += one == syllable, other == syllable, 1
    right, usual, total = counts
    (low, high), (usual_low, usual_high) = ratio_intervals([(right, total), (usual, total)])
    return Annotation(
        syllables=int(total.sum()),
        accuracy=float(right.sum() / total.sum()),
        low=low,
        high=high,
        pypinyin=float(usual.sum() / total.sum()),
        pypinyin_low=usual_low,
        pypinyin_high=usual_high,
    )


def _measures(name: str, result: Conversion, speed: float) -> list[Measure]:
    rates: list[tuple[str, float, float | None, float | None]]
    rates = [("sentences", result.sentence_accuracy, result.sentence_low, result.sentence_high)]
    if result.syllable_accuracy is not None:
        rates.append(("syllables", result.syllable_accuracy, result.syllable_low, result.syllable_high))
    if result.coverage:
        last = result.coverage[-1]
        rates.append(("best", last.share, last.low, last.high))
    return [
        Measure(
            name=name,
            kind="cer",
            value=result.cer,
            low=result.cer_low,
            high=result.cer_high,
            total=result.sentences,
            lower_is_better=True,
        ),
        *(
            Measure(name=name, kind=kind, value=value, low=low, high=high, total=result.sentences)
            for kind, value, low, high in rates
        ),
        Measure(name=name, kind="speed", value=speed, total=result.sentences),
    ]


CONVERTERS = Measurer(
    models="converters of pinyin",
    evaluate=evaluate,
    compare=compare,
    check=check,
    own_tokens=True,
    kinds={
        "cer": Kind(
            title="Character error rate",
            name="CER",
            items="sentences",
            about="is the sum of the edit distances between what was found and what is right, by right characters.",
        ),
        "sentences": Kind(
            title="Right sentences",
            name="sentences",
            items="sentences",
            about="are the share of the sentences all of whose characters are right.",
            percent=True,
        ),
        "syllables": Kind(
            title="Right syllables",
            name="syllables",
            items="sentences",
            about="are the share of the syllables whose character is right.",
            percent=True,
        ),
        "best": Kind(
            title="Right sentence among the best",
            name="among the best",
            items="sentences",
            about="is the share of the sentences that are among the best candidates.",
            percent=True,
        ),
        "speed": Kind(
            title="Sentences a second",
            name="speed",
            items="sentences",
            about="are measured on this machine, many sentences at once, one candidate each.",
            judged=False,
        ),
    },
)
