"""Find the first bad commit: run what the search decides through the pipeline, and keep every finished probe."""

from patchkit.workflows.bisect.request import BisectRequest, Tell
from patchkit.workflows.bisect.run import Record, bisect, read_records
from patchkit.workflows.bisect.subject import choose_issue

__all__ = ["BisectRequest", "Record", "Tell", "bisect", "choose_issue", "read_records"]
