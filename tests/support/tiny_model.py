"""Write a tiny embedding model in ONNX: a vector per word, near to those of its synonyms.

A real model in every respect but size: the product loads it through onnxruntime and sentencepiece. ONNX is a protobuf,
of which a graph with one operator needs a dozen fields.
"""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Sequence
from pathlib import Path

import sentencepiece

GROUPS = (
    ("dog", "hound", "hund", "chien", "puppy"),
    ("car", "automobile", "auto", "voiture", "vehicle"),
    ("doctor", "physician", "arzt", "médecin"),
    ("bread", "loaf", "brot", "pain", "baking"),
    ("invoice", "bill", "rechnung", "facture", "payment"),
    ("animation", "movement", "motion"),
)
SIZE = 32
_FLOAT, _INT64 = 1, 7


def write_model(folder: Path, groups: Sequence[Sequence[str]] = GROUPS, *, seed: int = 1) -> Path:
    """Write the files of a model; words of no group have the same vector, far from every other."""
    folder.mkdir(parents=True, exist_ok=True)
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([word for group in groups for word in group]),
        model_writer=written,
        model_type="word",
        normalization_rule_name="nmt_nfkc_cf",
        vocab_size=3 + sum(map(len, groups)),
        minloglevel=2,
    )
    (folder / "sentencepiece.bpe.model").write_bytes(written.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    draw = random.Random(seed)
    vectors = [[0.0] * SIZE for _ in range(pieces.get_piece_size() + 1)]
    for group in groups:
        centre = [draw.gauss(0, 1) for _ in range(SIZE)]
        for word in group:
            number = pieces.piece_to_id(f"\u2581{word}")
            assert number, f"{word!r} is no word of the model"
            vectors[number + 1] = [one + draw.gauss(0, 0.1) for one in centre]
    table = b"".join(struct.pack(f"<{SIZE}f", *row) for row in vectors)
    (folder / "model.onnx").write_bytes(_model(len(vectors), table))
    return folder


def _model(rows: int, table: bytes) -> bytes:
    tensor = (
        _number(1, rows)
        + _number(1, SIZE)
        + _number(2, _FLOAT)
        + _text(8, "table")
        + _bytes(9, table)
    )
    node = (
        _text(1, "table")
        + _text(1, "input_ids")
        + _text(2, "last_hidden_state")
        + _text(4, "Gather")
    )
    graph = _bytes(1, node) + _text(2, "tiny") + _bytes(5, tensor)
    graph += _bytes(11, _value("input_ids", _INT64, 2)) + _bytes(
        11, _value("attention_mask", _INT64, 2)
    )
    graph += _bytes(12, _value("last_hidden_state", _FLOAT, 3))
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, 17))


def _value(name: str, kind: int, dimensions: int) -> bytes:
    shape = b"".join(_bytes(1, _text(2, f"d{number}")) for number in range(dimensions))
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())
