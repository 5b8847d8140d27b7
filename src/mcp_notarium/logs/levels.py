"""The levels by number and by every name they may be configured with. No stdlib logging needed."""

from __future__ import annotations

TRACE = 5
DEBUG = 10
INFO = 20
WARNING = 30
ERROR = 40
CRITICAL = 50

LEVELS = {
    "trace": TRACE,
    "debug": DEBUG,
    "info": INFO,
    "warn": WARNING,
    "warning": WARNING,
    "error": ERROR,
    "fatal": CRITICAL,
    "critical": CRITICAL,
}

NAMES = {
    TRACE: "trace",
    DEBUG: "debug",
    INFO: "info",
    WARNING: "warning",
    ERROR: "error",
    CRITICAL: "critical",
}
