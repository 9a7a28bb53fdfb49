"""How raw text becomes tokens, and which of the tokens make the vocabulary."""

import codecs
import unicodedata
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge, Gt
from typing_extensions import Doc

from wenmai.core.errors import SettingError, nearest_name

__all__ = ["BadLines", "Script", "Segmentation", "TextConfig", "TextFormat", "VocabConfig"]

TextFormat = Literal["auto", "lines", "wikiextractor"]
BadLines = Literal["error", "skip"]
Script = Literal["keep", "simplified"]
Segmentation = Literal["whitespace", "words", "characters", "chinese"]

CHOICES: dict[str, tuple[str, ...]] = {
    "format": get_args(TextFormat),
    "bad_lines": get_args(BadLines),
    "script": get_args(Script),
    "segment": get_args(Segmentation),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TextConfig:
    """How raw text becomes tokens. The defaults change nothing and split at white space."""

    format: Annotated[
        TextFormat,
        Doc(
            "lines: a sentence or document a line; wikiextractor: the same between <doc ...> and </doc> "
            "lines, which are dropped; auto: wikiextractor for files that begin with a <doc ...> line"
        ),
    ] = "auto"
    encoding: Annotated[
        str,
        Doc("how the bytes of files spell characters, such as utf-8, gb18030 or utf-16; a BOM is dropped"),
    ] = "utf-8"
    bad_lines: Annotated[
        BadLines,
        Doc("what to do with a line that cannot be decoded or holds a NUL: error, or skip and count it"),
    ] = "error"
    nfkc: Annotated[bool, Doc("Unicode normalisation form KC: one spelling for characters that look alike")] = False
    fold_width: Annotated[
        bool,
        Doc("full-width letters, digits, punctuation and spaces become ordinary ones, half-width kana full"),
    ] = False
    lowercase: Annotated[bool, Doc("letters become lower case")] = False
    script: Annotated[Script, Doc("simplified: traditional Chinese characters become simplified ones")] = "keep"
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
        Doc("score above which the last pass joins a pair; each pass before asks for twice that of the next"),
    ] = 100.0
    phrase_min_count: Annotated[
        int, Ge(1), Doc("both words of a phrase occur at least this often; also discounts rare pairs")
    ] = 5

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                hint = nearest_name(str(value), choices)
                raise SettingError(f"{name}={value!r} is not one of {', '.join(choices)}{hint}")
        try:
            "\n".encode(self.encoding)
        except LookupError:
            raise SettingError(
                f"encoding={self.encoding!r} is not a text encoding that Python knows; use a name such as "
                "utf-8, gb18030, big5, utf-16 or latin-1"
            ) from None

    def identity(self) -> dict[str, Any]:
        """Returns what the tokens depend on: the settings that matter, and versions of the tables behind."""
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
