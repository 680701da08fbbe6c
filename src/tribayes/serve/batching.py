"""Questions that arrive together are asked together: one pass of all networks for several visitors."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

Ask = Callable[[str, Tensor], Tensor]  # network, images (N, …) → (S, N, classes)


class Busy(Exception):
    """As many questions wait as may."""


@dataclass(eq=False)
class _Question:
    network: str
    image: Tensor
    answer: asyncio.Future[Tensor]


class Batcher:
    """Asks, in a thread of its own, about up to `together` images at once; at most `waiting` more may wait.

    Who comes alone waits for nobody: a batch is what has arrived while the one before was computed. An answer does
    not depend on who asked beside, but for rounding. `run` is the task that does it; `close` ends it.
    """

    def __init__(self, ask: Ask, together: int = 16, waiting: int = 64) -> None:
        self._ask, self._together, self._most = ask, together, waiting
        self._questions: deque[_Question] = deque()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "asking")
        self.batches = self.asked = 0  # so far

    @property
    def waiting(self) -> int:
        """How many questions nobody has begun with."""
        return len(self._questions)

    async def ask(self, network: str, image: Tensor) -> Tensor:
        """(S, classes): what the networks say of one image."""
        if len(self._questions) >= self._most:
            raise Busy
        question = _Question(network, image, asyncio.get_running_loop().create_future())
        self._questions.append(question)
        self._arrived.set()
        return await question.answer

    async def run(self) -> None:
        """Answer, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            batch = self._next()
            if not batch:
                self._arrived.clear()
                continue
            images = torch.stack([question.image for question in batch])
            try:
                said = await loop.run_in_executor(self._thread, self._ask, batch[0].network, images)
            except Exception as error:  # whatever it was, those who asked have to hear of it
                for question in batch:
                    if not question.answer.done():
                        question.answer.set_exception(error)
                continue
            self.batches, self.asked = self.batches + 1, self.asked + len(batch)
            for number, question in enumerate(batch):
                if not question.answer.done():  # else who asked has gone
                    question.answer.set_result(said[:, number])

    def close(self) -> None:
        """Let go of the thread; who still waits is told that nobody will answer."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        for question in self._questions:
            question.answer.cancel()

    def _next(self) -> list[_Question]:
        """The first question and those after it for the same network; others keep their places."""
        while self._questions and self._questions[0].answer.done():  # who asked has gone
            self._questions.popleft()
        batch: list[_Question] = []
        if self._questions:
            network = self._questions[0].network
            chosen = [each for each in self._questions if each.network == network and not each.answer.done()]
            batch = chosen[: self._together]
            for question in batch:
                self._questions.remove(question)
        return batch
