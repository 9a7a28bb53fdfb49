"""The report of a comparison: one self-contained HTML file.

The table, the notes and the facts are plain HTML, which needs no JavaScript; the script ``page/page.js`` draws the
curves, neighbours and maps from the comparison, which the page holds as JSON. The measures of the systems give the
columns, and the kinds of the comparison their form.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from html import escape
from pathlib import Path

from wenmai.core.folder import writing
from wenmai.core.quantities import plural
from wenmai.core.wording import say
from wenmai.runs.by_task import task_figures
from wenmai.runs.comparison import ComparedSystem, Comparison, Facts, Kind, Panel
from wenmai.runs.page import filled, scrolling, swatch
from wenmai.runs.report_curves import script_data
from wenmai.runs.report_numbers import duration, fact_name, fact_text, short_number
from wenmai.runs.report_table import (
    Column,
    confidence_text,
    cost_columns,
    ends_of,
    kind_of,
    quality_columns,
    results_table,
    section_tables,
)

__all__ = ["report_html", "write_report"]

NOTES = {
    "Coverage": "counts the items whose words are all known to the system; scores of word sets leave out the others.",
    "Interval": "is Wilson's for the proportion of items that are right; for other metrics the test items are drawn "
    "again at random, many times, and {confidence} of the draws score inside it. It reflects which items were tested, "
    "not how results vary with the training seed.",
    "Difference": "Δ is the metric of a system minus that of {first} on the same test items, and p the chance of a "
    "difference at least as large between systems that do not differ.",
    "Speed": "is the number of corpus words read per second of training, averaged over all epochs.",
    "Time": "is the wall-clock time of training, without encoding the corpus or evaluating.",
    "Memory": "is the largest resident memory of the training process.",
    "Size": "is what the finished model takes on disk.",
    "Cost": "is that of one training each, on the machine named below; small differences mean little.",
}


def write_report(comparison: Comparison, path: str | Path) -> None:
    """Writes the report of a comparison, whole or not at all.

    Args:
        comparison: The comparison; one system makes the report of a single run.
        path: The HTML file to write.

    Raises:
        RunError: if a field of the comparison has the wrong type.
    """
    with writing(path) as file:
        # a lone surrogate in a hand-made word becomes "?"
        file.write(report_html(comparison).encode("utf-8", "replace"))


def report_html(comparison: Comparison) -> str:
    """Returns the report of a comparison as one self-contained HTML page.

    Raises:
        RunError: if a field of the comparison has the wrong type.
    """
    stored = comparison.to_json()
    comparison = _spoken(Comparison.from_json(stored))  # plain Python numbers, and none that is not finite
    quality, cost = quality_columns(comparison), cost_columns(comparison.systems)
    return filled(
        "page",
        title=escape(comparison.title or _title(comparison)),
        byline=_byline(comparison),
        abstract=escape(_abstract(comparison, quality)),
        table=results_table(comparison, quality, cost),
        sections=section_tables(comparison),
        tasks=task_figures(comparison.systems),
        samples=_samples(comparison),
        notes=_notes(comparison, quality, cost),
        confidence=confidence_text(comparison),
        map_method=escape(
            say("Laid out by {method}.", method=say(comparison.map_method)) if comparison.map_method else ""
        ),
        reproduce=_reproduce(comparison),
        data=script_data(comparison.to_json()),
    )


def _spoken(comparison: Comparison) -> Comparison:
    """Returns a comparison with its texts in the language of the reader; names stay as they are."""

    def kind(one: Kind) -> Kind:
        return replace(one, title=say(one.title), name=say(one.name), items=say(one.items), about=say(one.about))

    def panel(one: Panel) -> Panel:
        section, title, axis, unit = map(say, (one.section, one.title, one.axis, one.unit))
        return replace(one, section=section, title=title, axis=axis, unit=unit, caption=say(one.caption))

    def system(one: ComparedSystem) -> ComparedSystem:
        lines = {name: [replace(point, note=say(point.note)) for point in points] for name, points in one.lines.items()}
        return replace(one, label=say(one.label), loss_kind=say(one.loss_kind), lines=lines)

    sampled = comparison.sampled
    return replace(
        comparison,
        systems=list(map(system, comparison.systems)),
        kinds={name: kind(one) for name, one in comparison.kinds.items()},
        panels={name: panel(one) for name, one in comparison.panels.items()},
        sampled=sampled and replace(sampled, title=say(sampled.title), caption=say(sampled.caption)),
    )


# The words at the top


def _title(comparison: Comparison) -> str:
    systems = comparison.systems
    what = systems[0].name if len(systems) == 1 else say("{number} systems compared", number=_number(len(systems)))
    return say("{what} on {corpus}", what=what, corpus=_corpus(comparison))


def _corpus(comparison: Comparison) -> str:
    return say(comparison.corpus.name)  # a name, or that there are several


def _byline(comparison: Comparison) -> str:
    corpus = comparison.corpus
    counts = ((corpus.tokens, "token"), (corpus.types, "different word"), (corpus.sentences, "sentence"))
    parts = [comparison.created, *(plural(count, name) for count, name in counts if count is not None)]
    parts += [say("segmentation: {name}", name=corpus.segment)] if corpus.segment else []
    return "".join(f"<span>{escape(part)}</span>" for part in parts if part)


def _abstract(comparison: Comparison, quality: list[Column]) -> str:
    systems, tokens = comparison.systems, comparison.corpus.tokens
    text = _corpus(comparison)
    if tokens is not None:
        text = say("{tokens} of {corpus}", tokens=plural(tokens, "token"), corpus=text)
    sentences = _trained(systems[0], text) if len(systems) == 1 else _compared(systems, text, tokens is not None)
    contested = [column.marks() for column in quality if column.judged and column.best() is not None]
    if contested:
        wins = [sum(mark != "" for mark in marks) for marks in zip(*contested, strict=True)]
        leaders = [system.name for system, won in zip(systems, wins, strict=True) if won == max(wins)]
        who = _listed(leaders) if len(leaders) < 4 else say("{number} systems", number=len(leaders))
        best = "{who} is best, or within noise of the best, on {measures}."
        best = best if len(leaders) == 1 else "{who} are each best, or within noise of the best, on {measures}."
        sentences.append(say(best, who=who, measures=_of_measures(max(wins), len(contested))))
    timed = sorted((system.words_per_second, system.name) for system in systems if system.words_per_second)
    alike = len({system.loss_kind for system in systems}) == 1  # a word costs unlike systems unlike work
    if alike and len(timed) > 1 and timed[0][0] < timed[-1][0]:
        (slow, last), (fast, first) = timed[0], timed[-1]
        fastest = "The fastest is {first} at {speed} words a second, {times} times as fast as {last}."
        sentences.append(say(fastest, first=first, speed=short_number(fast), times=f"{fast / slow:.1f}", last=last))
    return say(" ").join(sentences)


def _trained(system: ComparedSystem, text: str) -> list[str]:
    what = say("{name} ({label})", name=system.name, label=system.label) if system.label else system.name
    facts: dict[str, str] = {"what": what, "text": text}
    sentence = "{what} was trained on {text}"
    if system.seconds is not None:
        sentence, facts["time"] = sentence + " in {time}", duration(system.seconds)
    if system.words_per_second is not None:
        sentence, facts["speed"] = sentence + ", at {speed} words a second", short_number(system.words_per_second)
    return [say(f"{sentence}.", **facts)]


def _compared(systems: list[ComparedSystem], text: str, same: bool) -> list[str]:
    trained = (
        "{number} systems were trained on the same {text}." if same else "{number} systems were trained on {text}."
    )
    return [say(trained, number=_number(len(systems)), text=text)]


def _of_measures(won: int, contested: int) -> str:
    if contested == 1:
        return say("the quality measure")
    if won == contested:
        return say("all {number} quality measures", number=contested)
    return say("{won} of {number} quality measures", won=won, number=contested)


def _number(count: int) -> str:
    words = ["One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve"]
    return say(words[count - 1]) if count <= len(words) else str(count)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else say("{names} and {last}", names=", ".join(names[:-1]), last=names[-1])


def _samples(comparison: Comparison) -> str:
    """Returns the sample of each system for each prompt."""
    systems, sampled = comparison.systems, comparison.sampled
    prompts = list(dict.fromkeys(prompt for system in systems for prompt in system.samples))
    if not prompts or sampled is None:
        return ""
    tables = []
    for prompt in prompts:
        begun = f"<b>{escape(prompt)}</b>"
        rows = "" if sampled.continued else _sample_row(say("source"), begun)
        if prompt in sampled.references:
            rows += _sample_row(say("reference"), escape(sampled.references[prompt]))
        for index, system in enumerate(systems):
            if prompt in system.samples:
                text = (begun if sampled.continued else "") + escape(system.samples[prompt])
                rows += _sample_row(f"{swatch(index)}{escape(system.name)}", text)
        tables.append(
            scrolling(
                say("Samples after {prompt}", prompt=prompt), f'<table class="samples"><tbody>{rows}</tbody></table>'
            )
        )
    return (
        f'<section id="samples" aria-labelledby="samples-title"><h2 id="samples-title">{escape(sampled.title)}</h2>'
        f'{"".join(tables)}<p class="caption">{escape(sampled.caption)}</p></section>'
    )


def _sample_row(head: str, text: str) -> str:
    return f'<tr><th scope="row">{head}</th><td class="sample">{text}</td></tr>'


def _notes(comparison: Comparison, quality: list[Column], cost: list[Column]) -> str:
    kinds = dict.fromkeys(measure.kind for system in comparison.systems for measure in system.measures)
    shown_kinds = [kind_of(comparison, kind) for kind in kinds]
    notes = {re.split("[,，]", kind.title)[0]: kind.about for kind in shown_kinds if kind.about}
    cells = [cell for column in quality for cell in column.measured()]
    shown = {
        "Coverage": any(cell.covered is not None for cell in cells),
        "Interval": any(ends_of(cell) for cell in cells),
        "Difference": any(cell.difference is not None for cell in cells),
        "Cost": bool(cost),
        **{name: say(name) in {column.title for column in cost} for name in ("Speed", "Time", "Memory", "Size")},
    }
    values = {"confidence": confidence_text(comparison), "first": comparison.systems[0].name}
    notes |= {say(name): say(text, **values) for name, text in NOTES.items() if shown.get(name)}
    notes |= {place + say(":"): "; ".join(map(say, own)) for place, own in comparison.notes.items()}
    items = "".join(f"<li><b>{escape(name)}</b>{say(' ')}{escape(about)}</li>" for name, about in notes.items())
    return f'<ul class="notes">{items}</ul>'


# How to repeat this


def _reproduce(comparison: Comparison) -> str:
    corpus = comparison.corpus
    corpus_facts: Facts = {
        "corpus": say(corpus.name),
        "tokens": corpus.tokens,
        "sentences": corpus.sentences,
        "different tokens": corpus.types,
        "segmentation": corpus.segment,
        "fingerprint": corpus.fingerprint,
        **corpus.facts,
    }
    lists = ""
    for title, facts in (("Corpus", corpus_facts), ("Machine and versions", comparison.machine)):
        known = ((name, value) for name, value in facts.items() if value not in ("", None))
        said = ((name, "; ".join(map(say, fact_text(value, name).split("; ")))) for name, value in known)
        rows = "".join(f"<dt>{escape(fact_name(name))}</dt><dd>{escape(value)}</dd>" for name, value in said)
        lists += f"<div><h3>{say(title)}</h3><dl>{rows}</dl></div>" if rows else ""
    command = (
        f"<h3>{say('Command')}</h3><pre><code>{escape(comparison.command)}</code></pre>" if comparison.command else ""
    )
    return f'{command}<div class="facts">{lists}</div><h3>{say("Settings")}</h3>{_settings(comparison.systems)}'


_CLASSES = {"Changed settings": ' class="settings"'}


def _settings(systems: list[ComparedSystem]) -> str:
    changed = [[_setting(name, value) for name, value in system.settings.items()] for system in systems]
    common = set(changed[0]).intersection(*changed[1:]) if len(systems) > 1 else set()

    def listed(settings: Iterable[str]) -> str:
        return " ".join(f"<code>{escape(setting)}</code>" for setting in settings)

    columns = {
        "Changed settings": [listed(s for s in own if s not in common) or say("defaults") for own in changed],
        "Vocabulary": [fact_text(system.vocabulary) for system in systems],
        "Parameters": [fact_text(system.parameters) for system in systems],
        "Run": [f"<code>{escape(system.run)}</code>" for system in systems],
    }
    known = {name: cells for name, cells in columns.items() if set(cells) != {"–"}}
    rows = "".join(
        f'<tr><th scope="row">{swatch(index)}{escape(system.name)}</th>'
        + "".join(f"<td{_CLASSES.get(name, '')}>{cells[index]}</td>" for name, cells in known.items())
        + "</tr>"
        for index, system in enumerate(systems)
    )
    heads = "".join(f'<th scope="col">{say(name)}</th>' for name in ("System", *known))
    table = f'<table class="systems"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    everywhere = ""
    if common:
        everywhere = f'<p class="caption">{say("Common to all: {settings}", settings=listed(sorted(common)))}</p>'
    return scrolling(say("Settings"), table) + everywhere


def _setting(name: str, value: str | int | float | bool | None) -> str:
    return f"{name}={str(value).lower() if isinstance(value, bool) else value}"  # as --set takes it
