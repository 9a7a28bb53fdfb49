"""The settings of the networks that turn pinyin into characters; they are read and listed without torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Lt
from typing_extensions import Doc

from wenmai.core.errors import SettingError

__all__ = ["PinyinConfig", "PinyinLettersConfig"]

_LAYERS, _HEADS, _DROPOUT = 3, 6, 0.1
_LETTERS = 9  # three syllables of letters
_WIDTHS, _HIGHWAYS, _PRENET_DROPOUT = 16, 4, 0.5  # of Kyubyong's network


@dataclass(frozen=True, kw_only=True, slots=True)
class PinyinConfig:
    """The sizes of an encoder of syllables.

    Raises:
        SettingError: if sizes do not fit together.
    """

    hidden_size: Annotated[int, Ge(1), Doc("size of a position's vector; a multiple of num_heads")] = 312
    num_layers: Annotated[int, Ge(1), Doc("layers, each with parameters of its own")] = _LAYERS
    num_heads: Annotated[int, Ge(1), Doc("attention heads of a layer")] = _HEADS
    ffn_size: Annotated[
        int | None, Ge(1), Doc("inner size of the feed-forward networks; none: four times hidden_size")
    ] = None
    convolution: Annotated[
        int, Ge(0), Doc("syllables around each that a convolution reads before the layers, an odd number; 0: none")
    ] = 5
    dropout: Annotated[float, Ge(0), Lt(1), Doc("of the outputs of sub-layers")] = _DROPOUT
    embedding_dropout: Annotated[float, Ge(0), Lt(1), Doc("of the sum of syllables and positions")] = 0.05
    norm: Annotated[Literal["pre", "post"], Doc("layer norm before a sub-layer, or after it as in the paper")] = "pre"
    max_length: Annotated[int, Ge(4), Doc("most syllables that are read at once; longer texts are read in parts")] = 100

    def __post_init__(self) -> None:
        _heads_fit(self.hidden_size, self.num_heads)
        _has_a_middle(self.convolution)


@dataclass(frozen=True, kw_only=True, slots=True)
class PinyinLettersConfig:
    """The sizes of a network that labels letters.

    Raises:
        SettingError: if sizes do not fit together, or a setting would have no effect.
    """

    encoder: Annotated[
        Literal["transformer", "cbhg"],
        Doc(
            "transformer: a convolution and layers of attention; cbhg: a bank of convolutions, highway layers and a GRU"
        ),
    ] = "transformer"
    hidden_size: Annotated[int, Ge(2), Doc("size of a letter's vector; of cbhg even, with filters of half of it")] = 312
    widths: Annotated[int, Ge(1), Doc("cbhg: convolutions of the widths 1, 2, 3 and so on up to this")] = _WIDTHS
    highway_layers: Annotated[int, Ge(0), Doc("cbhg: highway layers")] = _HIGHWAYS
    prenet_dropout: Annotated[float, Ge(0), Lt(1), Doc("cbhg: of both layers before the convolutions")] = (
        _PRENET_DROPOUT
    )
    num_layers: Annotated[int, Ge(1), Doc("transformer: layers")] = _LAYERS
    num_heads: Annotated[int, Ge(1), Doc("transformer: attention heads of a layer")] = _HEADS
    convolution: Annotated[
        int,
        Ge(0),
        Doc("transformer: letters around each that a convolution reads before the layers, an odd number; 0: none"),
    ] = _LETTERS
    dropout: Annotated[float, Ge(0), Lt(1), Doc("transformer: of embeddings and of the outputs of sub-layers")] = (
        _DROPOUT
    )
    max_length: Annotated[int, Ge(8), Doc("most letters that are read at once; longer texts are read in parts")] = 300

    def __post_init__(self) -> None:
        if self.encoder == "transformer":
            _heads_fit(self.hidden_size, self.num_heads)
            _has_a_middle(self.convolution)
            if (self.widths, self.highway_layers, self.prenet_dropout) != (_WIDTHS, _HIGHWAYS, _PRENET_DROPOUT):
                raise SettingError(
                    "widths, highway_layers and prenet_dropout are for encoder=cbhg; leave them out with "
                    "encoder=transformer"
                )
            return
        if self.hidden_size % 2:
            raise SettingError(f"hidden_size={self.hidden_size} is odd; each direction of the GRU gets half of it")
        if (self.num_layers, self.num_heads, self.convolution, self.dropout) != (_LAYERS, _HEADS, _LETTERS, _DROPOUT):
            raise SettingError(
                "num_layers, num_heads, convolution and dropout are for encoder=transformer; leave them out with "
                "encoder=cbhg"
            )


def _heads_fit(hidden_size: int, num_heads: int) -> None:
    if hidden_size % num_heads:
        raise SettingError(
            f"hidden_size={hidden_size} is not a multiple of num_heads={num_heads}; each head gets an equal share"
        )


def _has_a_middle(convolution: int) -> None:
    if convolution and convolution % 2 == 0:
        raise SettingError(f"convolution={convolution} is even; expected an odd number, such as 5")
