"""The settings of the networks, one class for each architecture; they are read and listed without torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BeforeValidator
from typing_extensions import Doc

from wenmai.config.effects import require_usual
from wenmai.config.lists import listed
from wenmai.core.errors import SettingError
from wenmai.nn.names import ActivationName, CharacterActivation, HeadName, Kind, ScorerName, Selection

__all__ = [
    "BertConfig",
    "ElmoConfig",
    "GptConfig",
    "NnlmConfig",
    "RnnlmConfig",
    "Seq2SeqConfig",
    "TransformerConfig",
    "TransformerXLConfig",
]

_POOLED_HEADS = ("pair", "classification", "multiple-choice")
_MOST_CLIP = 1e6  # far above what sums of bounded numbers reach
_WINDOW = 10  # of local attention: Luong et al. 2015, sec. 3.2


@dataclass(frozen=True, kw_only=True, slots=True)
class NnlmConfig:
    """The sizes of an NNLM.

    Raises:
        SettingError: if the output would have no input.
    """

    order: Annotated[int, Ge(2), Doc("n: the next word is predicted from the n-1 words before it")] = 5
    embedding_size: Annotated[int, Ge(1), Doc("dimensions of a word vector, m")] = 60
    hidden_size: Annotated[int, Ge(0), Doc("hidden units, h; 0: only direct connections")] = 100
    direct: Annotated[bool, Doc("direct connections from the word vectors to the output")] = False

    def __post_init__(self) -> None:
        if not self.hidden_size and not self.direct:
            raise SettingError("hidden_size=0 leaves the output without an input; add direct=true")


@dataclass(frozen=True, kw_only=True, slots=True)
class RnnlmConfig:
    """The layers of a recurrent language model.

    Raises:
        SettingError: if the output is tied to embeddings of another size.
    """

    cell: Annotated[Literal["rnn", "lstm", "gru"], Doc("kind of the recurrent layers")] = "lstm"
    embedding_size: Annotated[int | None, Ge(1), Doc("dimensions of a token's vector; none: hidden_size")] = None
    hidden_size: Annotated[int, Ge(1), Doc("width of a layer")] = 256
    num_layers: Annotated[int, Ge(1), Doc("recurrent layers")] = 2
    dropout: Annotated[float, Ge(0), Lt(1), Doc("of embeddings, between layers, and before the output")] = 0.2
    tied: Annotated[bool, Doc("the output matrix is that of the embeddings")] = False
    init_range: Annotated[
        float | None,
        Gt(0),
        Doc("every parameter is drawn uniformly from ± this; none: a default for each part"),
    ] = None

    def __post_init__(self) -> None:
        if self.tied and self.embedding_size not in (None, self.hidden_size):
            raise SettingError(
                f"tied=true makes one matrix of embeddings and output; embedding_size={self.embedding_size} and "
                f"hidden_size={self.hidden_size} must be equal"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class GptConfig:
    """The sizes and choices of a GPT.

    Raises:
        SettingError: if sizes do not fit together, or a setting would have no effect.
    """

    hidden_size: Annotated[int, Ge(1), Doc("size of a position's vector; a multiple of num_heads")] = 256
    num_layers: Annotated[int, Ge(1), Doc("layers")] = 4
    num_heads: Annotated[int, Ge(1), Doc("attention heads of a layer")] = 4
    ffn_size: Annotated[
        int | None, Ge(1), Doc("inner size of the feed-forward networks; none: four times hidden_size")
    ] = None
    max_length: Annotated[int, Ge(1), Doc("longest text in tokens: positions are learned up to here")] = 256
    dropout: Annotated[float, Ge(0), Lt(1), Doc("of embeddings and of the outputs of sub-layers")] = 0.1
    attention_dropout: Annotated[float, Ge(0), Lt(1), Doc("of attention weights")] = 0.0
    norm: Annotated[Literal["post", "pre"], Doc("layer norm after a sub-layer (GPT-1), or before it (GPT-2, 3)")] = (
        "pre"
    )
    epsilon: Annotated[float, Gt(0), Doc("of the layer norms: added to the variance")] = 1e-5
    activation: Annotated[
        ActivationName, Doc("of the feed-forward networks; gelu_tanh: the published models' form of gelu")
    ] = "gelu_tanh"
    tied: Annotated[bool, Doc("the output matrix is that of the embeddings, as in the published models")] = True
    window: Annotated[
        int | None, Ge(1), Doc("every second layer attends only this many tokens back (GPT-3); none: no limit")
    ] = None

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_heads:
            raise SettingError(
                f"hidden_size={self.hidden_size} is not a multiple of num_heads={self.num_heads}; each head gets an "
                "equal share"
            )
        if self.window is not None and self.num_layers == 1:
            raise SettingError("window is for every second layer; with num_layers=1 it has no effect")


@dataclass(frozen=True, kw_only=True, slots=True)
class BertConfig:
    """The sizes and choices of a BERT, and of its relatives with the same equations.

    Raises:
        SettingError: if sizes do not fit together, or a setting would have no effect.
    """

    hidden_size: Annotated[int, Ge(1), Doc("size of a position's vector; a multiple of num_heads")] = 256
    num_layers: Annotated[int, Ge(1), Doc("layers")] = 4
    num_heads: Annotated[int, Ge(1), Doc("attention heads of a layer")] = 4
    ffn_size: Annotated[
        int | None,
        Ge(1),
        Doc("inner size of the feed-forward networks; none: four times hidden_size; gated: 8/3 of it, as many weights"),
    ] = None
    embedding_size: Annotated[
        int | None, Ge(1), Doc("dimensions of the embeddings, which are projected to hidden_size; none: hidden_size")
    ] = None
    max_length: Annotated[
        int, Ge(4), Doc("longest text in tokens, special ones included: positions are learned up to here")
    ] = 128
    positions: Annotated[
        Literal["learned", "relative"],
        Doc("learned: a vector for each position; relative: for distances, in buckets (DeBERTa, LTG-BERT)"),
    ] = "learned"
    buckets: Annotated[
        int, Ge(4), Doc("positions=relative: buckets of distances on each side, the near ones of one distance each")
    ] = 32
    segments: Annotated[int, Ge(0), Doc("segments that have a vector: two texts of a pair; 0: no such vectors")] = 2
    task_types: Annotated[int, Ge(0), Doc("tasks that have a vector, as in ERNIE 2.0; 0: no such vectors")] = 0
    dropout: Annotated[float, Ge(0), Lt(1), Doc("of embeddings and of the outputs of sub-layers")] = 0.1
    attention_dropout: Annotated[float, Ge(0), Lt(1), Doc("of attention weights")] = 0.0
    norm: Annotated[
        Literal["post", "pre", "nested"],
        Doc("layer norm after a sub-layer as in the paper, before it, or on both sides (NormFormer)"),
    ] = "post"
    gated: Annotated[bool, Doc("feed-forward networks have a gate and a norm inside (GEGLU, with norm=nested)")] = False
    epsilon: Annotated[float, Gt(0), Doc("of the layer norms: added to the variance")] = 1e-12
    activation: Annotated[ActivationName, Doc("of the feed-forward networks and of the MLM head")] = "gelu"
    pooler: Annotated[
        Literal["none", "tanh", "relu", "gelu"],
        Doc("f in f(W h_[CLS] + b), a vector of the whole text that some heads need; none: there is no such vector"),
    ] = "none"
    heads: Annotated[
        tuple[HeadName, ...],
        BeforeValidator(listed),
        Doc("what the model predicts: mlm (masked tokens), pair (of two texts), or a task that it was fine-tuned for"),
    ] = ("mlm",)
    labels: Annotated[
        tuple[str, ...], BeforeValidator(listed), Doc("names of the classes of a head that classifies texts or tokens")
    ] = ()
    tied: Annotated[bool, Doc("the output matrix of mlm is that of the embeddings, as in the published models")] = True
    shifted: Annotated[
        bool, Doc("mlm predicts a token from the state of the token before it, as next tokens are predicted (GPT-BERT)")
    ] = False

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_heads:
            raise SettingError(
                f"hidden_size={self.hidden_size} is not a multiple of num_heads={self.num_heads}; each head gets an "
                "equal share"
            )
        if self.shifted and "mlm" not in self.heads:
            raise SettingError("shifted has no effect without the head mlm; leave it out")
        if self.positions != "relative":
            require_usual(self, ("buckets",), f"positions={self.positions}", needed="positions=relative")
        if self.gated and self.norm != "nested":
            raise SettingError(f"gated networks have a norm inside; add norm=nested instead of norm={self.norm}")
        if len(set(self.heads)) < len(self.heads):
            raise SettingError(f"heads={','.join(self.heads)} names a head twice; name each once")
        pooled = [head for head in self.heads if head in _POOLED_HEADS]
        if pooled and self.pooler == "none":
            raise SettingError(f"the head {pooled[0]} takes the vector of the whole text; add pooler=tanh")
        classes = [head for head in self.heads if head in ("classification", "token-classification")]
        if len(classes) > 1:
            raise SettingError(f"heads={','.join(self.heads)}: labels are those of one head; choose one of them")
        if bool(classes) != bool(self.labels):
            head, lacking = (classes[0], "has no labels") if classes else ("labels", "are of no head")
            raise SettingError(f"{head} {lacking}; heads that classify and labels go together")
        if len(set(self.labels)) < len(self.labels):
            raise SettingError("labels names a class twice; name each once")


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerXLConfig:
    """The sizes and choices of a Transformer-XL.

    Raises:
        SettingError: if sizes do not fit together, or a setting would have no effect.
    """

    hidden_size: Annotated[int, Ge(2), Doc("size of a position's vector; even, and a multiple of num_heads")] = 256
    num_layers: Annotated[int, Ge(1), Doc("layers")] = 4
    num_heads: Annotated[int, Ge(1), Doc("attention heads of a layer")] = 4
    ffn_size: Annotated[int, Ge(1), Doc("inner size of the feed-forward networks")] = 1024
    memory_length: Annotated[int, Ge(0), Doc("tokens before a segment that are remembered; 0: none")] = 150
    dropout: Annotated[
        float, Ge(0), Lt(1), Doc("of embeddings, inside the feed-forward networks, and of the outputs of sub-layers")
    ] = 0.1
    attention_dropout: Annotated[float, Ge(0), Lt(1), Doc("of attention weights")] = 0.0
    norm: Annotated[Literal["post", "pre"], Doc("layer norm after a sub-layer as in the paper, or before it")] = "post"
    shared_biases: Annotated[bool, Doc("u and v are the same in all layers")] = True
    cutoffs: Annotated[
        tuple[int, ...],
        BeforeValidator(listed),
        Doc("adaptive softmax: first id of each cluster of rarer tokens, such as 2000,10000; empty: a full softmax"),
    ] = ()
    div_value: Annotated[int, Ge(1), Doc("cutoffs: vectors of each cluster are so many times narrower")] = 1
    embedding_size: Annotated[
        int | None, Ge(1), Doc("cutoffs: dimensions of a frequent token's vector; none: hidden_size")
    ] = None
    tied_projections: Annotated[bool, Doc("cutoffs: clusters share the projections of input and output")] = True

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_heads:
            raise SettingError(
                f"hidden_size={self.hidden_size} is not a multiple of num_heads={self.num_heads}; each head gets an "
                "equal share"
            )
        if self.hidden_size % 2:
            raise SettingError(f"hidden_size={self.hidden_size} is odd; sinusoids come in pairs")
        if list(self.cutoffs) != sorted({cutoff for cutoff in self.cutoffs if cutoff > 0}):
            raise SettingError(f"cutoffs={','.join(map(str, self.cutoffs))}: expected rising numbers above 0")
        if not self.cutoffs and (self.div_value != 1 or self.embedding_size is not None or not self.tied_projections):
            raise SettingError("div_value, embedding_size and tied_projections are for cutoffs; leave them out")
        if (self.embedding_size or self.hidden_size) < self.div_value ** len(self.cutoffs):
            raise SettingError(f"div_value={self.div_value} leaves the last of {len(self.cutoffs)} clusters no column")


@dataclass(frozen=True, kw_only=True, slots=True)
class ElmoConfig:
    """The characters, the layers and the predicted words of an ELMo.

    Raises:
        SettingError: if sizes do not fit together.
    """

    character_size: Annotated[int, Ge(1), Doc("dimensions of a character's vector")] = 16
    filters: Annotated[
        tuple[int, ...],
        BeforeValidator(listed),
        Doc("how many convolutions of width 1, 2, 3 and so on read the characters of a word; 0: none of that width"),
    ] = (32, 32, 64, 128, 128, 128)
    activation: Annotated[CharacterActivation, Doc("after the maximum of each convolution over a word")] = "relu"
    highway_layers: Annotated[int, Ge(0), Doc("highway layers after the convolutions")] = 1
    max_characters: Annotated[
        int, Ge(3), Le(500), Doc("bytes of a word, two marks included; longer words lose their end")
    ] = 50
    hidden_size: Annotated[int, Ge(1), Doc("dimensions of a word, and of the output of each layer and direction")] = 256
    cell_size: Annotated[int, Ge(1), Doc("width of the memory cells")] = 512
    num_layers: Annotated[int, Ge(1), Doc("recurrent layers of each direction")] = 2
    residual: Annotated[bool, Doc("from the second layer on the input is added to the output")] = True
    cell_clip: Annotated[float | None, Gt(0), Le(_MOST_CLIP), Doc("largest number of a memory cell; none: any")] = 3.0
    state_clip: Annotated[
        float | None, Gt(0), Le(_MOST_CLIP), Doc("largest number of a recurrent state; none: any")
    ] = 3.0
    dropout: Annotated[float, Ge(0), Lt(1), Doc("of the input of each layer, and before the output")] = 0.1
    predicted: Annotated[
        int | None,
        Ge(5),
        Doc("so many words, the most frequent, are predicted, special ones included; others as unknown; none: all"),
    ] = None
    cutoffs: Annotated[
        tuple[int, ...],
        BeforeValidator(listed),
        Doc("adaptive softmax: first id of each cluster of rarer tokens, such as 2000,10000; empty: a full softmax"),
    ] = ()

    def __post_init__(self) -> None:
        if not any(self.filters) or any(number < 0 for number in self.filters):
            raise SettingError(
                f"filters={','.join(map(str, self.filters))}: expected numbers of convolutions, not all 0"
            )
        if len(self.filters) > self.max_characters:
            raise SettingError(
                f"filters has {len(self.filters)} widths, and a word only max_characters={self.max_characters}"
            )
        if list(self.cutoffs) != sorted({cutoff for cutoff in self.cutoffs if cutoff > 0}):
            raise SettingError(f"cutoffs={','.join(map(str, self.cutoffs))}: expected rising numbers above 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seq2SeqConfig:
    """The encoder, the decoder, and what connects them."""

    encoder: Annotated[
        Literal["rnn", "lstm", "gru", "cnn"], Doc("layers of encoder and decoder; cnn: its decoder is a gru")
    ] = "gru"
    bidirectional: Annotated[bool, Doc("the encoder reads in both directions, each of hidden_size")] = True
    embedding_size: Annotated[int, Ge(1), Doc("dimensions of a token's vector")] = 256
    hidden_size: Annotated[int, Ge(2), Doc("width of a layer")] = 512
    num_layers: Annotated[int, Ge(1), Doc("layers of the encoder, and of the decoder")] = 1
    dropout: Annotated[float, Ge(0), Lt(1), Doc("of embeddings, between layers, and before the output")] = 0.2
    context: Annotated[
        Literal["attention", "every_step", "first_state"],
        Doc("how the decoder sees the source: by attention, one vector at every step, or only its first state"),
    ] = "attention"
    attention: Annotated[
        Literal["bahdanau", "luong"],
        Doc("the query: the state before a step; or the one after it, with input feeding"),
    ] = "bahdanau"
    scorer: Annotated[ScorerName, Doc("how attention compares the query with a source token")] = "additive"
    selection: Annotated[
        Selection,
        Doc(
            "the source tokens that attention takes: all, the best, one drawn while training, or those of a window "
            "around the place of the step (local-m) or around a predicted place (local-p)"
        ),
    ] = "soft"
    window: Annotated[int, Ge(1), Doc("local-m, local-p: tokens on each side that attention sees")] = _WINDOW
    kernel_size: Annotated[int, Ge(1), Doc("cnn: tokens that a window spans")] = 3
    reverse_source: Annotated[bool, Doc("a one-directional encoder reads the source from its end")] = False
    max_length: Annotated[int, Ge(1), Doc("most tokens of a source sentence")] = 512

    def __post_init__(self) -> None:
        if self.encoder == "cnn" and not self.bidirectional:
            raise SettingError("encoder=cnn sees both sides of a token; leave bidirectional on")
        if self.encoder != "cnn" and self.kernel_size != 3:
            raise SettingError(f"kernel_size belongs to encoder=cnn, not to encoder={self.encoder}; leave it out")
        if self.reverse_source and self.bidirectional:
            raise SettingError("two directions read the source reversed anyway; add bidirectional=false")
        usual = (self.attention, self.scorer, self.selection) == ("bahdanau", "additive", "soft")
        if self.context != "attention" and not usual:
            raise SettingError(f"context={self.context} has no attention; leave out attention, scorer and selection")
        if self.selection not in ("local-m", "local-p") and self.window != _WINDOW:
            raise SettingError(
                f"window belongs to local-m and local-p, not to selection={self.selection}; leave it out"
            )

    @property
    def cell(self) -> Kind:
        """The decoder's kind of layer."""
        return "gru" if self.encoder == "cnn" else self.encoder


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig:
    """The sizes and choices of a Transformer; the defaults are the paper's base model.

    Raises:
        SettingError: if sizes do not fit together, or a setting would have no effect.
    """

    hidden_size: Annotated[int, Ge(1), Doc("size of a position's vector; a multiple of num_heads")] = 256
    num_layers: Annotated[int, Ge(1), Doc("layers of the encoder")] = 3
    decoder_layers: Annotated[int | None, Ge(1), Doc("layers of the decoder; none: as many as the encoder")] = None
    num_heads: Annotated[int, Ge(1), Doc("attention heads of a layer")] = 4
    ffn_size: Annotated[int, Ge(1), Doc("inner size of the feed-forward networks")] = 1024
    dropout: Annotated[float, Ge(0), Lt(1), Doc("of embeddings and of the outputs of sub-layers")] = 0.1
    attention_dropout: Annotated[float, Ge(0), Lt(1), Doc("of attention weights")] = 0.0
    activation_dropout: Annotated[float, Ge(0), Lt(1), Doc("inside the feed-forward networks")] = 0.0
    norm: Annotated[Literal["post", "pre"], Doc("layer norm after a sub-layer as in the paper, or before it")] = "post"
    activation: Annotated[Literal["relu", "gelu"], Doc("of the feed-forward networks")] = "relu"
    positions: Annotated[
        Literal["sinusoidal", "learned", "shaw", "none"], Doc("how positions are encoded; shaw: relative")
    ] = "sinusoidal"
    max_distance: Annotated[int, Ge(1), Doc("positions=shaw: farther distances are clipped to this one")] = 16
    max_length: Annotated[int, Ge(1), Doc("longest text in tokens; the limit of positions=learned")] = 512
    window: Annotated[int | None, Ge(1), Doc("self-attention sees this many tokens on each side; none: all")] = None
    attention_bias: Annotated[bool, Doc("whether the projections of attention have biases")] = True

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_heads:
            raise SettingError(
                f"hidden_size={self.hidden_size} is not a multiple of num_heads={self.num_heads}; each head gets an "
                "equal share"
            )
        if self.positions != "shaw":
            require_usual(self, ("max_distance",), f"positions={self.positions}", needed="positions=shaw")
