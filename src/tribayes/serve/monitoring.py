"""What is written down of the server's work: lines of JSON, and numbers for Prometheus; never what people ask about."""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from datetime import UTC, datetime

LOGGER = logging.getLogger("tribayes.serve")

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds: Prometheus' own


_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # HTTP takes any word for one


class _Lines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "facts", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_as_json() -> None:
    """Send what this server, uvicorn and its event loop say to standard error, as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    for name in (LOGGER.name, "uvicorn", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if logger is LOGGER else logging.WARNING)


class Metrics:
    """Counts and times of requests, in Prometheus' text format."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: Counter[float] = Counter()
        self._sum, self._count = 0.0, 0

    def note(self, method: str, path: str, status: int, seconds: float) -> None:
        """One request was answered. `path` is the route's: neither strangers' addresses nor methods make new lines."""
        self._requests[method if method in _METHODS else "other", path, status] += 1
        self._seconds.update(bound for bound in _BOUNDS if seconds <= bound)
        self._sum, self._count = self._sum + seconds, self._count + 1

    def text(self, gauges: dict[str, float]) -> str:
        """Everything, with some numbers of this moment.

        >>> metrics = Metrics()
        >>> metrics.note("GET", "/", 200, 0.003)
        >>> print(metrics.text({"tribayes_ready": 1}))
        # TYPE tribayes_requests_total counter
        tribayes_requests_total{method="GET",path="/",status="200"} 1
        # TYPE tribayes_request_seconds histogram
        tribayes_request_seconds_bucket{le="0.005"} 1
        ...
        # TYPE tribayes_ready gauge
        tribayes_ready 1
        """
        lines = ["# TYPE tribayes_requests_total counter"]
        for (method, path, status), count in sorted(self._requests.items()):
            lines.append(f'tribayes_requests_total{{method="{method}",path="{path}",status="{status}"}} {count}')
        lines.append("# TYPE tribayes_request_seconds histogram")
        lines += [f'tribayes_request_seconds_bucket{{le="{bound}"}} {self._seconds[bound]}' for bound in _BOUNDS]
        lines.append(f'tribayes_request_seconds_bucket{{le="+Inf"}} {self._count}')
        lines += [f"tribayes_request_seconds_sum {self._sum:.6f}", f"tribayes_request_seconds_count {self._count}"]
        for name, value in gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines)
