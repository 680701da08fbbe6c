"""The server's state: the run that is asked, who asks it, and what is computed besides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

from torch import Tensor

from tribayes.serve import asking, curve
from tribayes.serve.asking import Answer, Options, Question
from tribayes.serve.batching import Batcher, Busy
from tribayes.serve.gallery import Gallery
from tribayes.serve.images import Pixels, image_of_file, image_of_numbers
from tribayes.serve.limits import Limits
from tribayes.serve.monitoring import LOGGER, Metrics
from tribayes.serve.refused import Refused
from tribayes.serve.row_answers import RowAnswer, ValueAnswer, row_answer
from tribayes.serve.row_gallery import RowGallery
from tribayes.serve.subject import Subject
from tribayes.serve.table import Row, TableSubject

_BUSY = "too many questions wait; ask again in a second."
_FAILED = "the networks could not be drawn; the server's log says why."


class Service:
    """Answers what `app` was asked. Networks are drawn after the start, so that /healthz is there at once."""

    def __init__(self, subject: Subject | TableSubject, limits: Limits) -> None:
        self.subject, self.limits, self.metrics = subject, limits, Metrics()
        self.gallery = RowGallery(subject) if isinstance(subject, TableSubject) else Gallery(subject)
        self.batcher = Batcher(subject.ask, limits.together, limits.waiting)
        self.trouble: str | None = "the networks are being drawn; ask again in a second."  # why it is not ready
        self._fitting = 0
        # a thread each: Pillow's warnings are noted for the whole process, one fit shall not wait for the gallery
        self._threads = {name: ThreadPoolExecutor(1, name) for name in ("reading", "fitting", "looking")}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """From the start of the server to its end."""
        tasks = [asyncio.create_task(self.batcher.run()), asyncio.create_task(self._prepare())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task
            self.batcher.close()
            for thread in self._threads.values():
                thread.shutdown(wait=False, cancel_futures=True)

    async def _prepare(self) -> None:
        """Draw the networks, then ask them about the test images."""
        try:
            await self._in_thread("looking", self.subject.draw)
            self.trouble = None
            LOGGER.info("ready")
            while not self.gallery.ready:
                await self._in_thread("looking", self.gallery.look)
        except Exception:  # a task of its own, which nobody awaits: /readyz and every answer say it instead
            self.trouble = _FAILED
            LOGGER.exception("not ready")

    def check_ready(self) -> None:
        """Refuse, where there is nobody to ask yet."""
        if self.trouble is not None:
            raise Refused(503, self.trouble)

    async def answer(self, sent: bytes | Pixels, options: Options) -> Answer:
        """What the networks say of an image file or of pixels."""
        subject = self.subject
        if isinstance(subject, TableSubject):
            raise Refused(404, "this run is of a table; send a row to /api/row.")
        self._check(options)
        async with self._in_time():
            if isinstance(sent, bytes):
                image, changes = await self._in_thread("reading", image_of_file, sent, subject, options)
            else:
                image, changes = image_of_numbers(sent, subject, options)
            said: Tensor = await self.batcher.ask(options.network, image)
        return asking.answer(said, options, subject.classes, image, changes, subject.seed)

    async def answer_row(self, sent: Row, asked: Question) -> RowAnswer | ValueAnswer:
        """What the networks say of a row of the run's table."""
        subject = self.subject
        if not isinstance(subject, TableSubject):
            raise Refused(404, "this run is of images; send one to /api/predict.")
        self._check(asked)
        async with self._in_time():
            inputs, remark = await self._in_thread("reading", subject.encoded, sent)
            said: Tensor = await self.batcher.ask(asked.network, inputs)
        return row_answer(said, asked, subject, remark)

    def _check(self, asked: Question) -> None:
        """Refuse what this run cannot be asked."""
        self.check_ready()
        subject = self.subject
        if asked.samples is not None and asked.samples > subject.samples:
            words = f"`samples` (={asked.samples}) must be at most {subject.samples}; serve more with --samples."
            raise Refused(422, words)
        if asked.network not in subject.networks:
            words = f"`network` (={asked.network!r}) must be one of {', '.join(subject.networks)}; choose one."
            raise Refused(422, words)

    async def fit(self, points: curve.Points) -> curve.Band:
        """A regression, fitted now."""
        if self._fitting >= self.limits.fits:
            raise Refused(429, _BUSY)
        self._fitting += 1
        try:
            async with self._in_time():
                deadline = monotonic() + self.limits.seconds
                band: curve.Band = await self._in_thread("fitting", curve.fitted, points, deadline)
                return band
        finally:
            self._fitting -= 1

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self.limits.seconds):
                yield
        except Busy as error:
            raise Refused(429, _BUSY) from error
        except (TimeoutError, curve.OutOfTime) as error:
            words = f"no answer within {self.limits.seconds:g} seconds; ask for less, or again when fewer ask."
            raise Refused(504, words) from error

    async def _in_thread(self, name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads[name], work, *arguments)

    def gauges(self) -> dict[str, float]:
        """Numbers of this moment, for Prometheus."""
        return {
            "tribayes_ready": float(self.trouble is None),
            "tribayes_questions_waiting": self.batcher.waiting,
            "tribayes_questions_answered": self.batcher.asked,
            "tribayes_batches": self.batcher.batches,
        }
