"""Reads reports of layermark: ``layermark.load("x.json")``.

``layermark report RUN -o x.json`` writes such a file. Nothing but the standard library is needed; with
pandas, ``Report.results_frame()`` and ``Report.trials_frame()`` are data frames.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import pandas

__all__ = ["Layer", "Report", "ReportError", "Result", "Trial", "load", "loads"]

SCHEMA = "layermark.report/1"

PathLike = Union[str, "os.PathLike[str]"]


class ReportError(ValueError):
    """The file is not a report that this version can read."""


@dataclass(frozen=True)
class Layer:
    """A layer of the run."""

    name: str
    #: As on the command line: ``overlay:upper``.
    spec: str
    #: The others are compared with it.
    baseline: bool
    #: The second measurement of the baseline, which shows the method's own error.
    control: bool
    #: ``ok`` or the reason why it was not measured.
    status: str


@dataclass(frozen=True)
class Result:
    """A point in a layer. What was not measured is None."""

    id: str
    workload: str
    #: The point's name: ``small read, warm``.
    point: str
    layer: str
    #: ``B/s``, ``ops/s``, ``trans/s``.
    unit: str
    #: In ``unit``, with its 95 % interval.
    value: float | None
    value_low: float | None
    value_high: float | None
    #: Microseconds an operation as one thread sees it, with its 95 % interval.
    op_us: float | None
    op_us_low: float | None
    op_us_high: float | None
    #: Time here over the baseline's, with its 95 % interval; None for the baseline.
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    #: ``slower``, ``faster``, ``same``, ``undecided``, ...
    verdict: str
    #: Trials with a number, and pairs with the baseline.
    trials: int
    blocks: int
    #: Parameters of the point; sizes are bytes.
    params: dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """A measurement of a point in a layer, in the order of the run."""

    seq: int
    layer: str
    point: str
    #: From 0.
    session: int
    block: int
    #: Milliseconds since the run began.
    at_ms: int
    #: Microseconds an operation as one thread sees it; None if it failed.
    op_us: float | None
    #: Operations, and bytes that they moved.
    ops: int
    bytes: int
    #: Why it is doubtful, if it is.
    flags: list[str]
    error: str | None


@dataclass(frozen=True)
class Report:
    """A report. ``raw`` has all of it, as ``layermark schema report`` describes it."""

    run: str
    label: str
    headline: str
    started: str
    #: ``yes``, ``with care`` or ``no``; None where nothing was measured, in comparisons, and in files of versions
    #: before this field.
    trusted: str | None
    #: Why not, if it is ``no``.
    distrust: str | None
    layers: list[Layer]
    results: list[Result]
    trials: list[Trial]
    raw: dict[str, Any]

    @property
    def baseline(self) -> str | None:
        """Name of the layer that the others are compared with."""
        return next((layer.name for layer in self.layers if layer.baseline), None)

    def of(self, layer: str | None = None, point: str | None = None) -> Iterator[Result]:
        """Results of a layer, of a point, or of both."""
        for row in self.results:
            if layer in (None, row.layer) and point in (None, row.point):
                yield row

    def results_frame(self) -> pandas.DataFrame:
        """The results, a row each. Parameters are columns whose names begin with ``param_``."""
        rows = []
        for result in self.results:
            row = {f.name: getattr(result, f.name) for f in fields(result) if f.name != "params"}
            row.update({f"param_{name}": value for name, value in result.params.items()})
            rows.append(row)
        return _frame(rows, [f.name for f in fields(Result) if f.name != "params"])

    def trials_frame(self) -> pandas.DataFrame:
        """The trials, a row each, in the order of the run."""
        names = [f.name for f in fields(Trial)]
        return _frame([{name: getattr(trial, name) for name in names} for trial in self.trials], names)


def load(path: PathLike) -> Report:
    """Reads a file of ``layermark report RUN -o x.json``, also packed by gzip."""
    data = Path(path).read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        text = data.decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: {error}") from error
    try:
        return loads(text)
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from error


def loads(text: str) -> Report:
    """Reads a report from its text."""
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise ReportError(f"it is not JSON: {error}") from error
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if schema != SCHEMA:
        raise ReportError(f"it is not a report: its schema is {schema!r}, not {SCHEMA!r}")
    try:
        trusted = raw.get("trusted") or {}
        return Report(
            run=raw["run"],
            label=raw["label"],
            headline=raw.get("headline", ""),
            started=raw["started"],
            trusted=trusted.get("word"),
            distrust=trusted.get("reason"),
            layers=[_layer(layer) for layer in raw["layers"]],
            results=[_result(row) for row in raw["results"]],
            trials=[_trial(row) for row in raw["trials"]],
            raw=raw,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"it lacks {error}") from error


def _layer(raw: dict[str, Any]) -> Layer:
    return Layer(
        name=raw["name"],
        spec=raw["spec"],
        baseline=raw["baseline"],
        control=raw["control"],
        status=raw["status"],
    )


def _result(raw: dict[str, Any]) -> Result:
    value_low, value_high = _ends(raw.get("interval"))
    op_us_low, op_us_high = _ends(raw.get("op_us_interval"))
    ratio = raw.get("ratio") or {}
    ratio_low, ratio_high = _ends(ratio.get("interval"))
    return Result(
        id=raw["id"],
        workload=raw["workload"],
        point=raw["label"],
        layer=raw["layer"],
        unit=raw["unit"],
        value=raw.get("value"),
        value_low=value_low,
        value_high=value_high,
        op_us=raw.get("op_us"),
        op_us_low=op_us_low,
        op_us_high=op_us_high,
        ratio=ratio.get("estimate"),
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        verdict=raw["verdict"],
        trials=raw["trials"],
        blocks=raw["blocks"],
        params=raw["point"],
    )


def _trial(raw: dict[str, Any]) -> Trial:
    return Trial(
        seq=raw["seq"],
        layer=raw["layer"],
        point=raw["point"],
        session=raw["session"],
        block=raw["block"],
        at_ms=raw["at_ms"],
        op_us=raw.get("op_us"),
        ops=raw["ops"],
        bytes=raw["bytes"],
        flags=raw["flags"],
        error=raw.get("error"),
    )


def _ends(interval: Sequence[float] | None) -> tuple[float | None, float | None]:
    return (interval[0], interval[1]) if interval else (None, None)


def _frame(rows: list[dict[str, Any]], columns: list[str]) -> pandas.DataFrame:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("data frames need pandas: pip install pandas") from error
    return pandas.DataFrame(rows) if rows else pandas.DataFrame(columns=columns)
