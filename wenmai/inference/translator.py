"""A trained translator: the model, its tokenizers, and its verbs."""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.quantities import plural
from wenmai.data.batches import pad, plan_batches
from wenmai.decode.protocol import Hypothesis
from wenmai.decode.sampling import sample
from wenmai.decode.scoring import Scoring
from wenmai.decode.search import beam_search, exhaustive, greedy
from wenmai.inference.architecture import Network, read_architecture
from wenmai.inference.searching import DrawConfig, SearchConfig
from wenmai.models.folder import CONFIG, write_fields
from wenmai.nn.attention import watch_attention
from wenmai.nn.encoder_decoder import EncoderDecoder
from wenmai.text.tokenizer import Tokenizer
from wenmai.training.tensors import loaded_model, save_model

__all__ = ["AttentionMaps", "Translation", "Translator", "build"]

_log = logging.getLogger(__name__)

_MAP_KINDS = {"attention": "self", "memory_attention": "cross"}
_CHUNK = 512  # lines read before they are sorted by length
_BATCH_TOKENS = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """One translation of one text.

    Attributes:
        text: The translation.
        score: What it is ranked by: its log-probability, after the penalties unless it was sampled; 0 for an empty
            source.
        log_prob: Natural log-probability of its tokens and end.
        tokens: Its pieces.
        cut: Whether the source was too long, so that its end was left out.
    """

    text: str
    score: float = 0.0
    log_prob: float = 0.0
    tokens: tuple[str, ...] = ()
    cut: bool = False


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AttentionMaps:
    """The attention weights of one translated sentence.

    Attributes:
        source: The sentence.
        translation: Its translation.
        source_tokens: S pieces, EOS included.
        target_tokens: T pieces, EOS included.
        weights: (H, T, S) by name, such as ``decoder.layers.0.cross``; self-attention is square.
    """

    source: str
    translation: str
    source_tokens: list[str]
    target_tokens: list[str]
    weights: dict[str, np.ndarray[Any, np.dtype[np.float32]]] = field(default_factory=dict)


def build(
    architecture: Any,  # noqa: ANN401  the class of a network
    config: Any,  # noqa: ANN401  each architecture has its own
    *,
    source: Tokenizer,
    target: Tokenizer,
) -> EncoderDecoder:
    """Makes a model with fresh parameters for two tokenizers; a joint one is passed twice."""
    model: EncoderDecoder = architecture(
        config,
        source_vocab_size=source.vocab_size,
        target_vocab_size=target.vocab_size,
        tied_sources=source is target,
    )
    return model


class Translator(Network):
    """Translates with a trained model.

    Args:
        module: The model.
        source: Tokenizer of the source.
        target: Tokenizer of the target; the same object if it is joint.
    """

    module: EncoderDecoder

    def __init__(
        self,
        module: EncoderDecoder,
        source: Tokenizer,
        target: Tokenizer,
    ) -> None:
        self.module = module
        self.source = source
        self.target = target

    def _sizes(self) -> dict[str, Any]:
        return {"source_vocabulary": self.source.vocab_size, "target_vocabulary": self.target.vocab_size}

    @property
    def has_attention(self) -> bool:
        """Whether the decoder attends to the source."""
        return self.module.has_attention

    # --- files --------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``model.safetensors`` and the tokenizers."""
        joint = self.source is self.target
        write_fields(
            folder,
            kind=self.kind,
            joint=joint,
            source_vocab_size=self.source.vocab_size,
            target_vocab_size=self.target.vocab_size,
            model=asdict(self.config),
        )
        save_model(self.module, folder)
        if joint:
            self.source.save(folder / "tokenizer.json")
        else:
            self.source.save(folder / "source-tokenizer.json")
            self.target.save(folder / "target-tokenizer.json")

    @classmethod
    def load(cls, folder: Path) -> "Translator":
        """Reads a model folder.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        found = read_architecture(folder, EncoderDecoder)
        if found.facts.get("joint"):
            source = target = Tokenizer.load(folder / "tokenizer.json")
        else:
            source = Tokenizer.load(folder / "source-tokenizer.json")
            target = Tokenizer.load(folder / "target-tokenizer.json")
        sizes = source.vocab_size, target.vocab_size
        if sizes != (found.facts.get("source_vocab_size"), found.facts.get("target_vocab_size")):
            raise FormatError(
                f"{folder / CONFIG}: does not fit the tokenizers beside it, which have {sizes[0]} and {sizes[1]} tokens"
            )
        module = loaded_model(
            lambda: build(found.model, found.config, source=source, target=target), found.config, folder
        )
        return cls(module, source, target)

    # --- translation --------------------------------------------------------------------------------------------

    def translate(self, texts: str | Sequence[str], **options: Any) -> list[str]:  # noqa: ANN401
        """Returns the best translation of each text. Options: see :meth:`stream`.

        Texts that are longer than the model reads are cut at their ends, and counted in a note.
        """
        made = [found[0] for found in self.stream(texts, **options)]
        if cut := sum(one.cut for one in made):
            longest = self.config.max_length
            _log.warning("%s", f"{plural(cut, 'text')} longer than the model reads (max_length={longest}): cut")
        return [one.text for one in made]

    def stream(
        self,
        texts: str | Iterable[str],
        *,
        prefix: str | Iterable[str] = "",
        sampling: Mapping[str, Any] | None = None,
        chunk: int = _CHUNK,
        **search: Any,  # noqa: ANN401
    ) -> Iterator[list[Translation]]:
        """Yields translations of texts, in order.

        Args:
            texts: One, or several, which are read as they are needed, ``chunk`` at a time.
            prefix: What all translations, or that of each text, begin with; best whole words.
            sampling: Sample instead of searching: ``seed``, ``temperature``, ``top_k``, ``top_p``.
            chunk: Texts that are sorted by length and translated together.
            **search: As of :class:`wenmai.inference.searching.SearchConfig`; lengths and repetitions concern sampling
                too.

        Yields:
            The translations of each text, best first; an empty text has one empty translation.

        Raises:
            SettingError: if a setting makes no sense.
        """
        config = SearchConfig.of(search)
        drawing = None
        if sampling is not None:
            config.require_drawing()
            drawing = asdict(DrawConfig.of(sampling))
            drawing["generator"] = torch.Generator(self.device).manual_seed(drawing.pop("seed"))
        most = config.beam_size
        if sampling is None and not config.exhaustive and config.n_best > most:
            raise SettingError(f"n_best={config.n_best}: a beam of {most} has 1 to {most} translations of a text")
        if config.min_length >= self.config.max_length:
            raise SettingError(
                f"min_length={config.min_length}: expected less than {self.config.max_length}, the tokens that a "
                "translation of this model has at most, as the end counts too"
            )
        if config.coverage_beta and not self.has_attention:
            raise SettingError(f"coverage_beta={config.coverage_beta}: this model has no attention")
        begins = repeat(prefix) if isinstance(prefix, str) else iter(prefix)
        waiting: list[tuple[str, str]] = []
        for text in [texts] if isinstance(texts, str) else texts:
            begin = next(begins, None)
            if begin is None:
                raise SettingError("there are fewer prefixes than texts; give one for each, or one for all")
            waiting.append((text, begin))
            if len(waiting) == chunk:
                yield from self._translated(waiting, config, drawing)
                waiting = []
        if not isinstance(prefix, str) and next(begins, None) is not None:
            raise SettingError("there are more prefixes than texts; give one for each, or one for all")
        yield from self._translated(waiting, config, drawing)

    def _translated(
        self, pairs: list[tuple[str, str]], config: SearchConfig, drawing: Mapping[str, Any] | None
    ) -> list[list[Translation]]:
        encoded = self.source.encode_batch([text for text, _ in pairs])
        prefixes = [self._begin(begin) for _, begin in pairs]
        longest = self.config.max_length - 1  # EOS
        results: list[list[Translation]] = [[Translation(text="")] for _ in pairs]
        asked = [place for place, ids in enumerate(encoded) if ids]
        lengths = np.array([min(len(encoded[place]), longest) + 1 for place in asked], np.int64)
        tokens, rows = max(1, _BATCH_TOKENS // config.beam_size), 1 if config.exhaustive else None
        batches = plan_batches(lengths, max_tokens=tokens, max_rows=rows, seed=0, epoch=0) if asked else []
        for batch in batches:
            places = [asked[index] for index in batch]
            ids, valid = pad([[*encoded[place][:longest], self.source.eos_id] for place in places], self.source.pad_id)
            begins = [prefixes[place] for place in places]
            found = self._decoded(torch.from_numpy(ids), torch.from_numpy(valid), begins, config, drawing)
            for place, hypotheses in zip(places, found, strict=True):
                cut = len(encoded[place]) > longest
                results[place] = [self._translation(hypothesis, cut) for hypothesis in hypotheses]
        return results

    def _begin(self, prefix: str) -> list[int]:
        """Returns the tokens of a prefix."""
        ids = self.target.encode(prefix).ids if prefix else []
        if self.target.unk_id in ids:
            raise SettingError(f"the prefix {prefix!r} has words or characters that the model cannot write")
        return ids

    def _translation(self, hypothesis: Hypothesis, cut: bool) -> Translation:
        return Translation(
            text=" ".join(self.target.decode(hypothesis.tokens).splitlines()),  # a line stays a line
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            tokens=tuple(self.target.token(token) for token in hypothesis.tokens),
            cut=cut,
        )

    def _limits(self, source_mask: Tensor, prefixes: Sequence[Sequence[int]], config: SearchConfig) -> Tensor:
        """Returns the most tokens of each translation, (B,).

        Raises:
            SettingError: if a prefix leaves no room for the end.
        """
        limits = [min(config.longest(size), self.config.max_length) for size in source_mask.sum(1).tolist()]
        for limit, prefix in zip(limits, prefixes, strict=True):
            if len(prefix) >= limit:
                raise SettingError(
                    f"a prefix of {len(prefix)} tokens leaves no room for the end: the translation of this text has at "
                    f"most {limit}; expected a shorter prefix, or a larger max_length"
                )
        return torch.tensor(limits)

    @torch.inference_mode()
    def _decoded(
        self,
        source_ids: Tensor,
        source_mask: Tensor,
        prefixes: Sequence[Sequence[int]],
        config: SearchConfig,
        drawing: Mapping[str, Any] | None,
    ) -> list[list[Hypothesis]]:
        limits = self._limits(source_mask, prefixes, config)
        covering = drawing is None and config.coverage_beta > 0
        source_ids, source_mask, limits = (part.to(self.device) for part in (source_ids, source_mask, limits))
        state = self.module.begin(source_ids, source_mask, max_length=int(limits.max()), need_attention=covering)
        rules: dict[str, Any] = {
            "bos_id": self.target.bos_id,
            "eos_id": self.target.eos_id,
            "max_lengths": limits,
            "prefix": prefixes if any(prefixes) else None,
            "banned": (self.target.pad_id, self.target.bos_id, self.target.unk_id),
            "device": self.device,
            **config.rules,
        }
        if drawing is not None:
            return [[drawn] for drawn in sample(self.module, state, **rules, **drawing)]
        rules["source_mask"] = source_mask if covering else None
        if config.exhaustive:
            try:
                return exhaustive(self.module, state, n_best=config.n_best, **config.penalties, **rules)
            except ValueError as error:
                raise SettingError(f"{error}; a smaller max_length has fewer") from None
        if config.beam_size == 1 and not covering:
            scoring, _ = Scoring(**config.penalties), rules.pop("source_mask")
            return [[scoring.scored(found)] for found in greedy(self.module, state, **rules)]
        return beam_search(
            self.module,
            state,
            beam_size=config.beam_size,
            n_best=config.n_best,
            stop=config.stop,
            **config.penalties,
            **rules,
        )

    # --- attention ----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def attention(
        self, source: str, translation: str | Translation | None = None, *, beam_size: int = 5
    ) -> AttentionMaps:
        """Returns every attention map of a translation: all layers and heads.

        Args:
            source: A text.
            translation: Its translation, a text or a result of :meth:`stream`; None: it is made.
            beam_size: Hypotheses kept, if it is made.
        """
        if translation is None:
            (translation,) = next(self.stream([source], beam_size=beam_size))
        source_ids = [*self.source.encode(source).ids[: self.config.max_length - 1], self.source.eos_id]
        if isinstance(translation, Translation):
            text, target_ids = translation.text, [self.target.id(token) for token in translation.tokens]
        else:
            text, target_ids = translation, self.target.encode(translation).ids
        target_ids = target_ids[: self.config.max_length - 1]
        with watch_attention(self.module) as seen:
            ids = torch.tensor([source_ids], device=self.device)
            self.module(
                ids,
                torch.ones_like(ids, dtype=torch.bool),
                torch.tensor([[self.target.bos_id, *target_ids]], device=self.device),
            )
        weights = {}
        for name, maps in seen.items():
            stack, _, kind = name.rpartition(".")
            recurrent = "layers" not in stack  # its only attention is on the source
            title = "decoder.layers.0.cross" if recurrent else f"{stack}.{_MAP_KINDS[kind]}"
            weights[title] = torch.cat([found[0] for found in maps], dim=1).float().cpu().numpy()
        return AttentionMaps(
            source=source,
            translation=text,
            source_tokens=[self.source.token(token) for token in source_ids],
            target_tokens=[*(self.target.token(token) for token in target_ids), self.target.token(self.target.eos_id)],
            weights=weights,
        )

    @torch.inference_mode()
    def score(self, sources: str | Sequence[str], targets: str | Sequence[str]) -> list[float]:
        """Returns the natural log-probability of each target given its source, EOS included.

        A source that is too long is cut, as for a translation.

        Raises:
            SettingError: if there are not as many of each, or a target is longer than the model takes.
        """
        sources, targets = ([texts] if isinstance(texts, str) else texts for texts in (sources, targets))
        if len(sources) != len(targets):
            raise SettingError(f"sources: {len(sources)}, targets: {len(targets)}; expected one target for each source")
        longest = self.config.max_length - 1  # EOS
        scores = []
        for source, target in zip(sources, targets, strict=True):
            found, made = self.source.encode(source).ids[:longest], self.target.encode(target).ids
            if len(made) > longest:
                raise SettingError(f"a translation has {len(made)} tokens; the model takes {longest}: {target[:40]!r}")
            ids = torch.tensor([[*found, self.source.eos_id]], device=self.device)
            wanted = torch.tensor([*made, self.target.eos_id], device=self.device)
            fed = torch.cat([wanted.new_tensor([self.target.bos_id]), wanted[:-1]])
            hidden = self.module(ids, torch.ones_like(ids, dtype=torch.bool), fed[None])
            logits = self.module.logits(hidden[0])
            chosen = torch.log_softmax(logits, dim=-1).gather(1, wanted[:, None])
            scores.append(math.fsum(chosen.flatten().tolist()))
        return scores
