"""A report for an auditor as one HTML page that needs nothing beside it: of `tta check`, and of `tta audit`."""

from harness.checker.report.html import Part, Report, Worst, as_html, part_of

__all__ = ["Part", "Report", "Worst", "as_html", "part_of"]
