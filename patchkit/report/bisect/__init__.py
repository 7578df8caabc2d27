"""What a bisect tells: documents for programs, lines for people."""

from patchkit.report.bisect.document import Tally, answer_document, probe_document, untold_end
from patchkit.report.bisect.junit import bisect_junit
from patchkit.report.bisect.page import bisect_html, bisect_markdown
from patchkit.report.bisect.picture import Moment, Picture
from patchkit.report.bisect.progress import BisectProgress
from patchkit.report.bisect.text import FIDELITY, event_text, log_text, result_lines

__all__ = [
    "FIDELITY",
    "BisectProgress",
    "Moment",
    "Picture",
    "Tally",
    "answer_document",
    "bisect_html",
    "bisect_junit",
    "bisect_markdown",
    "event_text",
    "log_text",
    "probe_document",
    "result_lines",
    "untold_end",
]
