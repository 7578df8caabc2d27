"""What a bisect tells: documents for programs, lines for people."""

from patchkit.report.bisect.document import Tally, answer_document, probe_document
from patchkit.report.bisect.progress import BisectProgress
from patchkit.report.bisect.text import FIDELITY, event_text, log_text

__all__ = ["FIDELITY", "BisectProgress", "Tally", "answer_document", "event_text", "log_text", "probe_document"]
