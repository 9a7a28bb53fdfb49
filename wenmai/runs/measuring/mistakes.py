"""The worst mistakes of a model: what they are, and a page that shows them.

The page is plain HTML (``page/mistakes.html``) and needs neither a script nor a network. The most confident of the
wrong answers come first: they show wrong labels of the data as often as what the model lacks.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from wenmai.core.folder import writing
from wenmai.core.quantities import to_scale
from wenmai.core.wording import say
from wenmai.measures.questions import answer_scores, fitting_rules
from wenmai.runs.measuring.measurer import Evaluation
from wenmai.runs.page import filled, scrolling
from wenmai.text.ranges import EAST_ASIAN

__all__ = ["Mistakes", "mistakes_of", "write_mistakes", "wrong_classes"]

_MOST = 100
_AROUND = 160  # characters of a context on each side of an answer
_SAID = {
    "run": "run {value}",
    "on": "on {value}",
    "examples": "examples: {value}",
    "accuracy": "accuracy {value}",
    "macro_f1": "macro F1 {value}",
    "f1": "F1 {value}",
    "spearman": "Spearman’s ρ {value}",
}  # what the head of the page has by its name in JSON

_CONTRAST = {"strong": 0.55, "full": 0.82}  # shares from which dark and light pages write in the colour of the paper
_EAST_ASIAN = re.compile(f"[{EAST_ASIAN}]")
_PLACE = re.compile(
    r"(?:(?P<file>.*): )?(?P<unit>line|item|example|document) (?P<number>\d+)(?:, sentence (?P<sentence>\d+))?",
    re.DOTALL,
)
_UNITS = {
    "line": "line {number}",
    "item": "item {number}",
    "example": "example {number}",
    "document": "document {number}, sentence {sentence}",
}


@dataclass(frozen=True)
class Mistakes:
    """What a model does worst.

    Attributes:
        task: ``classification``, ``tagging``, ``span``, ``choice`` or ``regression``.
        worst: The worst mistakes, plain JSON values; ``example`` is the number of each among those that were measured,
            from 1, and ``where`` says where it stands in the test set.
        total: How many mistakes there are.
        examples: How many examples were looked at.
    """

    task: str
    worst: list[dict[str, Any]]
    total: int
    examples: int


def wrong_classes(
    texts: Sequence[Any], gold: Sequence[Sequence[str]], every: Sequence[Any], places: Sequence[str]
) -> Mistakes:
    """Returns the texts whose most probable label is none of theirs.

    Args:
        texts: Texts, or pairs of texts.
        gold: The labels of each.
        every: All labels of each with their probabilities, the best first.
        places: Where each stands in the test set.
    """
    found = []
    for number, (text, labels, ranked) in enumerate(zip(texts, gold, every, strict=True), start=1):
        if not ranked or ranked[0][0] in labels:
            continue
        known = [probability for label, probability in ranked if label in labels]
        found.append(
            {
                "example": number,
                "texts": [text] if isinstance(text, str) else list(text),
                "gold": list(labels),
                "predicted": ranked[0][0],
                "gold_probability": float(max(known)) if known else None,
                "probability": float(ranked[0][1]),
            }
        )
    return _worst("classification", found, places, "probability")


def mistakes_of(
    model: Any,  # noqa: ANN401
    examples: Sequence[Any],
    items: Sequence[Any],
    outputs: Sequence[Any],
    places: Sequence[str],
) -> Mistakes:
    """Returns the mistakes of a fine-tuned model that is no classifier.

    Args:
        model: A :class:`~wenmai.inference.finetuned.FineTuned`.
        examples: The examples.
        items: What the model makes of them.
        outputs: Its outputs.
        places: Where each stands in the test set.
    """
    found, key = {"tagging": _tags, "span": _answers, "choice": _choices, "regression": _numbers}[model.task](
        model, examples, items, outputs
    )
    return _worst(model.task, found, places, key)


def _worst(task: str, found: list[dict[str, Any]], places: Sequence[str], key: str) -> Mistakes:
    worst = sorted(found, key=lambda one: -one[key])[:_MOST]
    for one in worst:
        one["where"] = places[one["example"] - 1]
        if math.isinf(one[key]):
            one[key] = None  # which JSON can hold
    return Mistakes(task, worst, len(found), len(places))


def _tags(model: Any, examples: Any, items: Any, outputs: Any) -> tuple[list[dict[str, Any]], str]:  # noqa: ANN401
    chosen, _ = model.decoded(outputs)
    between, found = "" if model.numbers["characters"] else " ", []
    rows = zip(examples, chosen, model.costs(examples, items, outputs), strict=True)
    for number, (example, numbers, cost) in enumerate(rows, start=1):
        tags = [model.labels[one] for one in numbers]
        if model.scheme == "none":
            gold, named = ({(n, n + 1, tag) for n, tag in enumerate(one)} for one in (example.tags, tags))
        else:
            gold, named = model.spans(example.tags), model.spans(tags)
        if gold != named:
            parts = {"gold": sorted(map(list, gold)), "found": sorted(map(list, named))}
            found.append({"example": number, "tokens": list(example.tokens), "between": between, **parts, "cost": cost})
    return found, "cost"


def _answers(model: Any, examples: Any, items: Any, outputs: Any) -> tuple[list[dict[str, Any]], str]:  # noqa: ANN401
    right = [[answer.text for answer in example.answers] for example in examples]
    rules, found = fitting_rules(right), []
    for number, (example, item, output) in enumerate(zip(examples, items, outputs, strict=True), start=1):
        given = model.answers(item, output, 1)[0]
        exact, f1 = answer_scores(right[number - 1], given.text, rules)
        if exact < 1:
            one = {"example": number, "question": example.question, "context": example.context}
            answers = [{"text": answer.text, "start": answer.start} for answer in example.answers]
            told = {"text": given.text, "start": given.start}
            found.append({**one, "gold": answers, "found": told, "f1": float(f1), "probability": given.probability})
    return found, "probability"


def _choices(model: Any, examples: Any, items: Any, outputs: Any) -> tuple[list[dict[str, Any]], str]:  # noqa: ANN401
    found = []
    for number, (example, output) in enumerate(zip(examples, outputs, strict=True), start=1):
        chosen = int(output.argmax())
        if chosen != example.answer:
            shares = np.exp(output.astype(np.float64)).tolist()
            options = [{"text": text, "probability": p} for text, p in zip(example.options, shares, strict=True)]
            one = {"example": number, "texts": list(example.turns), "question": example.question, "options": options}
            found.append({**one, "gold": example.answer, "predicted": chosen, "probability": shares[chosen]})
    return found, "probability"


def _numbers(model: Any, examples: Any, items: Any, outputs: Any) -> tuple[list[dict[str, Any]], str]:  # noqa: ANN401
    found = []
    rows = zip(examples, model.tallies(examples, items, outputs).tolist(), strict=True)
    for number, (example, (gold, predicted)) in enumerate(rows, start=1):
        if gold != predicted:
            texts = [text for text in (example.first, example.second) if text is not None]
            one = {"example": number, "texts": texts, "gold": gold, "predicted": predicted}
            found.append({**one, "error": abs(predicted - gold)})
    return found, "error"


# --- the page -------------------------------------------------------------------------------------------------------


def write_mistakes(
    path: str | Path,
    mistakes: Mistakes,
    evaluation: Evaluation,
    labels: Sequence[str] = (),
    confusion: Sequence[Sequence[int]] | None = None,
) -> None:
    """Writes the page, whole or not at all.

    Args:
        path: The page.
        mistakes: What it shows.
        evaluation: Of which they are.
        labels: Those of the confusion table.
        confusion: For how many texts or entities of each label (a row) each label was predicted.
    """
    shown = {"classification": _class, "tagging": _tagged, "span": _answered, "choice": _chosen, "regression": _rated}
    facts = {"run": evaluation.run, **evaluation._facts(), "examples": f"{mistakes.examples:,}"}
    known = {name: value for name, value in facts.items() if value is not None}
    byline = [say(_SAID.get(name, f"{name} {{value}}"), value=_value(value)) for name, value in known.items()]
    worst = say("Mistakes: {total}; the worst {shown} are shown.", total=f"{mistakes.total:,}", shown=_MOST)
    several = say("Mistakes: {total}; the worst come first.", total=f"{mistakes.total:,}")
    page = filled(
        "mistakes",
        title=escape(say("The worst mistakes")),
        byline="".join(f"<span>{escape(one)}</span>" for one in byline),
        abstract=escape(worst if mistakes.total > _MOST else several),
        key=_legend() if mistakes.task in ("tagging", "span") else "",
        confusion=_heat(labels, confusion) if confusion is not None and len(labels) > 1 else "",
        mistakes="\n".join(
            f'<li value="{rank}"><p class="where">{escape(_where(one["where"]))}</p>{shown[mistakes.task](one)}</li>'
            for rank, one in enumerate(mistakes.worst, start=1)
        ),
    )
    with writing(path) as file:
        file.write(page.encode("utf-8", "replace"))  # a lone surrogate becomes "?"


def _where(place: str) -> str:
    """Where an example stands, such as ``FILE: line 3``, in the chosen language; of a path the name alone."""
    found = _PLACE.fullmatch(place)
    if found is None:
        return say(place)
    shown = say(_UNITS[found["unit"]], number=found["number"], sentence=found["sentence"])
    if not found["file"]:
        return shown
    name = found["file"] if found["file"].startswith("data:") else Path(found["file"]).name
    return f"{say(name)}: {shown}"


def _value(value: Any) -> str:  # noqa: ANN401
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _share(value: float | None) -> str:
    return "" if value is None else f'<span class="share">{value:.1%}</span>'


def _pairs(rows: Sequence[tuple[str, str, str]]) -> str:
    """Returns rows of a name, a class and HTML."""
    return "<dl>" + "".join(f"<dt>{escape(say(n))}</dt><dd class='{c}'>{html}</dd>" for n, c, html in rows) + "</dl>"


def _texts(texts: Sequence[str]) -> str:
    return "".join(f'<p class="text">{escape(text) or "&nbsp;"}</p>' for text in texts)


def _class(one: dict[str, Any]) -> str:
    gold = f"{escape(', '.join(one['gold']))} {_share(one['gold_probability'])}"
    found = f"{escape(one['predicted'])} {_share(one['probability'])}"
    return _texts(one["texts"]) + _pairs([("right", "right", gold), ("predicted", "wrong", found)])


def _rated(one: dict[str, Any]) -> str:
    right, found = (to_scale(one[name], one["error"], 3) for name in ("gold", "predicted"))
    rows = [("right", "right", right), ("predicted", "wrong", found)]
    return _texts(one["texts"]) + _pairs([*rows, ("error", "", f"{one['error']:.4g}")])


def _chosen(one: dict[str, Any]) -> str:
    def option(number: int, option: dict[str, Any]) -> str:
        kind = "right" if number == one["gold"] else "wrong" if number == one["predicted"] else ""
        name = {"right": say("right"), "wrong": say("chosen"), "": ""}[kind]
        mark = f' <span class="kind">{escape(name)}</span>' if name else ""
        return f'<li class="{kind}">{escape(option["text"])} {_share(option["probability"])}{mark}</li>'

    options = "".join(option(number, found) for number, found in enumerate(one["options"]))
    question = [one["question"]] if one["question"] else []
    return f'{_texts([*one["texts"], *question])}<ul class="options">{options}</ul>'


def _tagged(one: dict[str, Any]) -> str:
    gold, found = ({tuple(span) for span in one[side]} for side in ("gold", "found"))
    sides = [("gold", gold, found, "missed"), ("found", found, gold, "wrong")]
    rows = [(n, "text", _entities(one, spans, other, kind)) for n, spans, other, kind in sides]
    cost = "∞" if one["cost"] is None else f"{one['cost']:.2f}"
    return _pairs([*rows, ("negative log-likelihood", "", cost)])


def _entities(one: dict[str, Any], spans: set[Any], other: set[Any], kind: str) -> str:
    parts, place, tokens, between = [], 0, one["tokens"], one["between"]
    for first, last, name in sorted(spans):
        parts += [escape(token) for token in tokens[place:first]]
        of = "right" if (first, last, name) in other else kind
        inside = escape(between.join(tokens[first:last]))
        parts.append(f'<mark class="{of}">{inside}<span class="kind">{escape(name)}</span></mark>')
        place = last
    return str(between.join(parts + [escape(token) for token in tokens[place:]]))


def _answered(one: dict[str, Any]) -> str:
    context, given = one["context"], one["found"]
    none = escape(say("no answer"))
    marks = [(answer["start"], len(answer["text"]), "missed") for answer in one["gold"][:1] if answer["start"] >= 0]
    marks += [] if given["start"] is None else [(given["start"], len(given["text"]), "wrong")]
    kinds = [""] * len(context)
    for start, size, kind in marks:
        for place in range(start, min(start + size, len(context))):
            kinds[place] = "both" if kinds[place] else kind
    near = [place for start, size, _ in marks for place in range(start - _AROUND, start + size + _AROUND)]
    shown, parts, place = set(near) if marks else set(range(2 * _AROUND)), [], 0
    while place < len(context):
        end = place + 1
        while end < len(context) and (kinds[end], end in shown) == (kinds[place], place in shown):
            end += 1
        part = escape(context[place:end]) if place in shown else " … "
        parts.append(f'<mark class="{kinds[place]}">{part}</mark>' if kinds[place] else part)
        place = end
    right = escape(one["gold"][0]["text"]) if one["gold"] else none
    rows = [
        ("right", "right", right),
        ("found", "wrong", f"{escape(given['text']) or none} {_share(one['probability'])}"),
    ]
    return f'<p class="text"><b>{escape(one["question"])}</b></p><p class="text">{"".join(parts)}</p>{_pairs(rows)}'


def _legend() -> str:
    marks = "".join(
        f'<mark class="{kind}">{escape(say(name))}</mark> '
        for kind, name in (("right", "right"), ("missed", "missed"), ("wrong", "wrong"))
    )
    return f'<p class="key">{marks}</p>'


def _upright(label: str) -> str:
    """Chinese signs stand one below the other; turned as other labels are, they would stand on their heads."""
    return ' class="upright"' if _EAST_ASIAN.search(label) else ""


def _heat(labels: Sequence[str], confusion: Sequence[Sequence[int]]) -> str:
    """Returns the confusion table, each cell as dark as its share of the row."""
    many = len(labels) > 12
    head = "".join(f'<th scope="col"><span{_upright(label)}>{escape(label)}</span></th>' for label in labels)
    rows = []
    for number, (label, counts) in enumerate(zip(labels, confusion, strict=True)):
        cells, whole = [], max(1, sum(counts))
        for other, count in enumerate(counts):
            kind, share = "diagonal" if other == number else "off", count / whole
            strong = "".join(f" {name}" for name, least in _CONTRAST.items() if share > least)
            tip = escape(f"{label} → {labels[other]}: {count:,} ({share:.1%})")
            cells.append(
                f'<td class="{kind}{strong}" style="--share:{100 * share:.0f}%" title="{tip}">{count or ""}</td>'
            )
        rows.append(f'<tr><th scope="row">{escape(label)}</th>{"".join(cells)}</tr>')
    title, caption = say("Confusion table"), say("A row for each right label, a column for each predicted one.")
    table = (
        f'<table class="heat{" many" if many else ""}"><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
    return (
        f'<section><h2>{escape(title)}</h2>{scrolling(title, table)}<p class="caption">{escape(caption)}</p></section>'
    )
