"""ELMo: words from their characters, read by a forward and by a backward language model.

| what | source: Peters et al. 2018, "Deep contextualized word representations", https://aclanthology.org/N18-1202 |
|---|---|
| x_t from the characters of the t-th word | section 3.4; Kim et al. 2016; :mod:`wenmai.nn.characters` |
| Σ_t log p(w_t given w_1..w_{t-1}) + log p(w_t given w_{t+1}..w_N), shared Θ_x and Θ_s | section 3.1 |
| LSTMs with projection, residual connection between layers | section 3.4; :mod:`wenmai.nn.projected_lstm` |
| h_{t,0} = [x_t; x_t], h_{t,j} = [→h_{t,j}; ←h_{t,j}] | section 3.2 |
| γ Σ_j s_j h_{t,j} | section 3.2, eq. 1; :mod:`wenmai.nn.scalar_mix` |

The forward model reads the begin of a text and its words, the backward model the end of the text and its words from
the last to the first. Differs from the published training: begin and end of a sentence are one word for the softmax,
as the forward model never predicts the one, and the backward model never the other; the backward model reads the whole
text reversed, not only each sentence.
"""

from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.models.settings import ElmoConfig
from wenmai.nn.characters import CharacterEncoder
from wenmai.nn.dropout import Dropout
from wenmai.nn.projected_lstm import ProjectedStack
from wenmai.nn.recurrent import reverse
from wenmai.nn.softmax import AdaptiveEmbedding, AdaptiveSoftmax, Softmax

__all__ = ["BothWays", "Elmo", "ElmoConfig", "ElmoState"]


class BothWays(NamedTuple):
    """Hidden states of the last layer, after dropout.

    Attributes:
        forward: (B, T, M); place t predicts the word after the t-th that the forward model has read.
        backward: (B, T, M); likewise of the backward model.
    """

    forward: Tensor
    backward: Tensor


class ElmoState:
    """The states of the layers of both directions.

    Args:
        forward: (L, B, S).
        backward: (L, B, S).
    """

    def __init__(self, forward: Tensor, backward: Tensor) -> None:
        self.forward, self.backward = forward, backward

    @property
    def batch_size(self) -> int:
        """Rows."""
        return self.forward.shape[1]

    def select(self, rows: Tensor) -> None:
        """Replaces the rows by ``rows`` (K,) int64 of them."""
        self.forward, self.backward = self.forward[:, rows], self.backward[:, rows]

    def detach(self) -> None:
        """Ends gradients here."""
        self.forward, self.backward = self.forward.detach(), self.backward.detach()

    def tensors(self) -> dict[str, Tensor]:
        """Returns the states of both directions."""
        return {"forward": self.forward, "backward": self.backward}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Becomes the state whose :meth:`tensors` these are.

        Raises:
            ValueError: if they are of another model.
        """
        layers, _, size = self.forward.shape
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        fits = shapes.keys() == {"forward", "backward"} and len({*shapes.values()}) == 1
        if not fits or len(shapes["forward"]) != 3 or shapes["forward"][::2] != (layers, size):
            raise ValueError(f"states of {layers} layers of {size} were expected, not {', '.join(sorted(tensors))}")
        self.forward, self.backward = tensors["forward"], tensors["backward"]


class Elmo(nn.Module):
    """Two language models over the same words, in opposite directions.

    Args:
        config: Sizes and choices.
        vocab_size: How many words can be predicted; None: none, as in published files, which have no softmax.

    Attributes:
        output: From hidden states of either direction to probabilities.
    """

    kind: ClassVar[str] = "elmo"
    config_class: ClassVar[type] = ElmoConfig
    stateful: ClassVar[bool] = True
    masks_documents: ClassVar[bool] = False
    max_length: ClassVar[int | None] = None
    output: Softmax | AdaptiveSoftmax | None

    def __init__(self, config: ElmoConfig, *, vocab_size: int | None) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = vocab_size
        self.words = CharacterEncoder(
            character_size=config.character_size,
            filters=config.filters,
            highway_layers=config.highway_layers,
            output_size=config.hidden_size,
            activation=config.activation,
        )
        self.forwards, self.backwards = (
            ProjectedStack(
                config.hidden_size,
                config.cell_size,
                num_layers=config.num_layers,
                residual=config.residual,
                dropout=config.dropout,
                cell_clip=config.cell_clip,
                output_clip=config.state_clip,
            )
            for _ in range(2)
        )
        self.dropout = Dropout(config.dropout)
        self.classes: AdaptiveEmbedding | None = None
        self.output = None
        if vocab_size is not None and config.cutoffs:
            self.classes = AdaptiveEmbedding(
                vocab_size, config.hidden_size, embedding_size=config.hidden_size, cutoffs=config.cutoffs
            )
            self.output = AdaptiveSoftmax(self.classes, tied_projections=True)
        elif vocab_size is not None:
            self.output = Softmax(vocab_size, config.hidden_size, bias=True)

    @property
    def device(self) -> torch.device:
        """The device of its parameters."""
        return next(self.parameters()).device

    def start(self, batch_size: int, *, capacity: int | None = None) -> ElmoState:
        """Returns the initial state: zeros. Any number of words can be read, so ``capacity`` has no effect."""
        size = (self.config.num_layers, batch_size, self.forwards.state_size)
        weight = self.words.projection.weight
        return ElmoState(weight.new_zeros(size), weight.new_zeros(size))

    def forward(self, characters: Tensor, fed: Tensor, fed_backward: Tensor, state: ElmoState) -> BothWays:
        """Reads a segment in both directions.

        Args:
            characters: (U, K) int64, the different words.
            fed: (B, T) int64, which of them the forward model reads.
            fed_backward: (B, T) int64, which of them the backward model reads, in the order of reading.
            state: Of what was read before, advanced in place.
        """
        state.detach()
        words = self.words(characters)
        forwards, state.forward = self.forwards(F.embedding(fed, words), state.forward)
        backwards, state.backward = self.backwards(F.embedding(fed_backward, words), state.backward)
        return BothWays(self.dropout(forwards[-1]), self.dropout(backwards[-1]))

    def forward_states(self, characters: Tensor, fed: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Reads forward alone.

        Args:
            characters: (U, K) int64, the different words.
            fed: (B, T) int64, which of them are read.
            state: (L, B, S).

        Returns:
            Hidden states (B, T, M) of the last layer, and the state after the last word.
        """
        outputs, last = self.forwards(F.embedding(fed, self.words(characters)), state)
        return outputs[-1], last

    def layers(self, characters: Tensor, places: Tensor, mask: Tensor) -> Tensor:
        """Returns the vectors of the words of texts, each read by itself.

        Args:
            characters: (U, K) int64, the different words; the first two are begin and end of a text.
            places: (B, T) int64, which of them the texts have.
            mask: (B, T) bool, True for real words, all before the padding.

        Returns:
            (1 + L, B, T, 2M): h_0, ..., h_L.
        """
        words = F.embedding(places, self.words(characters))
        first, last = self.words(characters[:2]).unbind(0)
        state = self.start(len(places))

        def read(stack: ProjectedStack, edge: Tensor, inputs: Tensor, begin: Tensor) -> list[Tensor]:
            outputs, _ = stack(torch.cat((edge.expand(len(inputs), 1, -1), inputs), 1), begin)
            return [output[:, 1:] for output in outputs]

        forwards = read(self.forwards, first, words, state.forward)
        backwards = read(self.backwards, last, reverse(words, mask), state.backward)
        both = [torch.cat((one, reverse(other, mask)), -1) for one, other in zip(forwards, backwards, strict=True)]
        return torch.stack([torch.cat((words, words), -1), *both])

    def layers_after(self, characters: Tensor, state: ElmoState) -> Tensor:
        """Returns the vectors of the words of one text that is read after others.

        Args:
            characters: (1 + T + 1, K) int64, the begin of the text, its words, and its end.
            state: Of what was read before, advanced in place: both directions read begin, words and end.

        Returns:
            (1 + L, T, 2M): h_0, ..., h_L.
        """
        words = self.words(characters)[None]
        forwards, state.forward = self.forwards(words, state.forward)
        backwards, state.backward = self.backwards(words.flip(1), state.backward)
        both = [torch.cat((one, other.flip(1)), -1) for one, other in zip(forwards, backwards, strict=True)]
        return torch.stack([torch.cat((words, words), -1), *both])[:, 0, 1:-1]
