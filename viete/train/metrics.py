"""Metrics of a run: one line of JSON at a time, and the same for TensorBoard.

``metrics.jsonl`` holds ``{"step": 200, "loss": 2.01, "lr": 0.001, "norm": 0.4, "tokens": 153600,
"seconds": 12.3}`` and, after a validation, ``{"step": 200, "validation": 2.1}``. Step 1 also has
the ``"floor"`` of the loss, if it is known (see `floor`).
"""

from __future__ import annotations

import errno
import json
import os
import struct
import time
from collections.abc import Iterable, Mapping
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any

from viete.atomic import replacing
from viete.errors import VieteError, os_refusals
from viete.regular import decoded, regular

METRICS = "metrics.jsonl"
HUGE = 1e100  # a loss beyond it is drawn no more than an infinite one


class RunMetrics:
    """Appends a run's measurements to a file; ``step`` is that of the checkpoint it resumes from.

    Measurements of an earlier process after that step are removed, and so is an incomplete last
    line.
    """

    def __init__(self, run: Path, step: int = 0, tensorboard: bool = False) -> None:
        self.path = run / METRICS
        kept = [row for row in read_metrics(run) if row["step"] <= step] if step else []
        with replacing(self.path) as file:
            file.write("".join(json.dumps(row) + "\n" for row in kept).encode())
        with os_refusals(self.path, "written"):
            self.file = open(self.path, "ab", buffering=0)  # noqa: SIM115
        self.events = Events(run / "tensorboard", step) if tensorboard else None

    def __call__(self, step: int, **values: float) -> None:
        """Record some values of a step. Raises VieteError if the disk is full."""
        with os_refusals(self.path, "written"):
            append(self.file, (json.dumps({"step": step, **values}) + "\n").encode())
        if self.events is not None:
            self.events(step, values)

    def close(self) -> None:
        self.file.close()
        if self.events is not None:
            self.events.file.close()


def append(file: FileIO, data: bytes) -> None:
    """Write all of the data or nothing, even if the disk only has room for a part."""
    if (done := file.write(data)) != len(data):
        file.truncate(file.tell() - done)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """All measurements, in order, without an incomplete last line.

    Raises VieteError, with the line, for a line that is not a measurement.
    """
    path = run / METRICS
    try:
        lines = regular(path).read_text("utf-8").split("\n")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise VieteError(f"{path}: cannot be read ({reason})") from None
    rows = []
    for number, line in enumerate(lines[:-1], 1):  # the last has no line break: cut short
        try:
            row = decoded(line)
        except ValueError:
            row = None
        if not is_measurement(row):
            raise VieteError(f"{path}:{number}: this line is not a measurement of a run")
        rows.append(row)
    return rows


def losses(rows: Iterable[Mapping[str, Any]], key: str) -> tuple[tuple[float, float], ...]:
    """The steps and losses of some measurements that a picture can show: finite, and not huge."""
    points = ((float(row["step"]), float(row[key])) for row in rows if key in row)
    return tuple(p for p in points if abs(p[1]) < HUGE)  # false for NaN


def is_measurement(row: Any) -> bool:
    """Whether a JSON value is a step with some numbers."""
    return (
        isinstance(row, dict) and type(row.get("step")) is int
        and all(type(v) is float or (type(v) is int and abs(v) < 2**63) for v in row.values())
    )  # fmt: skip


class Events:
    """TensorBoard's file of events, which here uses four fields of three messages.

    A record is its length, that length's checksum, the data, its checksum (TFRecord); the data is
    an ``Event`` of event.proto: wall_time = 1, step = 2, file_version = 3, summary = 5 {value = 1
    {tag = 1, simple_value = 2}}, session_log = 7 {status = 1}.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / f"events.out.tfevents.{time.time_ns()}.{os.getpid()}"
        with os_refusals(self.path, "written"):
            folder.mkdir(parents=True, exist_ok=True)
            self.file = open(self.path, "xb", buffering=0)  # noqa: SIM115
        self.write(0, field(3, b"brain.Event:2"))
        if step:  # a session that starts at a step: TensorBoard drops what came after it
            self.write(step + 1, field(7, b"\x08\x01"))

    def __call__(self, step: int, values: dict[str, float]) -> None:
        parts = [field(1, field(1, name.encode()) + b"\x15" + struct.pack("<f", value))
                 for name, value in values.items()]  # fmt: skip
        self.write(step, field(5, b"".join(parts)))

    def write(self, step: int, content: bytes) -> None:
        data = b"\x09" + struct.pack("<d", time.time()) + b"\x10" + varint(step) + content
        length = struct.pack("<Q", len(data))
        with os_refusals(self.path, "written"):
            append(self.file, length + masked(length) + data + masked(data))


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a protocol buffer."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def masked(data: bytes) -> bytes:
    """TFRecord's checksum: CRC-32C, rotated by 15 bits, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table()[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF)


@cache
def table() -> list[int]:
    """CRC-32C of each byte (Castagnoli's polynomial, reversed)."""
    out = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        out.append(n)
    return out


__all__ = ["METRICS", "RunMetrics", "read_metrics"]
