"""The config of a base, from whoever wrote it: what is built upon has the kind that it should have."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class _Settings(BaseModel):
    """What is added to in a config, strictly."""

    Labels: dict[str, str] | None = None
    Env: list[str] | None = None


class _RootFS(BaseModel):
    diff_ids: list[Annotated[str, Field(pattern=f"^{DIGEST.pattern}$")]]


class _Config(BaseModel):
    config: _Settings | None = None
    rootfs: _RootFS
    history: list[dict[str, Any]] | None = None


def parse_config(data: bytes) -> dict[str, Any]:
    """Read a config. Raises `ValueError` where a part that is built upon is of the wrong kind."""
    config = json.loads(data)
    try:
        _Config.model_validate(config)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"config, {'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}") from error
    return dict(config)
