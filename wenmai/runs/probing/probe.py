"""Probes: what each layer of each model knows, on the same sets and by the same classifier.

A probe is logistic regression on frozen states (Alain, Bengio 2016, https://arxiv.org/abs/1610.01644). Word vectors are
probed as a model with one layer is, on the same examples, so that one vector for each word stands beside a vector in
context. A *control task* has random labels instead: a probe that learns these too has so much capacity of its own that
its accuracy says little about the states. *Selectivity* is the accuracy minus that of the control task (Hewitt, Liang
2019, "Designing and Interpreting Probes with Control Tasks", https://aclanthology.org/D19-1275).

| task | a unit | its features |
|---|---|---|
| ``classification`` | a text | the mean of its tokens' states, or the state of the text; the mean of word vectors |
| ``pair`` | two texts | abs(u - v) and u∘v of the states u and v of the texts (Conneau et al. 2017) |
| ``tagging`` | a word | the state of its first piece; its vector |

Features are standardised. A tenth of the training examples is set aside to choose by: of four penalties that with the
highest accuracy on them, averaged over the layers of each run and over the runs, so that all probes of a set have the
same; and the best layer of each run, whose score is that on the examples that are measured on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import RunError, SettingError, is_ordered, is_table
from wenmai.measures.probes import accuracy_interval, measure_tags
from wenmai.runs.compare import distinct_names, require_no_run
from wenmai.runs.measuring.measurer import Turns
from wenmai.runs.probing.regression import ROUGHLY, STRENGTHS, fit_probe, fit_probes, scaling_of, standardised
from wenmai.runs.probing.results import LayerProbe, Probing, SetProbe
from wenmai.runs.probing.sets import ProbeSet, open_probe_set
from wenmai.runs.probing.vectors import SeenLayers, layers_of, reader_of
from wenmai.training.callback import Callback
from wenmai.training.progress import following
from wenmai.training.run import Run

__all__ = ["LIMIT", "probe"]

Rows = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

LIMIT = 5000


def probe(
    runs: str | Path | Run | Sequence[str | Path | Run],
    on: str | Path | Sequence[str | Path],
    *,
    task: str | None = None,
    columns: Mapping[str, Any] | None = None,
    pooling: Literal["mean", "text"] = "mean",
    limit: int | None = LIMIT,
    control: bool = True,
    seed: int = 1,
    out: str | Path | None = None,
    command: str = "",
    device: str | None = None,
    callback: Callback | None = None,
    quiet: bool = False,
) -> Probing:
    """Probes every layer of finished runs on labelled sets.

    Args:
        runs: A run or its folder, or several: of word vectors, BERT, GPT, ELMo, imported or fine-tuned encoders.
        on: ``"data:NAME"``, ``"data:NAME/SPLIT"``, a file or folder, or ``"TRAIN,TEST"``; or several of these. See
            :func:`~wenmai.runs.probing.sets.open_probe_set`.
        task: ``classification``, ``pair`` or ``tagging``, of files; of data sets it is known.
        columns: Where texts and labels are in files, such as ``{"text_column": "review"}``; otherwise they are found.
        pooling: The state of a text: the ``mean`` of its tokens' states, or that of the ``text``.
        limit: Training examples of a set, drawn at random if there are more; None for all.
        control: Whether to train on random labels too.
        seed: Of the random labels, of which examples are drawn, and of the intervals.
        out: A folder for ``comparison.json`` and ``report.html``, with a chart by layer; None: none is written.
        command: The user's command, for the report.
        device: Where neural models compute; see :class:`~wenmai.training.run.Run`.
        callback: Follows; by default progress is printed on standard error.
        quiet: Print no progress.

    Raises:
        RunError: if a run is not finished, has neither layers nor word vectors, or ``out`` is a run.
        SettingError: for a set that no probe is for, a file without ``task``, or a setting out of its range.
        CorpusError: if examples cannot be read, are too few, or all have one label.
    """
    opened = [Run.of(run, device) for run in ([runs] if isinstance(runs, str | Path | Run) else runs)]
    names = _names([on] if isinstance(on, str | Path) else on)
    if not opened or not names:
        raise RunError("there is nothing to probe; name at least one run, and one set with --on")
    if pooling not in ("mean", "text"):
        raise SettingError(f"pooling={pooling!r}: expected mean or text")
    if limit is not None and limit < 20:
        raise SettingError(f"limit={limit}: expected at least 20")
    if seed < 0:
        raise SettingError(f"seed={seed}: expected 0 or more")
    if out is not None:
        require_no_run(Path(out))
    sets = _titled([open_probe_set(name, task=task, columns=columns, limit=limit, seed=seed) for name in names], names)
    readers = [reader_of(run, pooling=pooling) for run in opened]
    systems = distinct_names(opened)
    results: list[SetProbe] = []
    with following(callback, quiet=quiet) as follower:
        turns = Turns(follower.evaluating, runs=len(opened), sets=len(sets))
        for name, one in zip(names, sets, strict=True):
            seen, trials = [], []
            for system, run, reader in zip(systems, opened, readers, strict=True):
                turns.begin(name.partition(",")[0], system=system)
                seen.append(layers_of(run, reader, one))
                trials.append([_tried(one, seen[-1].features(one, layer)) for layer in range(len(seen[-1].states))])
            means = [np.mean([trial.chosen for trial in own], axis=0) for own in trials]
            penalty = int(np.mean(means, axis=0).argmax())  # of equal ones the strongest
            random = one.control(seed)[1] if control else None
            for system, run, states, own in zip(systems, opened, seen, trials, strict=True):
                layers = [
                    _measured(one, states, layer, trial, penalty, random, seed) for layer, trial in enumerate(own)
                ]
                results.append(_result(run, system, one, states, layers, penalty))
    if out is None:
        return Probing(results=tuple(results))
    from wenmai.runs.probing.page import write_page

    return Probing(results=tuple(results), report=str(write_page(opened, results, Path(out), command)))


def _names(on: Any) -> list[str]:  # noqa: ANN401  what a user gives
    """Returns the names of the sets, each once.

    Raises:
        SettingError: if something is no name, such as a table or its rows.
    """
    given = list(on) if is_ordered(on) and not is_table(on) else [on]
    for one in given:
        if not isinstance(one, str | Path):
            kind = type(one).__name__
            raise SettingError(f"a probe takes names of sets and files, not {kind}; write the examples to a file")
    return list(dict.fromkeys(map(str, given)))


def _titled(sets: Sequence[ProbeSet], specs: Sequence[str]) -> list[ProbeSet]:
    """Gives sets of the same title, such as train.tsv of two folders, what the user called them instead."""
    titles = [one.name for one in sets]
    return [
        replace(one, name=spec) if titles.count(one.name) > 1 else one for one, spec in zip(sets, specs, strict=True)
    ]


class _Trial(NamedTuple):
    """The probes of a layer with each penalty: accuracies on the examples to choose by, labels of the last part."""

    chosen: list[float]
    predicted: list[Ints]


def _tried(one: ProbeSet, features: Rows) -> _Trial:
    train, choose, test = one.parts
    _, gold = one.gold
    scaled = standardised(features, scaling_of(features[train]))
    probes = fit_probes(scaled[train], gold[train])
    accuracies = [float((probe.predict(scaled[choose]) == gold[choose]).mean()) for probe in probes]
    return _Trial(accuracies, [probe.predict(scaled[test]) for probe in probes])


def _measured(
    one: ProbeSet, seen: SeenLayers, layer: int, trial: _Trial, penalty: int, random: Ints | None, seed: int
) -> LayerProbe:
    train, _, test = one.parts
    labels, gold = one.gold
    predicted = trial.predicted[penalty]
    accuracy = float((predicted == gold[test]).mean())
    f1, low, high = _interval(one, [labels[number] for number in predicted], seed)
    learnt = None
    if random is not None:
        features = seen.features(one, layer)
        scaled = standardised(features, scaling_of(features[train]))
        classes, numbers = np.unique(random[train], return_inverse=True)  # a rare label may have no word
        learnt = 1.0
        if len(classes) > 1:
            part = test if one.task == "tagging" else train
            control = fit_probe(scaled[train], numbers, strength=STRENGTHS[penalty], tolerance=ROUGHLY)
            learnt = float((classes[control.predict(scaled[part])] == random[part]).mean())
    return LayerProbe(
        layer=layer,
        accuracy=accuracy,
        f1=f1,
        low=low,
        high=high,
        control=learnt,
        selectivity=None if learnt is None else accuracy - learnt,
        chosen=trial.chosen[penalty],
    )


def _result(
    run: Run, system: str, one: ProbeSet, seen: SeenLayers, layers: Sequence[LayerProbe], penalty: int
) -> SetProbe:
    _, gold = one.gold
    train, _, test = one.parts
    majority = int(np.bincount(gold[train]).argmax())
    return SetProbe(
        run=str(run.path),
        system=system,
        dataset=one.name,
        task=one.task,
        layers=tuple(layers),
        static=seen.static,
        best=max(layers, key=lambda layer: layer.chosen).layer,
        strength=STRENGTHS[penalty],
        majority=float((gold[test] == majority).mean()),
        trained=one.sizes[0] + one.sizes[1],
        available=one.available,
        measured=one.sizes[2],
        covered=seen.covered,
        note=seen.note,
        left_out=one.left_out,
    )


def _interval(one: ProbeSet, predicted: Sequence[str], seed: int) -> tuple[float | None, float | None, float | None]:
    """Returns the F1 of entities, if there are some, and the interval of the score."""
    given = one.examples[len(one.examples) - one.sizes[2] :]
    if one.task != "tagging":
        _, low, high = accuracy_interval([example.label for example in given], predicted)
        return None, low, high
    figures = measure_tags([example.tags for example in given], one.sentence_tags(predicted), seed=seed)
    return figures.f1, figures.low, figures.high
