"""Reports: nothing in them is read as markup, and no value of a document is in them unless it was asked for."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.errors import InputError
from tallyglass.evidence.statement import without_values
from tallyglass.moment import Ts
from tallyglass.oplog.incidents.report import NEAR, document_of
from tallyglass.oplog.snapshot import Authorship, Candidate, Certainty, Harm, Incident
from tallyglass.report.document import Bar, Code, Document, Facts, Paragraph, Section, Table, TimeLine
from tallyglass.report.html import to_html
from tallyglass.report.markdown import to_markdown
from tallyglass.report.write import check_report, write_report
from tallyglass.restore.plan.report import plan_sections

HOSTILE = "<script>alert(1)</script> | `x` *y* [z](http://e.example) &amp; \"'"
MADE = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)


class Read(HTMLParser):
    """The elements and the text of a page, and whether each element is closed in its order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        self.tags.add(tag)
        if tag not in ("meta", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "rect":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def incident(number: int, seconds: int = 0) -> Incident:
    at = MADE - timedelta(hours=1) + timedelta(seconds=seconds)
    who = Candidate(
        "alice@admin", "nightly", ("10.0.4.7",), "PyMongo 4.20", "conn 7", 200,
        "deleteMany({email: 'bob@example.org', n: {$in: [41, 42]}})", 1, "COLLSCAN", at, at,
        ("17:00:01 shop.carts 3 times, deleteMany({owner: 'carol'}): 20 documents",),
    )  # fmt: skip
    return Incident(
        number, "deleteMany", f"deleteMany on shop.o{number}", "shop.orders", Harm.LOSS,
        Ts(int(at.timestamp()), 1), Ts(int(at.timestamp()), 200), at, at, 200, 200, ('"secret-id"',), op="d",
        evidence=Authorship(Certainty.UNIQUE, (who,), "log", "No other statement fits."),
    )  # fmt: skip


@pytest.mark.parametrize("render", [to_html, to_markdown])
def test_a_report_holds_what_is_known_and_hides_values(render) -> None:  # type: ignore[no-untyped-def]
    others = [incident(n, 60 * n) for n in range(1, 30)]
    deployment = Deployment(Kind.REPLICA_SET, "6.0.5", "rs0")
    told = {values: render(document_of(others[4], others, deployment, MADE, values=values)) for values in (False, True)}
    for words in ("alice@admin", "nightly", "10.0.4.7", "unique", "COLLSCAN", "2026-11-20T17:05:00Z", "6.0.5", "rs0"):
        assert words in told[False], words
    for value in ("bob@", "41", "carol", "secret-id"):
        assert value not in told[False].replace(str(others[4].first), ""), value
        assert value in told[True], value
    shown = [n for n in range(1, 30) if f"shop.o{n}<" in told[True] or f"shop.o{n} |" in told[True]]
    assert len(shown) == NEAR + 1
    assert 5 in shown


def test_hostile_text_is_text() -> None:
    blocks = [Paragraph(HOSTILE, True), Facts([(HOSTILE, HOSTILE)]), Table([HOSTILE], [[HOSTILE]]), Code([HOSTILE])]
    document = Document(HOSTILE, blocks, [Section(HOSTILE, blocks)], HOSTILE)
    page = Read(to_html(document))
    assert page.open == []
    assert "script" not in page.tags
    assert "a" not in page.tags
    assert sum(HOSTILE in text for text in page.text) >= 12
    rows = [line for line in to_markdown(document).splitlines() if line.startswith("|")]
    assert all("<" not in row for row in rows)
    assert {row.replace("\\|", "").count("|") for row in rows} == {2, 3}


def test_a_time_in_the_title_or_in_a_table_is_not_broken() -> None:
    page = to_html(Document("drop a<b, 2026-11-20T18:06:14.187Z", [], [], ""))
    assert "<h1>drop a&lt;b, <time>2026-11-20T18:06:14.187Z</time></h1>" in page
    table = Document("A", [Table(("from",), [("2026-11-20T18:06:14Z to",)])], [], "")
    assert '<td data-head="from"><time>2026-11-20T18:06:14Z</time> to</td>' in to_html(table)


def test_each_block_as_html() -> None:
    table = Table(("what", "n"), [("a", "1"), ("b", "22")], right=frozenset({1}))
    facts = Facts([("who", "ann"), ("from", "")])
    document = Document(
        "T", [Paragraph("p"), Paragraph("s", True), facts], [Section("S", [table, Code(["x", "y"])])], "m"
    )
    _, _, body = to_html(document).partition("<main>\n")
    assert body == (
        "<h1>T</h1>\n<p>p</p>\n<p><strong>s</strong></p>\n<dl>\n<dt>who</dt><dd>ann</dd>\n</dl>\n<section>\n<h2>S</h2>\n"
        '<div class="wide"><table><thead>\n'
        '<tr><th data-head="what">what</th><th data-head="n" class="right">n</th></tr>\n'
        '</thead><tbody>\n<tr><td data-head="what">a</td><td data-head="n" class="right">1</td></tr>\n'
        '<tr><td data-head="what">b</td><td data-head="n" class="right">22</td></tr>\n</tbody></table></div>\n'
        "<pre>x\ny</pre>\n</section>\n<footer>m</footer>\n</main>\n</body>\n</html>\n"
    )


def test_bars_lie_on_the_axis_where_they_were_and_can_all_be_seen() -> None:
    first, last = MADE, MADE + timedelta(seconds=100)
    bars = [Bar("all", first, last), Bar("<half>", first + timedelta(seconds=50), last, True), Bar("end", last, last)]
    for shown, places in ((bars, [(0, 1000), (500, 500), (994, 6)]), (bars[2:], [(0, 6)]), ([], [])):
        page = to_html(Document("T", [TimeLine(shown)], [], ""))
        found = re.findall(r'<rect x="(\d+)" y="1" width="(\d+)" height="12"/>', page)
        assert [(int(x), int(width)) for x, width in found] == places
        assert page.count('class="axis"') == bool(shown)
    assert (
        '<div class="bar chosen"><span><time>2026-11-20T18:00:50Z</time> &lt;half&gt;</span><svg viewBox="0 0 1000 14" '
        'preserveAspectRatio="none" role="img" aria-label="2026-11-20T18:00:50Z to 2026-11-20T18:01:40Z">'
    ) in to_html(Document("T", [TimeLine(bars)], [], ""))
    ends = '<span class="axis"><span>2026-11-20T18:00:00Z</span><span>2026-11-20T18:01:40Z</span></span>'
    assert f'<div class="bar"><span></span>{ends}</div>\n<footer>' in to_html(Document("T", [TimeLine(bars)], [], ""))


@pytest.mark.parametrize(("text", "shown"), [
    ("deleteMany({s: 'new', n: {$gt: -2.5}, 'a b': null})", "deleteMany({s: ?, n: {$gt: ?}, 'a b': ?})"),
    ("deleteMany({q: 'it\\'s): shown?'}): 5 documents", "deleteMany({q: ?}): 5 documents"),
    ("deleteMany({q: 'cut) secret", "deleteMany({q: ?"),
    ("deleteMany({a: {…}, i: UUID('64')}) (cut by the server)", "deleteMany({a: {…}, i: ?(?)}) (cut by the server)"),
    ('collMod {"collMod": "x", "validator": {"s": "ann (1)"}}', 'collMod {"collMod": ?, "validator": {"s": ?}}'),
    ("17:00:01 shop.x(1) deleteMany({s: 'ann'}): 5 documents", "17:00:01 shop.x(?) deleteMany({s: ?}): 5 documents"),
    ("17:00:01 shop.x drop: 5 documents", "17:00:01 shop.x drop: 5 documents"),
])  # fmt: skip
def test_a_statement_without_its_values(text: str, shown: str) -> None:
    assert without_values(text) == shown


def test_a_report_replaces_no_file(tmp_path: Path) -> None:
    document = Document("t", [], [], "m")
    write_report(tmp_path / "r.md", document)
    assert (tmp_path / "r.md").stat().st_mode & 0o777 == 0o600
    for name, words in (("r.md", "exists already"), ("r.txt", "neither"), ("none/r.html", "missing")):
        with pytest.raises(InputError, match=words):
            check_report(tmp_path / name)


def test_the_plan_is_added_and_what_came_back_names_documents_only_on_request(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not the folder of a plan\. tallyglass restore plan --out DIR writes one"):
        plan_sections(tmp_path, values=False)
    (tmp_path / "steps.txt").write_text("mongorestore --oplogReplay\x1b[2J\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "outcome.txt").write_text("secret-id restored\n")
    hidden, shown = (
        to_markdown(Document("t", [], plan_sections(tmp_path, values=values), "m")) for values in (False, True)
    )
    assert "mongorestore --oplogReplay" in hidden
    assert "\x1b" not in hidden
    assert "secret-id" not in hidden
    assert "secret-id restored" in shown
