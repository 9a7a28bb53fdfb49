"""BERT: a bidirectional Transformer encoder that is trained to fill in masked tokens, and its relatives.

Devlin, Chang, Lee, Toutanova, "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
NAACL 2019, https://aclanthology.org/N19-1423.

| equation | where |
|---|---|
| e = dropout(LN(W_tok[x] + W_pos + W_seg[s])) (figure 2) | ``Bert.embed`` |
| a = LN(x + attention(x)), y = LN(a + W_2 gelu(W_1 a)) | ``wenmai.nn.transformer.EncoderLayer`` |
| pooled = tanh(W_p h_[CLS] + b) | ``Bert.pooled`` |
| P(x_i) = softmax(t_i W_tokᵀ + b), t = LN(gelu(W h + b)) | ``MlmHead`` |
| P(next) = softmax(W pooled + b) | the head ``pair`` |

Relatives with the same equations differ in settings: RoBERTa and DistilBERT have no segments, ERNIE may have vectors of
tasks, ELECTRA's embeddings may be narrower than its layers. ``bert-efficient`` is LTG-BERT (Samuel, Kutuzov, Øvrelid,
Velldal, "Trained on 100 million words and still in shape", Findings of EACL 2023,
https://aclanthology.org/2023.findings-eacl.146): relative positions (``wenmai.nn.disentangled``), norms on both sides
of attention and inside gated feed-forward networks. Unlike theirs, norms have gains and biases, and unless
``masking=span`` single tokens are masked.

Shapes: B rows, T tokens, M hidden size, E embedding size, V vocabulary.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from wenmai.models.settings import BertConfig
from wenmai.nn import plain
from wenmai.nn.biases import Structure
from wenmai.nn.disentangled import Buckets, DisentangledAttention
from wenmai.nn.embeddings import Embeddings, Learned, sinusoid
from wenmai.nn.encoder import TextEncoder
from wenmai.nn.linear import Linear
from wenmai.nn.masks import Mask
from wenmai.nn.multihead import MultiHead, rows_at
from wenmai.nn.names import HeadName
from wenmai.nn.softmax import Softmax
from wenmai.nn.transformer import ACTIVATIONS, Encoder, EncoderLayer, FeedForward, GatedFeedForward

__all__ = ["Bert", "BertConfig", "MlmHead"]

_STD = 0.02  # of every weight, cut at two standard deviations


class MlmHead(nn.Module):
    """t = LN(f(W h + b)), softmax(t W_tokᵀ + b_out): predicts tokens from their states.

    Args:
        config: Sizes and choices.
        embedding: Of the tokens, whose matrix the output shares if ``config.tied``.
    """

    def __init__(self, config: BertConfig, embedding: nn.Embedding) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.dense = Linear(config.hidden_size, embedding.embedding_dim)
        self.norm = nn.LayerNorm(embedding.embedding_dim, eps=config.epsilon)
        self.output = Softmax(
            embedding.num_embeddings, embedding.embedding_dim, bias=True, tied_to=embedding if config.tied else None
        )

    def transform(self, hidden: Tensor) -> Tensor:
        """Returns t, (..., E), of states (..., M), for ``output``."""
        transformed: Tensor = self.norm(self.activation(self.dense(hidden)))
        return transformed

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns the logits (..., V) of states (..., M)."""
        logits: Tensor = self.output(self.transform(hidden))
        return logits


class ReplacedHead(nn.Module):
    """ELECTRA's discriminator: w·f(W h + b), the logit that a token was replaced."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.output = Linear(config.hidden_size, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns logits (..., 1) of states (..., M)."""
        logits: Tensor = self.output(self.activation(self.dense(hidden)))
        return logits


class Bert(TextEncoder):
    """The encoder with its heads.

    Args:
        config: Sizes and choices.
        vocab_size: V.

    Attributes:
        heads: By name; ``mlm``, ``replaced``, ``token-classification`` and ``question-answering`` take the states of
            tokens, the others the vector of the whole text.
    """

    kind: ClassVar[str] = "bert"
    config_class: ClassVar[type] = BertConfig

    config: BertConfig

    def __init__(self, config: BertConfig, *, vocab_size: int) -> None:
        super().__init__(vocab_size=vocab_size)
        self.config = config
        self.max_length = config.max_length
        size = config.embedding_size or config.hidden_size
        self.embedding = nn.Embedding(vocab_size, size)
        self.positions = Learned(size, config.max_length) if config.positions == "learned" else None
        self.buckets = (
            Buckets(config.hidden_size, config.buckets, config.max_length) if config.positions == "relative" else None
        )
        self.segments = Learned(size, config.segments) if config.segments else None
        self.task_types = Learned(size, config.task_types) if config.task_types else None
        self.embeddings = Embeddings(norm=nn.LayerNorm(size, eps=config.epsilon), dropout=config.dropout)
        self.projection = Linear(size, config.hidden_size) if size != config.hidden_size else None
        layers = (_layer(config) for _ in range(config.num_layers))
        self.encoder = Encoder(layers, hidden_size=config.hidden_size, epsilon=config.epsilon)
        self._shortcut = plain.EncoderShortcut()
        self.pooler = Linear(config.hidden_size, config.hidden_size) if config.pooler != "none" else None
        self.heads = nn.ModuleDict({name: self._head(name) for name in config.heads})
        self.reset_parameters()

    def _head(self, name: HeadName) -> nn.Module:
        config = self.config
        if name == "mlm":
            return MlmHead(config, self.embedding)
        if name == "replaced":
            return ReplacedHead(config)
        outputs = {"pair": 2, "question-answering": 2, "multiple-choice": 1}
        return Linear(config.hidden_size, outputs.get(name, len(config.labels)))

    def reset_parameters(self) -> None:
        """N(0, σ²) cut at 2σ, and zero biases; σ = 0.02, of ``norm=nested`` √(2/5M), and less in later networks.

        Positions begin as sinusoids of the same size, not as noise: one linear map then leads from each position to
        its neighbour, and a masked token finds what stands beside it after some hundred updates instead of thousands.
        """
        if self.embedding.weight.is_meta:  # of shapes alone
            return
        nested = self.config.norm == "nested"
        std = math.sqrt(2 / (5 * self.config.hidden_size)) if nested else _STD
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.trunc_normal_(parameter, std=std, a=-2 * std, b=2 * std)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        if self.positions is not None:
            length, size = self.positions.weight.shape
            self.positions.weight.data.copy_(math.sqrt(2) * std * sinusoid(torch.arange(length), size))
        for number, layer in enumerate(self.encoder.layers if nested else ()):
            for name in ("ffn.inner.weight", "ffn.outer.weight"):
                layer.get_parameter(name).data.mul_(math.sqrt(1 / (2 * (1 + number))))

    def embed(
        self,
        tokens: Tensor,
        *,
        segments: Tensor | None = None,
        positions: Tensor | None = None,
        task_type: int = 0,
        features: Tensor | None = None,
    ) -> Tensor:
        """Returns the input of the first layer, (B, T, M).

        Args:
            tokens: (B, T) int64.
            segments: (B, T) int64; None: all are of the first.
            positions: (B, T) int64; None: 0 to T - 1.
            task_type: Which task, of a model that knows some.
            features: (B, T, E), what else is added to the vectors of tokens; None: nothing.

        Raises:
            ValueError: if the text is longer than ``max_length``.
        """
        if tokens.shape[1] > self.max_length:
            raise ValueError(f"{tokens.shape[1]} tokens are more than max_length={self.max_length}: cut the text")
        place = None
        if self.positions is not None:
            place = self.positions(0, tokens.shape[1]) if positions is None else self.positions.at(positions)
        segment = None
        if self.segments is not None:
            segment = self.segments(0, 1) if segments is None else self.segments.at(segments)
        task = None if self.task_types is None else self.task_types(task_type, 1)
        hidden: Tensor = self.embeddings(
            self.embedding(tokens), position=place, segment=segment, task=task, features=features
        )
        return hidden if self.projection is None else self.projection(hidden)

    @property
    def unpads(self) -> bool:
        """Whether texts are read without padding, as on a CPU; see :mod:`wenmai.nn.unpadded`."""
        return self.encoder.unpads and self.device.type == "cpu"

    def forward(
        self,
        tokens: Tensor,
        *,
        segments: Tensor | None = None,
        mask: Mask | Tensor | None = None,
        positions: Tensor | None = None,
        places: Tensor | None = None,
        task_type: int = 0,
    ) -> Tensor:
        """Returns the states (B, T, M) of the last layer; see :meth:`wenmai.nn.encoder.TextEncoder.forward`.

        ``task_type`` says which task, to a model that knows some.
        """
        embedded = self.embed(tokens, segments=segments, positions=positions, task_type=task_type)
        if (states := self._short(embedded, mask)) is not None:
            return self.encoder.norm(states[-1:]) if places is None else rows_at(self.encoder.norm(states[-1:]), places)
        structure = self.structure(tokens, positions)
        hidden: Tensor = self.encoder(embedded, mask=mask, structure=structure, places=places)
        return hidden

    def _short(self, embedded: Tensor, mask: Mask | Tensor | None) -> Tensor | None:
        """The states of all layers of one short text, (L, T, M), without the norm at the end, where that is faster."""
        if mask is not None or self.buckets is not None or self.config.activation == "silu":  # which is not compiled
            return None
        return self._shortcut.states(
            self.encoder, embedded, num_heads=self.config.num_heads, activation=self.config.activation
        )

    def structure(self, tokens: Tensor, positions: Tensor | None = None) -> Structure | None:
        """What attention needs to know of distances, if it knows them."""
        if self.buckets is None:
            return None
        return self.buckets.structure(
            torch.arange(tokens.shape[1], device=tokens.device) if positions is None else positions
        )

    def hidden_states(
        self,
        tokens: Tensor,
        *,
        segments: Tensor | None = None,
        mask: Mask | Tensor | None = None,
        positions: Tensor | None = None,
    ) -> list[Tensor]:
        """Returns the states of all layers, (B, T, M) each, the first those of the embeddings."""
        embedded = self.embed(tokens, segments=segments, positions=positions)
        if (found := self._short(embedded, mask)) is not None:
            return [embedded, *found[:-1, None], self.encoder.norm(found[-1:])]
        return self.encoder.states(embedded, mask=mask, structure=self.structure(tokens, positions))

    def pooled(self, hidden: Tensor) -> Tensor:
        """Returns f(W h_[CLS] + b), (B, M), of states (B, T, M).

        Raises:
            ValueError: if the model has no pooler.
        """
        if self.pooler is None:
            raise ValueError("the model has no pooler; its settings say pooler=none")
        pooled: Tensor = _POOLERS[self.config.pooler](self.pooler(hidden[:, 0]))
        return pooled


_POOLERS = {"tanh": torch.tanh, "relu": ACTIVATIONS["relu"], "gelu": ACTIVATIONS["gelu"]}


def _layer(config: BertConfig) -> EncoderLayer:
    size = config.hidden_size
    inner = config.ffn_size or (round(8 * size / 3) if config.gated else 4 * size)  # a gate is a third matrix
    attention = (DisentangledAttention if config.positions == "relative" else MultiHead)(
        size, config.num_heads, dropout=config.attention_dropout
    )
    ffn: FeedForward | GatedFeedForward = (
        GatedFeedForward(size, inner, activation=config.activation, epsilon=config.epsilon)
        if config.gated
        else FeedForward(size, inner, activation=config.activation)
    )
    return EncoderLayer(attention, ffn, norm=config.norm, dropout=config.dropout, epsilon=config.epsilon)
