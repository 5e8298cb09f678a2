"""Makes the pictures of the service in the documents again, of fabricated results of three teams.

python -m tests.service_pictures docs/assets
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from harness.service import people, repetitions, review, submissions, submitting
from harness.service.people import Actor
from harness.service.states import State
from harness.submission.layout import result_name
from tests import fabricate
from tests.harness.board.reproduced import digest_of, repeats
from tests.harness.service.stage import Person, Stage, chromium, staged

if TYPE_CHECKING:
    from playwright.sync_api import Browser

COLOURS = 96  # of a page with text and one chart: a third of the bytes, and nothing to be seen of it
ACCELERATORS = (("H100", 8), ("MI300X", 8), ("B200", 4), ("H100", 16), ("MI300X", 16))


def actor(stage: Stage, name: str) -> Actor:
    with stage.instance.database.read() as connection:
        found = people.by_token(connection, stage.tokens[name], stage.instance.now_ms())
    assert found is not None
    return found


def publish(
    stage: Stage, name: str, system: str, eval_s: float, accelerator: tuple[str, int], repeated: str | None = None
) -> str:
    """Hand in a result, as a program does, and have it accepted; return the digest of its logs. repeated: another's."""
    team, (model, count) = actor(stage, name), accelerator
    described = {
        **fabricate.SYSTEM, "submitter": team.organisation_name, "system_name": system,
        "accelerator_model_name": model, "accelerators_per_node": str(count),
    }  # fmt: skip
    tree = stage.folder / "trees" / system
    change = None if repeated is None else repeats({"digest": repeated})
    folder = fabricate.write_submission(tree, change=change, system=described, rules=stage.rules, eval_s=eval_s)
    folder = folder.rename(folder.with_name(result_name(folder.name, repeated)))
    digest = digest_of(folder)
    files = [path for path in sorted(tree.rglob("*")) if path.is_file()]
    submission = submitting.hand_in(stage.instance, team, tree, files, "rolling")
    await_state(stage, submission, State.UNDER_REVIEW)
    review.act(stage.instance, actor(stage, "olga"), submission, "accept", "Every check passes, and nobody objected.")
    await_state(stage, submission, State.PUBLISHED)
    if repeated is not None:
        await_comparison(stage, submission)
    return digest


def await_comparison(stage: Stage, submission: str) -> None:
    """Wait until the worker has compared a reproduction with what it repeats."""
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        with stage.instance.database.read() as connection:
            if repetitions.stored(connection, submission):
                return
        time.sleep(0.1)
    raise AssertionError(f"{submission} was not compared")


def await_state(stage: Stage, submission: str, state: State) -> None:
    """Wait until the worker has brought a submission to a state."""
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        with stage.instance.database.read() as connection:
            found = submissions.find(connection, submission, None).state
        if found is state:
            return
        time.sleep(0.1)
    raise AssertionError(f"{submission} is {found}, not {state}")


def objected(stage: Stage, browser: Browser) -> str:
    """The page of a submission with an objection, an answer, and nothing decided."""
    alice, bob = Person(stage, browser, "alice"), Person(stage, browser, "bob")
    result = stage.result(
        "acme", "lantern-8xh100", more={"accelerator_model_name": "H100", "accelerators_per_node": "8"}
    )
    path = alice.submit(result)
    alice.state("under review")
    theirs = bob.submit(stage.result("bits", "kestrel-4xb200", eval_s=0.8))
    bob.state("under review")
    assert theirs != path
    bob.open(path)
    form = bob.opened("Object")
    form.get_by_label("Rule").fill("QUA005")
    form.get_by_label("File").select_option(f"acme/results/lantern-8xh100/{stage.rules.name}/result_0.txt")
    form.get_by_label("Line").fill("31")
    form.get_by_label("Why").fill("The first evaluation comes after 1,000 samples; the plan says every 1,000 from 0.")
    form.get_by_role("button", name="Object").click()
    bob.state("objected to")
    alice.open(path).get_by_label("Your answer").fill("The plan counts from the first block: line 29 says so.")
    alice.page.get_by_role("button", name="Comment").click()
    alice.page.locator("#comments article").wait_for()
    return path


def picture(
    browser: Browser, stage: Stage, name: str | None, path: str, width: int, height: int, scheme: str = "light"
) -> Image.Image:
    """What somebody sees of a page, from its top."""
    person = Person(stage, browser, name) if name is not None else None
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,  # type: ignore[arg-type]
        base_url=stage.address,
        storage_state=person.context.storage_state() if person is not None else None,
        device_scale_factor=2 if width < 500 else 1,
    )
    page = context.new_page()
    page.goto(path)
    found = Image.open(io.BytesIO(page.screenshot()))
    context.close()
    return found.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)


def main(arguments: list[str]) -> int:
    """Write the pictures into a folder."""
    [folder] = arguments
    rules = fabricate.benchmark_rules(workload="image_classification")
    with tempfile.TemporaryDirectory() as name, staged(Path(name), rules) as stage, chromium() as browser:
        for number in range(9):
            team = ("alice", "bob")[number % 2]
            model, count = ACCELERATORS[number % len(ACCELERATORS)]
            digest = publish(stage, team, f"rack-{number}-{count}x{model.lower()}", 0.9 - 0.08 * number, (model, count))
        publish(stage, "bob", f"again-{count}x{model.lower()}", 0.27, (model, count), digest)
        path = objected(stage, browser)
        table = f"/benchmarks/{rules.name}.html"
        for target, made in {
            "board-submit": picture(browser, stage, "alice", "/submit", 1000, 800),
            "board-review": picture(browser, stage, "olga", path, 1000, 1060),
            "board-table": picture(browser, stage, None, table, 1000, 900),
            "board-desk-dark": picture(browser, stage, "olga", "/submissions", 1000, 720, "dark"),
            "board-phone": picture(browser, stage, "bob", path, 390, 844),
        }.items():
            made.save(Path(folder) / f"{target}.png", optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
