"""Text of reports on what graphs of a context binary share."""

from __future__ import annotations

from dovetail.cli.output import table
from dovetail.runtime import SharingReport

_SHOWN = 20  # rows; all are in the JSON


def sharing_text(report: SharingReport) -> str:
    """Return the text of a report: sizes, ratios, and weights that are not shared."""
    rows = [
        [
            g.name,
            "unknown" if g.alone_bytes is None else f"{g.alone_bytes:,}",
            f"{g.shared_bytes:,}",
        ]
        for g in report.graphs
    ]
    parts = [
        f"sharing: {report.shared_bytes:,} bytes are used by several graphs; {_ratios(report)}",
        table(("GRAPH", "ALONE", "SHARED"), rows),
    ]
    if not report.has_models:
        parts.append("weights of the same name are unknown: not all models are embedded")
    elif report.unshared:
        found = [
            [
                each.name,
                " ".join(each.graphs),
                ", ".join(map(str, each.differences)),
                _cosine(each.cosine),
            ]
            for each in report.unshared[:_SHOWN]
        ]
        parts.append(table(("NOT SHARED", "GRAPHS", "DIFFERENCES", "COSINE"), found))
        if len(report.unshared) > _SHOWN:
            parts.append(f"and {len(report.unshared) - _SHOWN} more, which --json lists")
    elif report.same_names:
        parts.append(f"all {report.same_names} weights of the same name are shared")
    else:
        parts.append("no weights of two graphs have the same name")
    return "\n\n".join(parts)


def _ratios(report: SharingReport) -> str:
    if report.sum_bytes is None or report.ratio_to_sum is None or report.ratio_to_largest is None:
        return "the sizes of graphs alone are unknown, since they are restored together"
    return (
        f"{report.file_bytes:,} bytes are {report.ratio_to_sum:.3f} of the {report.sum_bytes:,}"
        f" bytes of all graphs alone, and {report.ratio_to_largest:.3f} of the largest one"
    )


def _cosine(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"
