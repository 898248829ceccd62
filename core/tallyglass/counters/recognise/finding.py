"""The result of usage analysis for one number: whether its values are used as ids, where, and the confidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.shapes import Match
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.mongo.gateway import Namespace
from tallyglass.text import clean_name


@dataclass(frozen=True, slots=True)
class UsageFinding:
    """The usage of one numeric path of a collection, from its updates and the inserts that followed.

    ``targets`` are the fields in which its values were found. ``by_document`` has the ``_id`` of each document whose
    ids alone are in one of them, so that its largest may be compared, with that field; ``equal`` those whose number was
    the largest id in a field while it was idle, which does not prove that the ids there are its own. ``ids_apart`` is
    how far apart the ids of one document are: in between may be those of others, as with odd and even ids.
    ``step`` is what one update adds, ``block`` how many ids one number stands for. ``text`` marks digits within a text.
    ``issues`` is how many updates were examined. ``evidence`` is a sentence, safe to show. ``others`` are the documents
    whose values were not found or that fall, ``restless`` those of which enough was seen to say that they rise and
    fall, or have fractions.
    ``is_repeated``: the target has the same name as the number, as a total has that is written into a log, or it
    descends, as what is left does.
    ``int64_ids``: the target stores ids below 2^31 as int64, so that their writer has 64 bits. ``cycling`` are the
    documents whose number was seen to start again from the same one, more than once. ``is_apart``: it is true of the
    documents in ``by_document`` alone, since the number as a whole was not found.
    """

    ns: Namespace
    path: str
    grade: Grade
    targets: tuple[IdField, ...] = ()
    semantics: Semantics = Semantics.LAST
    step: int = 1
    ids_apart: int = 1
    block: int = 1
    text: bool = False
    issues: int = 0
    evidence: str = ""
    by_document: tuple[tuple[object, IdField], ...] = ()
    equal: tuple[tuple[object, IdField], ...] = ()
    others: frozenset[str] = frozenset()
    restless: frozenset[str] = frozenset()
    int64_ids: bool = False
    is_repeated: bool = False
    cycling: frozenset[str] = frozenset()
    is_apart: bool = False

    @property
    def claims(self) -> tuple[IdField, ...]:
        """The fields whose ids it hands out; empty if its use is not likely."""
        return self.targets if self.grade in (Grade.CERTAIN, Grade.LIKELY) else ()

    def excludes(self, identity: object) -> bool:
        """Whether what was learnt of this number is not true of the document with this ``_id``."""
        is_beside = self.is_apart and all(document != identity for document, _ in self.by_document)
        return is_beside or self.contradicts(identity)

    def contradicts(self, identity: object) -> bool:
        """Whether the document with this ``_id`` was seen to use its number in another way."""
        return isinstance(identity, str) and (identity in self.others or identity in self.restless)

    def as_total(self) -> UsageFinding:
        """What is left if nothing looks up the values in the target."""
        why = "Its values are repeated in a field without an index: a total in a log."
        return replace(self, grade=Grade.POSSIBLE, targets=(), by_document=(), evidence=why)

    def conclusion(self) -> UsageFinding:
        """The facts that change how the counter is followed: without the counts in the evidence, and in one order."""
        targets, own = tuple(sorted(self.targets, key=repr)), tuple(sorted(self.by_document, key=repr))
        return replace(self, issues=0, evidence="", is_repeated=False, targets=targets, by_document=own)


DOUBTED_AFTER = 20
"""So many changes of a number without a match, or with falls, count against it."""

_MOST_REMEMBERED = 1_000
"""Documents of an earlier finding that are kept: more are the counters of tenants, of which each search finds some."""

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
    match = _by_its_value(match, finding, name)
    grade, evidence = _grade(match, finding, name)
    if finding.excludes(name):
        return replace(match, grade=grade, evidence=evidence)
    used = tuple(target for document, target in finding.by_document if document == name)
    own = {target for _, target in finding.by_document}
    if grade is Grade.CERTAIN and not used and own and own.issuperset(finding.targets):
        grade, evidence = Grade.LIKELY, f"Beside one that is in use: {evidence}"
    found = bool(finding.targets)
    seen: UsageFinding | Match = finding if found else match
    return replace(
        match,
        grade=grade,
        evidence=evidence,
        semantics=seen.semantics,
        targets=used or match.targets,
        step=seen.step,
        ids_apart=finding.ids_apart if used else match.ids_apart,
        block=seen.block,
        text=finding.text or match.text,
        int64_ids=found and finding.int64_ids,
        cycles_in_use=found and isinstance(name, str) and name in finding.cycling,
    )


def _by_its_value(match: Match, finding: UsageFinding, name: object) -> Match:
    """The match, which is no mere guess where its value is the largest id of a collection."""
    same = next((target for document, target in finding.equal if document == name), None)
    if same is None or match.grade is not Grade.POSSIBLE or finding.contradicts(name):
        return match
    evidence = f"Its value is the largest id in {clean_name(f'{same.ns}.{same.field}')}."
    return replace(match, grade=Grade.LIKELY, evidence=evidence)


def _grade(match: Match, finding: UsageFinding, name: object) -> tuple[Grade, str]:
    """How sure it is that this is a counter, and why."""
    grade, evidence = finding.grade, finding.evidence or match.evidence
    is_restless = isinstance(name, str) and name in finding.restless
    if finding.contradicts(name):
        grade, evidence = (Grade.UNLIKELY, _FALLS) if is_restless else (Grade.OPEN, _NOT_FOUND)
    elif finding.excludes(name):
        return match.grade, match.evidence
    elif finding.restless and grade is Grade.UNLIKELY:
        grade, evidence = Grade.OPEN, _NOT_FOUND
    if match.grade is not Grade.LIKELY or grade in (Grade.CERTAIN, Grade.LIKELY):
        return grade, evidence
    if grade is Grade.UNLIKELY and (is_restless or finding.issues >= DOUBTED_AFTER):
        return Grade.POSSIBLE, evidence
    return match.grade, match.evidence


def combined(known: UsageFinding | None, seen: UsageFinding) -> UsageFinding:
    """Merge a new finding with a known one. What was seen stays true: only seeing how it falls takes a grade back."""
    if known is None:
        return seen
    seen = replace(seen, equal=known.equal)
    if known.grade not in (Grade.CERTAIN, Grade.LIKELY):
        return seen
    fell = seen.grade is Grade.UNLIKELY and seen.issues >= DOUBTED_AFTER
    better = seen.grade is Grade.CERTAIN or (seen.grade is Grade.LIKELY and known.grade is not Grade.CERTAIN)
    if seen.is_apart:
        # It takes nothing from other documents.
        seen = replace(seen, is_apart=known.is_apart)
    elif known.is_apart:
        better = better or seen.grade is Grade.LIKELY
    if better and set(seen.claims) < set(known.claims):
        # Not all that use its ids did so lately.
        seen = replace(seen, targets=known.targets, by_document=known.by_document)
    elif better:
        seen = replace(seen, by_document=(*seen.by_document, *_not_seen_lately(known, seen)))
    return seen if fell else replace(seen if better else known, cycling=known.cycling | seen.cycling)


def _not_seen_lately(known: UsageFinding, seen: UsageFinding) -> Iterator[tuple[object, IdField]]:
    """The documents of a known finding that used their ids earlier, in fields where nothing was found now."""
    lately = [document for document, _ in seen.by_document]
    is_alike = bool(known.claims) and known.ids_apart == seen.ids_apart
    for document, target in known.by_document[:_MOST_REMEMBERED] if is_alike else ():
        if document not in lately and target not in seen.claims:
            yield document, target
