"""The methods of models with a verb; ``VERBS`` has them by the verbs of tasks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from wenmai.inference.conversion import Converter
from wenmai.measures.language import SentenceScore

__all__ = [
    "VERBS",
    "Annotator",
    "Answerer",
    "AnyLanguageModel",
    "AnyTranslator",
    "Chooser",
    "Classifier",
    "ContextScorer",
    "Embedder",
    "Extractor",
    "Filler",
    "Generator",
    "Nearest",
    "Predictor",
    "Rater",
    "Scorer",
    "Tagger",
]


class Nearest(Protocol):
    """Finds similar words."""

    def most_similar(self, positive: Any = None, negative: Any = None, topn: int = 10) -> list[tuple[str, float]]:  # noqa: ANN401
        """Returns the words nearest to words or vectors, with their cosines."""


class Classifier(Protocol):
    """Labels texts."""

    @property
    def labels(self) -> list[str]:
        """The known labels."""

    def predict(self, texts: Iterable[str], k: int = 1, threshold: float = 0.0) -> list[list[tuple[str, float]]]:
        """Returns the ``k`` most probable labels of each text with their probabilities, best first; -1 for all."""


class Rater(Protocol):
    """Gives texts numbers."""

    def rate(self, texts: Iterable[Any]) -> list[float]:
        """Returns the number of each text, or of each pair of texts."""


class Tagger(Protocol):
    """Tags words."""

    @property
    def labels(self) -> list[str]:
        """The known tags."""

    def tag(self, sentences: Iterable[str | Sequence[str]]) -> list[Any]:
        """Returns the words of each sentence with their tags."""


class Answerer(Protocol):
    """Answers questions by parts of texts."""

    def answer(
        self, questions: Iterable[tuple[str, str]], k: int = 1, threshold: float | None = None
    ) -> list[list[Any]]:
        """Returns the ``k`` best answers of each pair of a question and a text; none leads if it is better by more."""


class Chooser(Protocol):
    """Chooses one of several texts."""

    def choose(self, questions: Iterable[tuple[str, str, Sequence[str]]]) -> list[Any]:
        """Returns the chosen option for each text, question and options."""


class Embedder(Protocol):
    """Gives texts vectors."""

    def embed(self, texts: Any) -> Any:  # noqa: ANN401  each kind has further options
        """Returns the vectors of texts, float32 [N, d]."""


class Scorer(Protocol):
    """Scores texts."""

    def score(self, texts: Any, *, context: Any = None) -> Iterator[SentenceScore]:  # noqa: ANN401
        """Yields the score of each line."""


class ContextScorer(Scorer, Protocol):
    """Scores texts after others, and what could come next."""

    def score_within(self, passages: Sequence[Sequence[str]], reaches: Sequence[int]) -> list[list[SentenceScore]]:
        """Returns the scores of the last lines of passages when only so many tokens before each token are known."""

    def continuations(self, prompt: str, options: Sequence[str]) -> list[list[float]]:
        """Returns the log-probabilities of the tokens of each option after a prompt."""

    def overlong(self, prompt: str, options: Sequence[str]) -> int:
        """Returns how many tokens are cut off the beginning of a prompt that is too long."""


class Predictor(Protocol):
    """Predicts the next token."""

    def next(self, text: str, topn: int = 10) -> list[tuple[str, float]]:
        """Returns the most likely continuations by one token."""


class Generator(Protocol):
    """Generates text."""

    def generate(self, prompt: str = "", **options: Any) -> list[Any]:  # noqa: ANN401
        """Returns texts that begin with a prompt."""

    def stream(self, prompt: str = "", **options: Any) -> Iterator[str]:  # noqa: ANN401
        """Yields one text in pieces as it is generated."""


class AnyLanguageModel(ContextScorer, Predictor, Generator, Protocol):
    """What every language model that reads from left to right does, from n-grams to GPT."""


class Filler(Protocol):
    """Fills in masked tokens."""

    def fill(self, text: str, topn: int = 5) -> list[list[tuple[str, float]]]:
        """Returns the most likely tokens at each mask of a text, with their probabilities."""


class AnyTranslator(Protocol):
    """Translates texts, and shows its attention."""

    @property
    def has_attention(self) -> bool:
        """Whether the decoder attends to the source."""

    def translate(self, texts: str | Sequence[str], **options: Any) -> list[str]:  # noqa: ANN401
        """Returns the best translation of each text."""

    def stream(self, texts: str | Iterable[str], **options: Any) -> Iterator[list[Any]]:  # noqa: ANN401
        """Yields the translations of each text, best first."""

    def attention(self, source: str, translation: Any = None) -> Any:  # noqa: ANN401
        """Returns the attention maps of a translation."""


class Annotator(Protocol):
    """Writes the pinyin of texts."""

    def annotate(self, texts: Iterable[str]) -> list[list[str]]:
        """Returns the readings of texts, one item a character."""


class Extractor(Protocol):
    """Finds relations."""

    def extract(self, documents: Iterable[Any], **options: Any) -> list[Any]:  # noqa: ANN401
        """Returns the relations between the entities of documents."""


VERBS: dict[str, type] = {
    "nearest": Nearest,
    "classify": Classifier,
    "rate": Rater,
    "tag": Tagger,
    "answer": Answerer,
    "choose": Chooser,
    "extract": Extractor,
    "embed": Embedder,
    "score": Scorer,
    "next": AnyLanguageModel,  # what reads from left to right scores in context, too, and generates
    "generate": Generator,
    "fill": Filler,
    "translate": AnyTranslator,
    "convert": Converter,
    "annotate": Annotator,
}
