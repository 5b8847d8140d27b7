"""Test that texts become vectors, and what is said of a folder that cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcp_notarium.errors import ConfigError
from mcp_notarium.meaning import embedder
from mcp_notarium.meaning.embedder import MODEL, PIECES, Embedder, find_problem
from support.tiny_model import SIZE, write_model


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def cosine(made: Embedder, question: str, text: str) -> float:
    vector = np.frombuffer(made.embed_passage(text), np.int8) / 127
    return float(vector @ made.embed_query(question))


def test_what_means_the_same_is_near(folder: Path) -> None:
    made = Embedder(folder)
    assert made.size == SIZE
    assert cosine(made, "hound", "my dog") > 0.9
    assert cosine(made, "hound", "a voiture") < 0.5


def test_a_vector_has_length_1_and_a_text_of_unknown_words_has_one_too(folder: Path) -> None:
    made = Embedder(folder)
    assert np.linalg.norm(made.embed_query("dog bread")) == pytest.approx(1, abs=1e-6)
    assert len(made.embed_passage("")) == len(made.embed_passage("\x00 \ud7ff" * 9)) == SIZE


def test_only_the_beginning_of_a_long_text_counts(folder: Path) -> None:
    made = Embedder(folder)
    long = "dog " * embedder.LONGEST_PASSAGE
    assert made.embed_passage(long) == made.embed_passage(long + "bread " * 500)


def test_another_model_has_another_name(folder: Path, tmp_path: Path) -> None:
    other = write_model(tmp_path / "other", seed=2)
    assert Embedder(folder).model == Embedder(folder).model != Embedder(other).model


@pytest.mark.parametrize("name", [MODEL, PIECES])
@pytest.mark.parametrize("content", [None, b"", b"garbage" * 99, b"\x08\x08:\x00"])
def test_a_folder_that_cannot_be_used_is_named_with_what_to_do(
    folder: Path, name: str, content: bytes | None
) -> None:
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(ConfigError, match="search by meaning cannot use the folder") as raised:
        Embedder(folder)
    assert str(folder) in raised.value.message
    assert "NOTARIUM_MEANING_MODEL" in str(raised.value.resolution_hint)


def test_a_model_of_another_kind_is_refused(folder: Path, tmp_path: Path) -> None:
    other = write_model(tmp_path / "other")
    model = (other / MODEL).read_bytes()
    (folder / MODEL).write_bytes(model.replace(b"input_ids", b"input_idx"))
    with pytest.raises(ConfigError, match="no model of the multilingual E5 family"):
        Embedder(folder)


def test_a_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> Any:
        return None if name == "onnxruntime" else find_spec(name)

    monkeypatch.setattr(embedder, "find_spec", find)
    problem = find_problem(folder)
    assert problem is not None
    assert "mcp-notarium[meaning]" in str(problem.resolution_hint)


def test_onnxruntime_keeps_and_sends_no_telemetry(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    code = "import sys; from pathlib import Path; from mcp_notarium.meaning.embedder import Embedder; Embedder(Path(sys.argv[1])).embed_query('dog')"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    subprocess.run([sys.executable, "-c", code, str(folder)], env=env, check=True)
    assert list(home.rglob("*")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_may_not_be_read_is_named(folder: Path) -> None:
    folder.chmod(0)
    os.seteuid(65534)
    try:
        problem = find_problem(folder)
    finally:
        os.seteuid(0)
        folder.chmod(0o700)
    assert problem is not None
    assert str(folder) in problem.message
