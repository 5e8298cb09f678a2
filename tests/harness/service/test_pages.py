"""The pages: the same as the interface shows, for whoever may see it; and forms that only own pages may send."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from fastapi.testclient import TestClient

from tests.harness.service.world import Member, World, send, write_submission

HERE = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}


class Links(HTMLParser):
    """The places that a page refers to, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.forms: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.forms += [value for name, value in attrs if name == "action" and value is not None]
        self.found += [value for name, value in attrs if name in ("href", "src") and value is not None]


def browser(world: World, member: Member | None = None) -> TestClient:
    """A browser, signed in with a member's token."""
    client = TestClient(world.client.app, follow_redirects=True)
    if member is not None:
        answer = client.post("/account/sign-in", data={"token": member.token}, headers=HERE)
        assert member.name in answer.text
    return client


def published(world: World) -> str:
    submission = world.submit(world.alice)
    world.work()
    world.time.advance(1)
    world.work()
    return submission


def test_every_link_of_every_page_leads_somewhere(small: World) -> None:
    """From the first page on, for somebody who is not signed in, and for a member."""
    published(small)
    for client in (browser(small), browser(small, small.alice)):
        waiting, seen = ["http://testserver/"], set()
        while waiting:
            url = waiting.pop()
            if url in seen:
                continue
            seen.add(url)
            answer = client.get(url)
            assert answer.status_code == 200, url
            if not answer.headers["content-type"].startswith("text/html"):
                continue
            links = Links()
            links.feed(answer.text)
            for link in links.found:
                target = urljoin(url, link)
                if urlsplit(target).netloc == "testserver":
                    waiting.append(target.partition("#")[0])
        assert len(seen) > 100, "the pages of the rules are among them"


def test_table_and_interface_show_the_same_rows(small: World) -> None:
    """In the same order, with the same ranks."""
    for number in range(3):
        small.submit(small.alice, eval_s=0.5 + 0.1 * number)
    small.work()
    small.time.advance(1)
    small.work()

    page = small.client.get("/benchmarks/toy_mini.html").text
    rows = small.client.get("/api/v1/boards/toy_mini").json()["rows"]

    table = page[page.index('id="table"') : page.index('id="records"')]
    assert re.findall(r"results/([0-9a-f]{32})\.html", table) == [row["submission"] for row in rows]
    ranks = [re.sub(r"\D+", "-", item) for item in re.findall(r'data-label="Rank"><span>(.*?)</span>', table)]
    expected = [row["ranks"] for row in rows]
    assert ranks == [str(low) if low == high else f"{low}-{high}".replace("-", "-8288-") for low, high in expected]


def test_the_page_of_a_result_has_its_numbers_and_files(small: World) -> None:
    """As the static board shows them, below the state; the links to files are followed above."""
    submission = published(small)

    page = small.client.get(f"/results/{submission}.html").text

    assert "How the score is made" in page
    assert f"files/{submission}/acme/results/" in page
    assert "published" in page


def test_a_review_by_forms(small_reviewed: World) -> None:
    """Object, answer, decide, accept; each in a browser of its own; and the page says why something is not done."""
    world = small_reviewed
    submission = world.submit(world.alice)
    world.work()
    alice, carol, olga = (browser(world, world.members[name]) for name in ("alice", "carol", "olga"))
    path = f"/submissions/{submission}"

    def post(client: TestClient, action: str, **fields: str) -> Any:
        return client.post(f"{path}/{action}", data=fields, headers=HERE)

    assert "Object" in carol.get(path).text
    assert "Accept" not in carol.get(path).text
    refused = post(carol, "object", rule="TIM001", text="why", line="x")
    assert refused.status_code == 409
    assert "is not a number" in refused.text
    assert "objected to" in post(carol, "object", rule="TIM001", text="too <b>fast</b>").text
    assert "too &lt;b&gt;fast" in alice.get(path).text
    assert "it is not" in post(alice, "comment", text="it is not").text
    objection = re.search(r"/objections/([0-9a-f]{32})/decision", olga.get(path).text)
    assert objection is not None
    decided = olga.post(
        f"/objections/{objection[1]}/decision?of={submission}",
        data={"decision": "dismissed", "reason": "as the rules say"},
        headers=HERE,
    )
    assert "under review" in decided.text
    assert post(alice, "accept", reason="mine").status_code == 403
    assert post(olga, "accept", reason="").status_code == 409
    assert "accepted" in post(olga, "accept", reason="fine").text
    world.work()
    assert world.state(submission) == "published"


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("/account/sign-in", {"token": "tta_wrong"}, 403),
        ("/account/token", {"label": ""}, 422),
        ("/submissions/{}/dispute", {"reason": "too early"}, 409),
        ("/objections/{}/decision?of={}", {"decision": "dismissed", "reason": "x"}, 404),
        ("/submit", {"round": "never"}, 422),
    ],
)
def test_what_a_refused_form_answers_is_a_whole_page(
    small_reviewed: World, path: str, fields: dict[str, str], status: int
) -> None:
    """Its style sheet and its links are there, and its forms lead where those of the page itself do."""
    world = small_reviewed
    submission = world.submit(world.alice)
    world.work()
    client = browser(world, None if "sign-in" in path else world.bob)
    bob = browser(world, world.bob)
    world.submit(world.bob)
    world.work()

    answer = client.post(path.format(submission, submission), data=fields, headers=HERE)

    assert answer.status_code == status
    links = Links()
    links.feed(answer.text)
    base = str(answer.url)
    for link in (urljoin(base, item) for item in links.found if not item.startswith("#")):
        assert urlsplit(link).netloc != "testserver" or bob.get(link).status_code == 200, link
    for target in (urlsplit(urljoin(base, item)).path for item in links.forms):
        assert re.fullmatch(r"/(account/[a-z-]+|submit|submissions/[0-9a-f]{32}/[a-z_]+)", target), target


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
        {"origin": "http://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "null"},
        {},
    ],
)
def test_forms_of_other_sites_are_refused(small: World, headers: dict[str, str]) -> None:
    """Though the browser sends the session's cookie along."""
    submission = small.submit(small.alice)
    client = browser(small, small.alice)

    answer = client.post(f"/submissions/{submission}/withdraw", data={}, headers=headers)

    assert answer.status_code == 403
    assert small.state(submission) == "received"


@pytest.mark.parametrize(
    "headers", [{"sec-fetch-site": "same-origin", "origin": "null"}, {"origin": "http://testserver"}]
)
def test_forms_of_own_pages_are_taken(small: World, headers: dict[str, str]) -> None:
    """As browsers send them from pages without a referrer, and as those do that say only the origin."""
    submission = small.submit(small.alice)

    browser(small, small.alice).post(f"/submissions/{submission}/withdraw", data={"x": ""}, headers=headers)

    assert small.state(submission) == "withdrawn"


def test_a_session_ends(small: World) -> None:
    """By signing out, with time, and with the person."""
    client = browser(small, small.alice)
    assert "alice" in client.get("/account").text
    client.post("/account/sign-out", headers={**HERE, "content-type": "application/x-www-form-urlencoded"})
    assert "Sign in" in client.get("/account").text
    client = browser(small, small.alice)
    small.time.advance(1)
    assert "Sign in" in client.get("/account").text
    wrong = browser(small).post("/account/sign-in", data={"token": "tta_wrong"}, headers=HERE)
    assert wrong.status_code == 403


def test_tokens_are_made_and_revoked_on_the_page(small: World) -> None:
    """Shown once, and worth nothing afterwards."""
    client = browser(small, small.alice)

    page = client.post("/account/token", data={"label": "ci", "scopes": ["read"]}, headers=HERE).text
    found = re.search(r"<code>(tta_[^<]+)</code>", page)
    assert found is not None
    token = {"authorization": f"Bearer {found[1]}"}
    assert small.client.get("/api/v1/me", headers=token).json()["scopes"] == ["read"]
    assert found[1] not in client.get("/account").text
    weak = browser(small).post("/account/sign-in", data={"token": found[1]}, headers=HERE)
    assert weak.status_code == 403
    token_id = small.client.get("/api/v1/tokens", headers=token).json()["tokens"][0]["id"]
    client.post("/account/revoke", data={"token": token_id}, headers=HERE)
    assert small.client.get("/api/v1/me", headers=token).status_code == 401


def test_a_proxy_is_believed_only_from_its_address(small: World) -> None:
    """Whom it names is signed in; from elsewhere the header says nothing."""
    from sqlalchemy import update

    from harness.service import schema

    table = schema.person
    with small.instance.database.write() as connection:
        connection.execute(update(table).where(table.c.name == "alice").values(subject="alice@acme"))
    proxy = small.instance.settings.proxy
    object.__setattr__(proxy, "header", "X-Remote-User")
    headers = {"x-remote-user": "alice@acme"}

    assert "Sign in" in small.client.get("/account", headers=headers).text
    object.__setattr__(proxy, "addresses", ["testclient"])
    assert "alice" in small.client.get("/account", headers=headers).text
    assert "Sign in" in small.client.get("/account", headers={"x-remote-user": "nobody"}).text


def test_errors_are_pages_and_answers_have_their_headers(small: World) -> None:
    """A page to a person, JSON to a program; nothing may be framed, sniffed or kept."""
    for path, kind in (
        ("/nowhere", "text/html"),
        ("/results/x.html", "text/html"),
        ("/api/v1/x", "application/problem"),
    ):
        answer = small.client.get(path)
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "private, no-cache"


def test_what_others_wrote_is_shown_as_text(small_reviewed: World) -> None:
    """Names, reasons and rules that look like HTML."""
    world = small_reviewed
    evil = "<script>alert(1)</script>"
    system = {"system_name": "box-evil"}
    from tests import fabricate

    submission = world.submit(world.alice, system={**fabricate.SYSTEM, **system, "hw_notes": evil})
    world.work()
    world.carol.post(f"/submissions/{submission}/objections", json={"rule": evil, "text": evil})
    client = browser(world, world.alice)

    for path in (f"/submissions/{submission}", f"/results/{submission}.html", "/search?q=" + evil, "/submissions"):
        assert evil not in client.get(path).text


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_body_without_an_end_is_refused(small: World, is_announced: bool) -> None:
    """Before it is in the memory, whether its length is said or not."""

    def pieces() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * (1 << 20)

    headers = {"content-type": "application/json"}
    content: Any = b"x" * (5 << 20) if is_announced else pieces()

    answer = small.alice.post("/submissions", content=content, headers=headers)

    assert answer.status_code in (400, 413)


def test_forms_of_an_answer_lead_where_those_of_the_page_do(small: World) -> None:
    """The page that answers a form is at the form's own address, which is deeper."""
    submission, client = published(small), browser(small, small.bob)
    answers = [
        client.post("/account/token", data={"label": "a", "scopes": ["read"]}, headers=HERE),
        client.post("/account/token", data={"label": ""}, headers=HERE),
        client.post(f"/submissions/{submission}/accept", data={"reason": "a"}, headers=HERE),
    ]

    assert [answer.status_code for answer in answers] == [200, 422, 403]
    for answer in answers:
        links = Links()
        links.feed(answer.text)
        [style] = [link for link in links.found if link.endswith("style.css")]
        assert client.get(urljoin(str(answer.url), style)).status_code == 200
        forms = [part.partition('"')[0] for part in answer.text.split('action="')[1:]]
        targets = {urljoin(str(answer.url), form) for form in forms}
        assert targets
        own = ("http://testserver/account/", f"http://testserver/submissions/{submission}/")
        assert all(target.startswith(own) and "/account/account" not in target for target in targets)


def test_submissions_are_shown_page_by_page(small: World) -> None:
    """What changed last comes first, and what was chosen is chosen on the next page, too."""
    tree = write_submission(small.alice)
    [log, *_] = sorted(tree.rglob("result_*.txt"))
    ids = []
    for number in range(51):
        log.write_text(f"{number}\n")
        ids.append(send(small.alice, tree, finalise=False))
    client = browser(small, small.alice)

    first = client.get("/submissions?mine=true&state=draft").text
    [older] = re.findall(r'href="\?([^"]+)" rel="next"', first)
    second = client.get(f"/submissions?{older.replace('&amp;', '&')}").text

    shown = [re.findall(r'submissions/([0-9a-f]{32})"', page) for page in (first, second)]
    assert [item for page in shown for item in page] == ids[::-1]
    assert len(shown[1]) == 1
    assert older.startswith("mine=true&amp;state=draft&amp;after=")
