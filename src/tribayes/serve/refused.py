"""The one way in which the server says no."""

from __future__ import annotations


class Refused(Exception):
    """A request that is not answered: the status it gets, and why, in words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words
