"""How raw text becomes tokens, and which of the tokens make the vocabulary."""

import codecs
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, Self, get_args

from annotated_types import Ge, Gt
from typing_extensions import Doc

from wenmai.config.effects import require_usual
from wenmai.core.errors import SettingError, nearest_name

__all__ = [
    "SCRIPTS",
    "BadLines",
    "FoldWidth",
    "Lowercase",
    "Nfkc",
    "Script",
    "Segmentation",
    "TextConfig",
    "TextFormat",
    "VocabConfig",
    "check_choices",
    "normalisation_of",
    "require_encoding",
]

TextFormat = Literal["auto", "lines", "documents", "wikiextractor"]
BadLines = Literal["error", "skip"]
_Script = Literal["keep", "simplified"]
SCRIPTS: tuple[str, ...] = get_args(_Script)
Segmentation = Literal["whitespace", "words", "characters", "chinese"]

CHOICES: dict[str, tuple[str, ...]] = {
    "format": get_args(TextFormat),
    "bad_lines": get_args(BadLines),
    "script": SCRIPTS,
    "segment": get_args(Segmentation),
}

# Normalisation: the settings that the texts of static models and the tokenizers of neural models share.
Nfkc = Annotated[bool, Doc("Unicode normalisation form KC: one form for compatible characters")]
FoldWidth = Annotated[
    bool,
    Doc("full-width letters, digits, punctuation and spaces become ordinary ones, half-width kana full"),
]
Lowercase = Annotated[bool, Doc("letters become lower case")]
Script = Annotated[_Script, Doc("simplified: traditional Chinese characters become simplified ones")]


def normalisation_of(settings: object) -> dict[str, bool | str]:
    """Returns the settings of normalisation that are not left at their defaults; each makes different texts equal."""
    names = ("nfkc", "fold_width", "lowercase", "script")
    return {name: value for name in names if (value := getattr(settings, name)) not in (False, "keep")}


def check_choices(settings: object, choices: Mapping[str, tuple[str, ...]]) -> None:
    """Checks that settings are among their choices.

    Raises:
        SettingError: if one is not; the message names the nearest choice.
    """
    for name, known in choices.items():
        if (value := getattr(settings, name)) not in known:
            raise SettingError(f"{name}={value!r} is not one of {', '.join(known)}{nearest_name(str(value), known)}")


def require_encoding(name: str) -> None:
    """Checks that Python knows a text encoding.

    Raises:
        SettingError: if it does not.
    """
    try:
        "\n".encode(name)
    except (LookupError, ValueError):
        raise SettingError(
            f"encoding={name!r} is not a text encoding that Python knows; use a name such as utf-8, gb18030, big5, "
            "utf-16 or latin-1"
        ) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class TextConfig:
    """How raw text becomes tokens. The defaults change nothing and split at white space."""

    format: Annotated[
        TextFormat,
        Doc(
            "lines: a sentence a line, blank lines between documents; documents: a document a line; wikiextractor: "
            "paragraphs between <doc ...> and </doc> lines, which are dropped; auto: wikiextractor for files that "
            "begin with a <doc ...> line, lines for others"
        ),
    ] = "auto"
    encoding: Annotated[
        str,
        Doc("character encoding of the files, such as utf-8, gb18030 or utf-16; a BOM is dropped"),
    ] = "utf-8"
    bad_lines: Annotated[
        BadLines,
        Doc("a line that cannot be decoded or holds a NUL: error, or skip and count it"),
    ] = "error"
    nfkc: Nfkc = False
    fold_width: FoldWidth = False
    lowercase: Lowercase = False
    script: Script = "keep"
    segment: Annotated[
        Segmentation,
        Doc(
            "whitespace: tokens are what white space separates; words: Unicode words, punctuation split off; "
            "characters: every character but white space; chinese: dictionary words of Chinese (jieba)"
        ),
    ] = "whitespace"
    phrases: Annotated[
        int, Ge(0), Doc("passes of phrase mining; each joins frequent pairs such as new_york into one token")
    ] = 0
    phrase_threshold: Annotated[
        float,
        Gt(0),
        Doc("score above which the last pass joins a pair; each earlier pass requires twice that of the next"),
    ] = 100.0
    phrase_min_count: Annotated[
        int, Ge(1), Doc("both words of a phrase occur at least this often; also discounts rare pairs")
    ] = 5

    def __post_init__(self) -> None:
        check_choices(self, CHOICES)
        require_encoding(self.encoding)
        if not self.phrases:
            require_usual(self, ("phrase_threshold", "phrase_min_count"), "phrases=0", needed="phrases=1")

    @property
    def without_phrases(self) -> Self:
        """These settings with no phrases."""
        usual = type(self)()
        return replace(
            self, phrases=0, phrase_threshold=usual.phrase_threshold, phrase_min_count=usual.phrase_min_count
        )

    @property
    def lossy(self) -> dict[str, bool | str]:
        """The settings by which different texts have the same tokens."""
        return normalisation_of(self) | ({} if self.segment == "whitespace" else {"segment": self.segment})

    def identity(self) -> dict[str, Any]:
        """Returns what the tokens depend on: the settings that matter, and versions of the tables."""
        from importlib.metadata import version

        found: dict[str, Any] = asdict(self) | {"encoding": codecs.lookup(self.encoding).name}
        if self.phrases == 0:
            del found["phrase_threshold"], found["phrase_min_count"]
        found["unicode"] = unicodedata.unidata_version
        if self.script == "simplified":
            found["opencc"] = version("opencc")
        if self.segment == "chinese":
            found["rjieba"] = version("rjieba")
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class VocabConfig:
    """Which types of a corpus become the vocabulary."""

    min_count: Annotated[int, Ge(1), Doc("words that occur fewer times than this are left out")] = 5
    max_size: Annotated[
        int | None, Ge(1), Doc("keep at most this many words, the most frequent, special tokens included")
    ] = None
