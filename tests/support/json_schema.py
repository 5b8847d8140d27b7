"""Validate an answer against its schema."""

from __future__ import annotations

import functools
import importlib
import json
from typing import Any


def validate(document: object, schema: dict[str, Any]) -> None:
    """Raise what ``jsonschema`` finds wrong with the document."""
    _validator(json.dumps(schema)).validate(document)


@functools.cache
def _validator(schema: str) -> Any:
    # Its import compiles grammars for more than a second: only where it is used.
    jsonschema = importlib.import_module("jsonschema")
    read = json.loads(schema)
    return jsonschema.validators.validator_for(read)(read)
