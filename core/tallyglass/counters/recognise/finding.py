"""The result of usage analysis for one number: whether its values are used as ids, where, and the confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.shapes import Match
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.mongo.gateway import Namespace
from tallyglass.text import clean_name


@dataclass(frozen=True, slots=True)
class UsageFinding:
    """The usage of one numeric path of a collection, from its updates and the inserts that followed.

    ``target`` is the field in which its values were found, None if not found; ``whole_target`` whether all ids
    there are this counter's, so that its largest may be compared. ``step`` is what one update adds, ``block`` how many
    ids one number stands for. ``text`` marks digits within a text. ``issues`` is how many updates were examined.
    ``evidence`` is a sentence, safe to show. ``by_document`` has the ``_id`` of documents with separate targets, with
    each of those; ``others`` are the documents whose values were not found or that fall, ``restless``
    those of which enough was seen to say that they rise and fall, or have fractions.
    ``is_repeated``: the target has the same name as the number, as a total has that is written into a log, or it
    descends, as what is left does.
    ``int64_ids``: the target stores ids below 2^31 as int64, so that their writer has 64 bits. ``cycling`` are the
    documents whose number was seen to start again from the same one, more than once.
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
    restless: frozenset[str] = frozenset()
    int64_ids: bool = False
    is_repeated: bool = False
    cycling: frozenset[str] = frozenset()

    @property
    def claims(self) -> tuple[IdField, ...]:
        """The fields whose ids it hands out; empty if its use is not likely."""
        if self.grade not in (Grade.CERTAIN, Grade.LIKELY):
            return ()
        return (*((self.target,) if self.target else ()), *(target for _, target in self.by_document))

    def excludes(self, identity: object) -> bool:
        """Whether what was learnt of this number is not true of the document with this ``_id``."""
        return isinstance(identity, str) and (identity in self.others or identity in self.restless)

    def as_total(self) -> UsageFinding:
        """What is left if nothing looks up the values in the target."""
        why = "Its values are repeated in a field without an index: a total in a log."
        return replace(self, grade=Grade.POSSIBLE, target=None, whole_target=False, by_document=(), evidence=why)

    def conclusion(self) -> UsageFinding:
        """The facts that change how the counter is followed; excludes the counts in the evidence."""
        return replace(self, issues=0, evidence="", is_repeated=False)


DOUBTED_AFTER = 20
"""So many changes of a number without a match, or with falls, count against it."""

_FALLS = "It rises and falls, or has fractions."
_NOT_FOUND = "Its values were not found in documents inserted shortly afterwards."


def graded(match: Match, finding: UsageFinding | None, name: object) -> Match:
    """The match with the result of usage analysis; ``name`` is the ``_id`` of its document.

    Use adds to what is known. Its absence takes nothing away from a number that is configured or that has the shape of
    a known library: ids may be used elsewhere, later, or in another form. Only a number that moves unlike a counter
    becomes a guess.
    """
    if finding is None or match.rule_number:
        return match
    grade, evidence = _grade(match, finding, name)
    if finding.excludes(name):
        return replace(match, grade=grade, evidence=evidence)
    used = [target for document, target in finding.by_document if document == name]
    if used and grade is Grade.POSSIBLE:
        # Equal values do not prove that the ids there are this counter's: it is not compared with them later.
        evidence = f"Its value is the largest id in {clean_name(f'{used[0].ns}.{used[0].field}')}."
        return replace(match, grade=Grade.LIKELY, evidence=evidence)
    found = finding.target is not None or bool(used)
    return replace(
        match,
        grade=grade,
        evidence=evidence,
        semantics=finding.semantics if found else match.semantics,
        targets=_own_targets(finding, used, name) or match.targets,
        step=finding.step if found else match.step,
        block=finding.block if found else match.block,
        text=finding.text or match.text,
        int64_ids=found and finding.int64_ids,
        cycles_in_use=found and isinstance(name, str) and name in finding.cycling,
    )


def _own_targets(finding: UsageFinding, used: Sequence[IdField], name: object) -> tuple[IdField, ...]:
    """The fields whose largest id is this document's, of those in which its ids are ``used``."""
    # That of a field with ids of other documents, too, such as those of each tenant, may be another's.
    own = tuple(one for one in used if all(user == name for user, target in finding.by_document if target == one))
    return own or ((finding.target,) if finding.target and finding.whole_target else ())


def _grade(match: Match, finding: UsageFinding, name: object) -> tuple[Grade, str]:
    """How sure it is that this is a counter, and why."""
    grade, evidence = finding.grade, finding.evidence or match.evidence
    if finding.excludes(name):
        grade, evidence = (Grade.UNLIKELY, _FALLS) if name in finding.restless else (Grade.OPEN, _NOT_FOUND)
    elif finding.restless and grade is Grade.UNLIKELY:
        grade, evidence = Grade.OPEN, _NOT_FOUND
    if match.grade is not Grade.LIKELY or grade in (Grade.CERTAIN, Grade.LIKELY):
        return grade, evidence
    if grade is Grade.UNLIKELY and finding.issues >= DOUBTED_AFTER:
        return Grade.POSSIBLE, evidence
    return match.grade, match.evidence


def combined(known: UsageFinding | None, seen: UsageFinding) -> UsageFinding:
    """Merge a new finding with a known one. What was seen stays true: only seeing how it falls takes a grade back."""
    proven = known is not None and (known.grade in (Grade.CERTAIN, Grade.LIKELY) or bool(known.by_document))
    if known is None or not proven:
        return seen
    fell = seen.grade is Grade.UNLIKELY and seen.issues >= DOUBTED_AFTER
    better = seen.grade is Grade.CERTAIN or (seen.grade is Grade.LIKELY and known.grade is not Grade.CERTAIN)
    if better and set(seen.claims) < set(known.claims):
        # Not all that use its ids did so lately.
        seen = replace(seen, target=known.target, whole_target=known.whole_target, by_document=known.by_document)
    return seen if fell else replace(seen if better else known, cycling=known.cycling | seen.cycling)
