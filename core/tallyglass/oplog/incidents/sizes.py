"""How large the bursts of one kind usually are, in constant memory."""

from __future__ import annotations

BUCKETS = 40


class SizeHistogram:
    """Counts sizes by their number of binary digits."""

    __slots__ = ("_counts", "count")

    def __init__(self) -> None:
        self._counts: list[int] = []  # only as long as the largest size needs: there are thousands of these
        self.count = 0

    def add(self, size: int, times: int = 1) -> None:
        """Count one burst of this size."""
        bits = min(size.bit_length(), BUCKETS - 1)
        if bits >= len(self._counts):
            self._counts += [0] * (bits + 1 - len(self._counts))
        self._counts[bits] += times
        self.count += times

    def at_least(self, size: int) -> int:
        """How many sizes have as many binary digits as this one, or more."""
        return sum(self._counts[min(size.bit_length(), BUCKETS - 1) :])

    def copy(self) -> SizeHistogram:
        """Another one with the same counts."""
        twin = SizeHistogram()
        twin._counts, twin.count = list(self._counts), self.count
        return twin

    @property
    def are_alike(self) -> bool:
        """Whether most sizes, from the 10th to the 90th percentile, are within a factor of eight."""
        return self.count > 0 and self._bits_at(0.9) - self._bits_at(0.1) < 3

    def _bits_at(self, share: float) -> int:
        seen = 0
        for bits, found in enumerate(self._counts):
            seen += found
            if seen >= share * self.count:
                return bits
        return 0

    def usual(self, without: int | None = None) -> int:
        """The 90th percentile of the sizes, within a factor of two; ``without`` excludes one of that size.

        0 if fewer than four are left.
        """
        own = min(without.bit_length(), BUCKETS - 1) if without is not None else -1
        total = self.count - (own >= 0)
        if total < 4:
            return 0
        wanted, seen = 0.9 * total, 0
        for bits, found in enumerate(self._counts):
            seen += found - (bits == own)
            if seen >= wanted:
                return (1 << bits) - 1
        return 0
