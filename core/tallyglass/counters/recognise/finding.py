"""What the use of a number says about it: whether its values turn up as ids, where, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.mongo.gateway import Namespace


@dataclass(frozen=True, slots=True)
class Finding:
    """One numeric path of a collection, and what its updates and the inserts after them say.

    ``target`` is the field in which its values were found, None where they were not; ``whole_target`` whether all ids
    there are this counter's, so that its largest may be compared. ``step`` is what one update adds, ``block`` how many
    ids one number stands for. ``text`` marks digits within a text. ``issues`` is how many updates were looked at.
    ``evidence`` is a sentence, safe to show. ``by_document`` has the target of each document that has one of
    its own, by its ``_id``; ``others`` are the documents whose values were found nowhere.
    """

    ns: Namespace
    path: str
    grade: Grade
    target: IdField | None = None
    whole_target: bool = False
    semantics: Semantics = Semantics.LAST
    step: int = 1
    block: int = 1
    text: bool = False
    issues: int = 0
    evidence: str = ""
    by_document: tuple[tuple[str, IdField], ...] = ()
    others: frozenset[str] = frozenset()

    def excludes(self, identity: object) -> bool:
        """Whether the document with this ``_id`` is one whose values were found nowhere."""
        return isinstance(identity, str) and identity in self.others

    def says(self) -> tuple[object, ...]:
        """All that matters to how a counter is followed: not the numbers of the evidence."""
        return (
            self.grade, self.target, self.whole_target, self.semantics, self.step, self.block, self.text,
            self.by_document, self.others,
        )  # fmt: skip


_DOUBTED_AFTER = 20


def combined(known: Finding | None, seen: Finding) -> Finding:
    """What is known and what was seen now: a grade rises at once, and falls only after 20 issues without a match."""
    if known is None or known.grade not in (Grade.CERTAIN, Grade.LIKELY):
        return seen
    better = seen.grade is Grade.CERTAIN or (seen.grade is Grade.LIKELY and known.grade is Grade.LIKELY)
    return seen if better or (seen.issues >= _DOUBTED_AFTER and seen.grade is not Grade.LIKELY) else known
