"""Embed texts with a model of the multilingual E5 family in ONNX, from a folder of the person's own.

The folder has ``model.onnx`` and ``sentencepiece.bpe.model``, as published. Nothing is ever fetched or sent. The model gives
one vector per token; their mean, of length 1, is the text's. It was trained with ``query: `` and ``passage: `` before
each text (Wang et al., 2024, "Multilingual E5 Text Embeddings: A Technical Report").
"""

from __future__ import annotations

import hashlib
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_notarium.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

MODEL, PIECES = "model.onnx", "sentencepiece.bpe.model"
EXTRA = ("numpy", "onnxruntime", "sentencepiece")
"""Packages that ``mcp-notarium[meaning]`` brings."""
LONGEST_PASSAGE = 320
"""Tokens of a note that are embedded: its beginning. A model of 12 layers takes 60 ms for so many."""
LONGEST_QUERY = 64
_SCALE = 127
_NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"
"""Without it onnxruntime 1.32 keeps an id of the machine in ``~/.cache`` and sends what it does to its maker."""
_BEGIN, _END, _UNKNOWN, _SHIFT = 0, 2, 3, 1
"""Numbers of tokens in XLM-RoBERTa's vocabulary: SentencePiece's own, plus one; SentencePiece's 0 is unknown."""


class Embedder:
    """Hold a loaded model. Threads may share it; each call uses one core.

    ``model``: a hash of its file, by which vectors of another model are known. ``size``: numbers in a vector.
    """

    def __init__(self, folder: Path) -> None:
        """Load the model: half a second. Raises ``ConfigError`` if the folder or the extra cannot be used."""
        problem = find_problem(folder)
        if problem is not None:
            raise problem
        os.environ[_NO_TELEMETRY] = "1"  # read when it is imported
        import onnxruntime  # noqa: PLC0415 - an extra
        import sentencepiece  # noqa: PLC0415 - an extra

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False  # it keeps what the longest text took
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(
                folder / MODEL, options, providers=["CPUExecutionProvider"]
            )
            self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / PIECES))
            self._inputs = {one.name for one in self._session.get_inputs()}
            self.model = _hash(folder)
            self.size = len(self.embed_query("size"))
        except Exception as error:  # both libraries raise what they like about a bad file
            raise _unusable(
                folder, "they are no model of the multilingual E5 family in ONNX"
            ) from error

    def embed_query(self, text: str) -> np.ndarray[Any, Any]:
        """Return the vector of a question: float32, of length 1."""
        return self._embed(f"query: {text}", LONGEST_QUERY)

    def embed_passage(self, text: str) -> bytes:
        """Return the vector of a note's text: one signed byte per number, 127 for 1."""
        import numpy as np  # noqa: PLC0415 - an extra

        vector = self._embed(f"passage: {text}", LONGEST_PASSAGE)
        packed: bytes = np.rint(vector * _SCALE).astype(np.int8).tobytes()
        return packed

    def _embed(self, text: str, longest: int) -> np.ndarray[Any, Any]:
        import numpy as np  # noqa: PLC0415 - an extra

        ids = [
            one + _SHIFT if one else _UNKNOWN for one in self._pieces.encode(text)[: longest - 2]
        ]
        tokens = np.array([[_BEGIN, *ids, _END]], np.int64)
        given = {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}
        if "token_type_ids" in self._inputs:
            given["token_type_ids"] = np.zeros_like(tokens)
        mean = self._session.run(None, given)[0][0].mean(axis=0)
        vector: np.ndarray[Any, Any] = mean / max(float(np.linalg.norm(mean)), 1e-9)
        return vector.astype(np.float32)


def find_problem(folder: Path) -> ConfigError | None:
    """Return why a folder cannot be used, as far as that shows without loading the model."""
    if any(find_spec(name) is None for name in EXTRA):
        return ConfigError(
            "search by meaning needs packages that are not installed",
            resolution_hint="Install `mcp-notarium[meaning]`, or unset NOTARIUM_MEANING_MODEL.",
        )
    if not os.path.isdir(folder):  # noqa: PTH112 - raises nothing
        return _unusable(folder, "there is no such folder")
    if not os.access(folder, os.X_OK):
        return _unusable(folder, "this program may not read it")
    missing = [name for name in (MODEL, PIECES) if not os.path.isfile(folder / name)]  # noqa: PTH113 - raises nothing
    if missing:
        return _unusable(folder, f"it has no {' and no '.join(missing)}")
    closed = [name for name in (MODEL, PIECES) if not os.access(folder / name, os.R_OK)]
    return _unusable(folder, f"this program may not read {closed[0]}") if closed else None


def _unusable(folder: Path, why: str) -> ConfigError:
    return ConfigError(
        f"search by meaning cannot use the folder {folder}: {why}",
        resolution_hint=f"Let NOTARIUM_MEANING_MODEL name a folder with {MODEL} and {PIECES} "
        "(docs/meaning.md says which), or unset it.",
    )


def _hash(folder: Path) -> str:
    with (folder / MODEL).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
