"""Tokenizers: BERT's and GPT-2's own, or WordPiece and byte-pair encoding trained on the corpus."""

import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    BertTokenizer,
    GPT2Tokenizer,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from companion.data.documents import Mixture
from companion.data.splits import DataError, Source, first_line
from companion.setup import paths

PUBLIC = {
    "bert": (BertTokenizer, "google-bert/bert-base-uncased", "vocab.txt"),
    "gpt2": (GPT2Tokenizer, "openai-community/gpt2", "vocab.json", "merges.txt"),
}
SPECIAL = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
END = "<|endoftext|>"
# characters; rarer ones become [UNK], as in BERT's own vocabulary
LONGEST_ALPHABET = 1000
# enough for stable merges; a corpus of the hub has millions
TRAINING_DOCUMENTS = 200_000


def make_tokenizer(
    kind: str, source: Source, mixture: Mapping[str, float], vocabulary: int | None
) -> PreTrainedTokenizerBase:
    """Return BERT's ("bert") or GPT-2's ("gpt2") own tokenizer, or train one on a mixture's train
    text.

    "wordpiece" is lower-cased and puts [CLS] and [SEP] around a text, for encoders; "bpe" works on
    bytes and adds nothing, for decoders, and has <|endoftext|>. A trained one has at most
    `vocabulary` entries, comes out the same on every machine, and is kept in the build's cache.
    Raises ValueError if `vocabulary` cannot hold the letters, or about files.
    """
    if kind in PUBLIC:
        return _from_hub(kind, source)
    text = Mixture(source, mixture)
    parts = json.dumps([kind, vocabulary, TRAINING_DOCUMENTS, text.identity()])
    name = f"tokenizer-{kind}-{vocabulary}-{hashlib.sha256(parts.encode()).hexdigest()[:12]}"

    def train(folder: Path) -> None:
        texts = ["\n".join(document) for document in islice(text, TRAINING_DOCUMENTS)]
        tokenizer = (
            _wordpiece(texts, vocabulary) if kind == "wordpiece" else _bytes(texts, vocabulary)
        )
        try:
            tokenizer.save_pretrained(folder)
        # tokenizers raises bare Exception for a full disk
        except Exception as error:
            raise OSError(first_line(error)) from None

    return PreTrainedTokenizerFast.from_pretrained(paths.made(paths.cache() / name, train))


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return digits that change with anything that changes how a text is encoded."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    # left over from the last call
    state.pop("truncation"), state.pop("padding")
    whole = json.dumps([state, tokenizer.special_tokens_map], sort_keys=True, default=str)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _from_hub(kind: str, source: Source) -> PreTrainedTokenizerBase:
    """Load a public tokenizer from the hub or from its files in a mirror."""
    maker, repository, *names = PUBLIC[kind]
    files = source.files(repository, *names)
    try:
        tokenizer = maker.from_pretrained(files)
    except (OSError, ValueError) as error:
        raise DataError(
            f"the '{kind}' tokenizer cannot be read ({first_line(error)}); connect, or train one"
        ) from None
    if kind == "gpt2":
        # it has none; its mask hides the padding
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _wordpiece(texts: list[str], vocabulary: int) -> PreTrainedTokenizerFast:
    normalizer = normalizers.BertNormalizer(lowercase=True)
    letters = Counter(
        c for text in texts for c in normalizer.normalize_str(text) if not c.isspace()
    )
    kept = sorted(
        sorted(letters, key=lambda c: (-letters[c], c))[: min(LONGEST_ALPHABET, vocabulary // 4)]
    )
    # The trainer numbers continuing letters in the order of a hash table, so that merges with equal
    # counts fall differently in every process; named beforehand, they have fixed numbers.
    # BERT's pre-tokenizer makes a word of every mark: none continues a word.
    alone = {
        c
        for c in kept
        if (c.isascii() and not c.isalnum()) or unicodedata.category(c).startswith("P")
    }
    continuing = [f"##{c}" for c in kept if c not in alone]
    first = [*SPECIAL.values(), *continuing]
    if vocabulary < len(first) + len(kept):
        raise ValueError(
            f"vocabulary={vocabulary} must hold the {len(first) + len(kept)} letters and marks"
        )
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.normalizer, learner.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    options = {"initial_alphabet": kept, "limit_alphabet": len(kept), "show_progress": False}
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=first, **options)
    learner.train_from_iterator(texts, trainer)
    backend = Tokenizer(models.WordPiece(learner.get_vocab(), unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    marks = [(mark, backend.token_to_id(mark)) for mark in ("[CLS]", "[SEP]")]
    pair = "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1"
    backend.post_processor = processors.TemplateProcessing("[CLS]:0 $A:0 [SEP]:0", pair, marks)
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_input_names=inputs, **SPECIAL)


def _bytes(texts: list[str], vocabulary: int) -> PreTrainedTokenizerFast:
    special = [*SPECIAL.values(), END]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    if vocabulary < len(alphabet) + len(special):
        raise ValueError(
            f"vocabulary={vocabulary} must hold the {len(alphabet) + len(special)} bytes and marks"
        )
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    options = {"initial_alphabet": alphabet, "special_tokens": special, "show_progress": False}
    backend.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=vocabulary, **options))
    names = {
        "bos_token": END,
        "eos_token": END,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names, **SPECIAL)
