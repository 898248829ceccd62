"""What the numbers of a collection's documents are: by rules, by shape, by name, and by how they are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from sys import intern

from tallyglass.counters.ceiling import near_limit
from tallyglass.counters.numbers import numeric_type, padded_digits, read_number, whole
from tallyglass.counters.recognise.config import IdField, Rule
from tallyglass.counters.recognise.finding import UsageFinding, graded
from tallyglass.counters.recognise.guess import Signature, guess, signature_of
from tallyglass.counters.recognise.identity import Identity, apply_rule, counter_key, id_text, label_of
from tallyglass.counters.recognise.libraries import recognise, recognise_unnamed
from tallyglass.counters.recognise.shapes import (
    SPECIFIC_BOUNDS,
    STEP_FIELDS,
    Match,
    Shape,
    ValueKind,
    beside,
    bounded,
    dig,
    expand,
)
from tallyglass.counters.recognise.targets import none as no_targets
from tallyglass.counters.recognise.validator import largest_valid
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.mongo.gateway import Document, Namespace
from tallyglass.text import clean_name

_MOST_SIGNATURES = 256
"""Signatures whose matches are kept: documents of a collection have few, those that are not kept are matched again."""

_of_any = partial(Shape, collections=(), keys={"_id": ValueKind.ANY}, spare_keys=True)
"""The shape of a counter that its document does not tell."""


@dataclass(slots=True)
class Recogniser:
    """Recognises the counters in the documents of one collection.

    ``ns_text`` is the namespace, safe to show. ``findings`` holds the results of usage analysis, ``matched`` the
    numbers of the rules that match a counter here, ``shapes`` the names of the libraries whose counters were seen.
    ``options`` are those of the collection, as listCollections returns them.
    """

    ns: Namespace
    rules: tuple[Rule, ...] = ()
    findings: dict[str, UsageFinding] = field(default_factory=dict)
    matched: set[int] = field(default_factory=set)
    shapes: set[str] = field(default_factory=set)
    options: Document = field(default_factory=dict)
    ns_text: str = field(init=False)
    _signatures: dict[Signature, tuple[Match, ...]] = field(default_factory=dict)
    _has_forms: bool = field(init=False)

    def __post_init__(self) -> None:
        self.ns_text = intern(clean_name(str(self.ns)))
        self._has_forms = not any("*" in rule.field for rule in self.rules)

    def learn(self, findings: Mapping[str, UsageFinding]) -> bool:
        """Apply new results of usage analysis; whether they differ, so that documents are to be recognised again."""
        before, self.findings = self.findings, dict(findings)
        return any(
            path not in before or before[path].conclusion() != found.conclusion()
            for path, found in findings.items()
            if before.get(path) is not found
        )

    def form_of(self, row: Document) -> int | None:
        """A hash of the fields of a document and their types; None if a rule also looks at any element below them."""
        return hash(signature_of(row)) if self._has_forms else None

    def is_text(self, path: str) -> bool:
        """Whether the number at a path was seen in use as text."""
        finding = self.findings.get(path)
        return finding is not None and finding.text

    def is_ruled(self, row: Document) -> bool:
        """Whether a rule names this very document."""
        return bool(self.rules) and any(rule.id is not None and rule.wants(row.get("_id")) for rule in self.rules)

    def matches(self, row: Document) -> tuple[Match, ...]:
        """The numbers of a document that are counters."""
        name = self.ns.collection
        matches = self._configured(row) if self.rules else ()
        if matches:
            return matches
        signature = signature_of(row)
        known = self._signatures.get(signature)
        if known is None:
            known = tuple(recognise(name, row))
            self.shapes.update(match.shape.name for match in known if match.confidence == 1)
            # Nested values may differ between documents of one signature.
            if len(self._signatures) < _MOST_SIGNATURES and not any(
                isinstance(value, (Mapping, list)) for value in row.values()
            ):
                self._signatures[signature] = known
        matches = known or guess(name, row, signature)
        return self._with_findings(row, matches) if self.findings else matches

    def unnamed(self, row: Document) -> tuple[Match, ...]:
        """The number of a document that :meth:`matches` nothing in, if it has a shape but for its ``_id``."""
        match = recognise_unnamed(self.ns.collection, row)
        if match is None:
            return ()
        return self._with_findings(row, (match,)) if self.findings else (match,)

    def is_near_limit(self, row: Document, match: Match) -> bool:
        """Whether the number has used all but 1 % of a numeric limit, or of the bound in its document."""
        read = read_number(dig(row, match.path))
        return read is not None and near_limit(read[0], bound=bound_of(row, match), block=match.block) is not None

    def _configured(self, row: Document) -> tuple[Match, ...]:
        """The numbers that rules name in a document, each path once, by its first rule."""
        matches: dict[str, Match] = {}
        for rule in self.rules:
            if not rule.wants(row.get("_id")):
                continue
            if rule.field:
                for path in expand(row, rule.field):
                    raw = dig(row, path)
                    if read_number(raw, text=True) is not None:
                        self.matched.add(rule.number)
                        shape = _of_any("configured", "as configured", number=path)
                        text = numeric_type(raw) is None
                        matches.setdefault(path, Match(shape, path, 1.0, text=text, rule_number=rule.number))
            elif rule.hide:
                self.matched.add(rule.number)
        if len(matches) == 1:
            # A bound belongs to the only number of its document.
            return tuple(bounded(match, row) for match in matches.values())
        return tuple(matches.values())

    def _with_findings(self, row: Document, matches: tuple[Match, ...]) -> tuple[Match, ...]:
        """The matches with the results of usage analysis, and those found by usage only."""
        name = row.get("_id")
        kept = [graded(match, self.findings.get(match.path), name) for match in matches]
        named = {match.path for match in matches}
        for path, finding in self.findings.items():
            if path in named or finding.excludes(name) or finding.grade not in (Grade.CERTAIN, Grade.LIKELY):
                continue
            if read_number(dig(row, path), text=finding.text) is not None:
                shape = _of_any("used", "by its use", number=path, semantics=finding.semantics)
                kept.append(graded(bounded(Match(shape, path, 1.0), row, specific=True), finding, name))
        return tuple(kept)

    def identify(self, row: Document, match: Match, matches: tuple[Match, ...]) -> Identity | None:
        """The identity of one of the ``matches`` in a document; None if a rule hides it."""
        ns, shape = self.ns, match.shape
        targets = match.targets or tuple(IdField(Namespace(ns.db, name), path) for name, path in shape.target(row))
        step = _step(row, match)
        bound = bound_of(row, match)
        start = whole(dig(row, match.start_key)) if match.start_key else None
        bound_key = match.bound_key
        if step < 0:
            bound, start, bound_key = start, bound, match.start_key
        identity = Identity(
            key=counter_key(self.ns_text, row.get("_id"), match.path),
            ns=ns,
            ns_text=self.ns_text,
            doc_id=row.get("_id"),
            id=label(match, row),
            path=match.path,
            field=intern(clean_name(match.path)),
            shape=shape.name,
            library=shape.library,
            semantics=match.semantics or shape.semantics,
            bound=bound,
            bound_name=clean_name(bound_key) if bound_key else "MAX_VALUE",
            start=start or 0,
            consumers=shape.consumers,
            digits=padded_digits(dig(row, match.path)) if match.text else None,
            confidence=match.confidence,
            targets=targets,
            uses_all_targets=bool(match.targets),
            step=step or match.step,
            is_step_known=step != 0,
            ids_apart=match.ids_apart,
            block=match.block,
            text=match.text,
            int64_ids=match.int64_ids,
            cycle=match.cycle,
            cycles_in_use=match.cycles_in_use,
            grade=match.grade,
            evidence=match.evidence,
        )
        valid = largest_valid(self.options, match.path) if step >= 0 and self.options else None
        if valid is not None and (bound is None or valid <= bound):
            ahead = 1 if identity.semantics is Semantics.NEXT else 0
            identity = replace(identity, bound=valid - ahead, bound_name="its validator")
        if len(matches) > 1 and identity.id == id_text(row.get("_id")):
            identity = replace(identity, id=f"{identity.id}.{identity.field}")
        return self._ruled(identity, match)

    def _ruled(self, identity: Identity, match: Match) -> Identity | None:
        """The identity with the settings of the first rule on its document that names the path of the match, or no
        path; None if that hides it."""
        for rule in self.rules:
            on_path = rule.number == match.rule_number if match.rule_number else not rule.field
            if on_path and rule.wants(identity.doc_id):
                self.matched.add(rule.number)
                return None if rule.hide else apply_rule(identity, rule)
        return identity

    def identify_group(self, match: Match, row: Document) -> Identity | None:
        """The identity of many documents like this one; None if a rule hides it."""
        identity = self.identify(row, match, (match,))
        if identity is None:
            return None
        key = f"{clean_name(str(self.ns), 260)}/*/{clean_name(match.path, 120)}"
        return replace(identity, key=key, doc_id=None, id="*", targets=())

    def identify_pool(self, group: tuple[str, str], match: Match) -> Identity | None:
        """The identity of documents that share one id space, by their path and bound; None if a rule hides it."""
        identity = Identity(
            key=f"{clean_name(str(self.ns), 260)}/*/{clean_name(group[0], 120)}",
            ns=self.ns,
            ns_text=self.ns_text,
            doc_id=None,
            id="pool",
            path=group[0],
            field=clean_name(group[0]),
            shape=match.shape.name,
            library=match.shape.library,
            semantics=match.shape.semantics,
            bound_name=clean_name(group[1]),
            confidence=match.confidence,
            # Documents that divide one id space without a gap are counters.
            grade=Grade.LIKELY,
            evidence="Its documents divide one id space.",
        )
        return self._ruled(identity, match)


def label(match: Match, row: Document) -> str:
    """What a person calls the counter of a document."""
    return label_of(match.shape, match.path, row)


def may_have_target(match: Match) -> bool:
    """Whether the counter may be compared with the largest id of a collection: never so for a member of a group."""
    return bool(match.targets) or match.shape.target is not no_targets


def _step(row: Document, match: Match) -> int:
    """What is added for each id, if the document says so next to the number; else 0."""
    siblings = beside(row, match.path)
    return next((step for key in STEP_FIELDS if (step := whole(siblings.get(key)))), 0)


def bound_of(row: Document, match: Match) -> int | None:
    """The last id by the document. A ``limit`` next to a configured number that is beyond it already is another's."""
    bound = whole(dig(row, match.bound_key)) if match.bound_key else None
    specific = match.bound_key.rpartition(".")[2] in SPECIFIC_BOUNDS
    read = read_number(dig(row, match.path), text=match.text)
    if bound is not None and match.rule_number and not specific and (read is None or read[0] > bound):
        return None
    return bound
