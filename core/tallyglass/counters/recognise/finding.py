"""The result of usage analysis for one number: whether its values are used as ids, where, and the confidence."""

from __future__ import annotations

from dataclasses import dataclass

from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.mongo.gateway import Namespace


@dataclass(frozen=True, slots=True)
class UsageFinding:
    """The usage of one numeric path of a collection, from its updates and the inserts that followed.

    ``target`` is the field in which its values were found, None if not found; ``whole_target`` whether all ids
    there are this counter's, so that its largest may be compared. ``step`` is what one update adds, ``block`` how many
    ids one number stands for. ``text`` marks digits within a text. ``issues`` is how many updates were examined.
    ``evidence`` is a sentence, safe to show. ``by_document`` maps the ``_id`` of documents with separate targets to
    those targets; ``others`` are the documents whose values were not found. ``int64_ids``: the target stores ids
    below 2^31 as int64, so that their writer has 64 bits.
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
    by_document: tuple[tuple[object, IdField], ...] = ()
    others: frozenset[str] = frozenset()
    int64_ids: bool = False

    def excludes(self, identity: object) -> bool:
        """Whether the values of the document with this ``_id`` were not found in any insert."""
        return isinstance(identity, str) and identity in self.others

    def conclusion(self) -> tuple[object, ...]:
        """The facts that change how the counter is followed; excludes the counts in the evidence."""
        return (
            self.grade, self.target, self.whole_target, self.semantics, self.step, self.block, self.text,
            self.by_document, self.others, self.int64_ids,
        )  # fmt: skip


_DOUBTED_AFTER = 20


def combined(known: UsageFinding | None, seen: UsageFinding) -> UsageFinding:
    """Merge a new finding with a known one: a grade rises at once, and falls only after 20 issues without a match."""
    if known is not None and known.by_document and seen.grade is Grade.POSSIBLE:
        return known
    if known is None or known.grade not in (Grade.CERTAIN, Grade.LIKELY):
        return seen
    better = seen.grade is Grade.CERTAIN or (seen.grade is Grade.LIKELY and known.grade is Grade.LIKELY)
    return seen if better or (seen.issues >= _DOUBTED_AFTER and seen.grade is not Grade.LIKELY) else known
