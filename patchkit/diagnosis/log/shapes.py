"""What lines of tracebacks, crash dumps and vLLM's own last words look like."""

from __future__ import annotations

import re

FRAME = re.compile(r'\s*File "([^"]{1,500})", line (\d{1,9})(?:, in | in )(.{1,200})$')
START = re.compile(r"\s*(?:Exception Group )?Traceback \(most recent call last\)")
CAUSE = "The above exception was the direct cause of the following exception"
CONTEXT = "During handling of the above exception, another exception occurred"
NAME = r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*"
RAISED = re.compile(rf"({NAME}(?:\({NAME}\))?)(?:: ?(.*))?$")
TYPE = re.compile(r"(?:Error|Exception|Exit|Interrupt|Failed|Failure|Timeout|Terminated|Errors?\([\w.]+\))$")
CRASH = re.compile(r"Fatal Python error: (.*)")
THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\)")
THROWN = re.compile(r"terminate called after throwing an instance of '([^']+)'")
INNER = re.compile(r"Worker failed with error '(.*)', please check", re.DOTALL)
GROUP = re.compile(r"^(?:  )*[|+] ?-*(?: \d+ -+)?")
# What vLLM's own processes say just before the traceback that ends them; what a server says of a request that failed.
FATAL = re.compile(
    r"WorkerProc (?:hit an exception|failed)|EngineCore (?:encountered a fatal|failed to start)|RayWorkerProc failed"
    r"|AsyncLLM output_handler failed|Error in inspecting model architecture|Error executing method|^Process \S+:$"
    r"|Unhandled exception|Uncaught exception"
)
SURVIVED = re.compile(
    r"Exception in ASGI application|Error in preprocessing|Exception ignored in|exception was never retrieved"
    r"|Exception in thread|--- Logging error ---"
)
STOPPED = re.compile(r"(?:^|\.)(?:KeyboardInterrupt|SystemExit|CancelledError)$")  # somebody ended it: no failure
# Looking for something in one place, and raising a better error after: the later one tells more.
SHALLOW = re.compile(
    r"^(?:KeyError|AttributeError|IndexError|StopIteration|Empty|_queue\.Empty|FileNotFoundError|.*HTTPStatusError|.*HTTPError"
    r"|.*RepositoryNotFoundError|.*GatedRepoError|.*NewConnectionError|.*MaxRetryError|.*ConnectError|.*EntryNotFoundError"
    r"|socket\.gaierror|.*NameResolutionError|.*UnpickleableExceptionWrapper)$"
)
