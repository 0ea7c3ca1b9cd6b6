"""Whether the files of a model's weights are whole, told by their headers before any is loaded."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

from text2sql.common.files import GIT_LFS
from text2sql.common.json_files import read_object
from text2sql.errors import Text2SqlError

INDEX = "model.safetensors.index.json"
_MAX_HEADER = 100_000_000


def require_whole(directory: Path) -> None:
    """Raise Text2SqlError where a shard that the index names is missing, or a file is not whole."""
    named = shards(directory / INDEX) if (directory / INDEX).is_file() else set()
    for name in sorted(named | {file.name for file in directory.glob("*.safetensors")}):
        if not (directory / name).is_file():
            raise Text2SqlError(
                f"{directory} lacks {name}, which {INDEX} names: copy the rest of the model there."
            )
        tensors(directory / name)


def shards(index: Path) -> set[str]:
    """Return the names of the files that an index names; raises Text2SqlError where it is none."""
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise Text2SqlError(f"{index} says of no tensor in which file it is: get the model anew.")
    return set(places.values())


def tensors(file: Path) -> list[str]:
    """Return the names of the tensors in a safetensors file whose bytes are all there.

    Raises Text2SqlError where the header cannot be read or the file has another size than it
    says. The format: https://huggingface.co/docs/safetensors
    """
    try:
        with file.open("rb") as stream:
            first = stream.read(8)
            if GIT_LFS.startswith(first) and first:
                raise ValueError("it is Git LFS's pointer to the file, which git lfs pull gets")
            (length,) = struct.unpack("<Q", first)
            if length > _MAX_HEADER:
                raise ValueError(f"its header would be {length} bytes long")
            header = json.loads(stream.read(length))
            header.pop("__metadata__", None)
            end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
            size = stream.seek(0, os.SEEK_END)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise Text2SqlError(
            f"{file} cannot be read as safetensors ({error}): get it anew."
        ) from error
    if size != 8 + length + end:
        raise Text2SqlError(
            f"{file} is {size} bytes long; its header says {8 + length + end}: get it anew."
        )
    return list(header)
