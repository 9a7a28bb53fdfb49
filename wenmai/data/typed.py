"""The examples of labelled data, each kind a type."""

from typing import Any, NamedTuple, Self

__all__ = [
    "Answer",
    "ChoiceExample",
    "LabelledExample",
    "MinimalPair",
    "PairExample",
    "ScoredExample",
    "SpanExample",
    "TaggedSentence",
    "TextExample",
    "WeightedPair",
    "WeightedText",
    "weight_of",
]


class TextExample(NamedTuple):
    """A text and its class."""

    text: str
    label: str


class TaggedSentence(NamedTuple):
    """Tokens (words, or characters of Chinese) and as many tags; entities are tagged O, B-TYPE and I-TYPE (IOB2)."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]


class PairExample(NamedTuple):
    """Two sentences, their relation, and a score where the data set has one."""

    first: str
    second: str
    label: str
    score: float | None = None


class WeightedText(TextExample):
    """A text that counts ``weight`` times in a training; it equals the example without a weight."""

    weight: float

    def __new__(cls, text: str, label: str, weight: float) -> Self:
        """Makes it of a text, its class, and a weight above 0."""
        made = super().__new__(cls, text, label)
        made.weight = weight
        return made


class WeightedPair(PairExample):
    """Two sentences that count ``weight`` times in a training; they equal the example without a weight."""

    weight: float

    def __new__(cls, first: str, second: str, label: str, weight: float) -> Self:
        """Makes it of two sentences, their relation, and a weight above 0."""
        made = super().__new__(cls, first, second, label)
        made.weight = weight
        return made


def weight_of(example: Any) -> float:  # noqa: ANN401  of any task
    """How many times an example counts: once, unless it says otherwise."""
    found: float = getattr(example, "weight", 1.0)
    return found


class ScoredExample(NamedTuple):
    """A text, or two (``second`` is None if there is one), and a number."""

    first: str
    second: str | None
    score: float


class Answer(NamedTuple):
    """An answer: its text, and the index of its first character in the context (-1: the context does not have it)."""

    text: str
    start: int


class SpanExample(NamedTuple):
    """A question whose answer is a part of a text.

    Attributes:
        id: Of the question, unique in its file.
        title: Of the article, or empty.
        context: The text.
        question: The question.
        answers: All right answers, the first the one to train on; none if it is impossible, or not known.
        impossible: Whether the text has no answer.
    """

    id: str
    title: str
    context: str
    question: str
    answers: tuple[Answer, ...]
    impossible: bool = False


class ChoiceExample(NamedTuple):
    """A question about a text, the answers to choose from, and the index of the right one.

    Attributes:
        turns: The text: the turns of a dialogue or the paragraphs of a document.
        question: The question.
        options: The answers; two may be equal.
        answer: Index of the right one, from 0; -1 if it is not known.
    """

    turns: tuple[str, ...]
    question: str
    options: tuple[str, ...]
    answer: int


class MinimalPair(NamedTuple):
    """Two sentences of which one is acceptable; they differ in what decides that, and in little else.

    Attributes:
        good: The acceptable sentence.
        bad: The other one.
        paradigm: The pairs that are made alike, such as ``adjunct_island``.
        phenomenon: What several paradigms show, such as ``island_effects``.
    """

    good: str
    bad: str
    paradigm: str
    phenomenon: str


LabelledExample = TextExample | TaggedSentence | PairExample | ScoredExample | SpanExample | ChoiceExample
