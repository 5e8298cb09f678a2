"""Which form of isolation is chosen, and what each hides and shows."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from harness.base.processes import SOURCE_ROOT
from harness.errors import UsageError
from harness.run import confinement, isolation, launcher
from harness.run.isolation import Isolation, Places
from harness.run.launcher import try_out
from harness.run.starter import Place


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """A cache with data, in a folder next to a home, the current one, with results."""
    data = tmp_path / "cache" / "toy_mini" / "data"
    data.mkdir(parents=True)
    (data / "metadata.json").write_text("{}")
    for name in ("home", "results"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "home")
    return Places(data, (tmp_path / "results", tmp_path / "cache"))


def only(*means: str) -> object:
    """A trial in which the forms `means` work."""
    return lambda form, places: None if form.facts["means"] in means else "not today"


@pytest.mark.parametrize(
    ("working", "means"),
    [
        (("bubblewrap", "unshare", "landlock"), "bubblewrap"),
        (("unshare", "landlock"), "unshare"),
        (("landlock",), "landlock"),
        ((), "none"),
    ],
)
def test_strongest_form_that_works_is_chosen_and_the_log_says_why(
    places: Places, working: tuple[str, ...], means: str
) -> None:
    """The stronger ones are named with the reason why they are not in force."""
    if confinement.landlock_abi() < 1:
        pytest.skip("this kernel has no Landlock")
    if means == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("there is no bubblewrap")
    form = isolation.choose("auto", places, Place(), only(*working))  # type: ignore[arg-type]

    assert form.facts["means"] == means
    assert list(form.facts["reasons"]) == list(isolation._FORMS)[: [*isolation._FORMS, "none"].index(means)]
    assert bool(form.gaps) == (means in ("landlock", "none"))


def test_full_isolation_is_refused_where_a_weaker_form_is_all_there_is(places: Places) -> None:
    """The message names what stands in the way of each form, and what the weaker one lacks."""
    with pytest.raises(UsageError, match=r"bubblewrap: .*; unshare: .*"):
        isolation.choose("full", places, Place(), only("landlock"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="--isolation full: this machine does not permit it"):
        isolation.choose("full", places, Place(), only())  # type: ignore[arg-type]


def test_no_isolation_is_tried_where_none_is_wanted(places: Places) -> None:
    """What the user asked for is in the log."""

    def never(form: Isolation, places: Places) -> str | None:
        raise AssertionError("tried")

    assert isolation.choose("none", places, Place(), never).facts["reasons"] == {"none": "as requested"}


def test_programs_that_are_not_installed_are_reasons(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is tried."""
    monkeypatch.setenv("PATH", "/nowhere")

    reasons = isolation.choose("auto", places, Place(), only()).facts["reasons"]  # type: ignore[arg-type]

    assert (reasons["bubblewrap"], reasons["unshare"]) == ("not installed", "not installed")


def test_results_home_and_cache_are_hidden_and_the_source_is_shown(places: Places, tmp_path: Path) -> None:
    """A folder that contains the system itself is not hidden, or nothing would run."""
    hidden = isolation._hidden(Places(places.data, (*places.hidden, Path("/"), tmp_path / "missing")))
    needed = {place: source for source, place in isolation._needed(places)}

    assert {tmp_path / name for name in ("home", "results", "cache")} <= set(hidden)
    assert Path("/") not in hidden
    assert hidden == sorted(hidden)
    assert needed[SOURCE_ROOT / "harness"] == (SOURCE_ROOT / "harness").resolve()
    assert not any(place.is_relative_to(tmp_path) for place in needed)


def test_form_can_be_moved_to_other_places(places: Places, tmp_path: Path) -> None:
    """The same form and facts; a module in a hidden folder is shown."""
    form = isolation.choose("auto", places, Place(), only("bubblewrap"))  # type: ignore[arg-type]
    if form.facts["means"] != "bubblewrap":
        pytest.skip("there is no bubblewrap")
    module = tmp_path / "results" / "module.py"
    module.touch()

    moved = isolation.moved(form, Places(places.data, places.hidden, (module,)), Place())
    unconfined = isolation.choose("none", places, Place(), only())  # type: ignore[arg-type]

    assert moved.facts is form.facts
    assert [*moved.prefix].count(str(module)) == 2
    assert isolation.moved(unconfined, places, Place()) is unconfined


@pytest.mark.slow
@pytest.mark.parametrize("name", list(isolation._FORMS))
def test_every_form_that_this_machine_permits_does_what_it_should(name: str, places: Places) -> None:
    """Tried as `tta run` does; a form that does not work says why."""
    for form in isolation._FORMS[name](places, Place()):
        if isinstance(form, str):
            pytest.skip(form)
        if (reason := try_out(form, places)) is None:
            return
        assert reason
    if os.geteuid() != 0 or name == "bubblewrap":
        pytest.skip(reason)
    raise AssertionError(reason)


@pytest.mark.slow
def test_trial_finds_what_a_form_does_not_hide(places: Places) -> None:
    """Its claims are not enough."""
    unconfined = isolation.choose("none", places, Place(), only())  # type: ignore[arg-type]

    assert try_out(unconfined, places) == f"does not hide {places.hidden[0]}"


def test_private_folders_of_killed_runs_are_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that a living run holds stays, and so does what merely has a similar name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"tta-worker-{os.getuid()}-file").touch()
    held, lock = launcher._private_folder()
    left, other_lock = launcher._private_folder()
    os.close(other_lock)

    new, new_lock = launcher._private_folder()

    assert not left.exists()
    assert held.is_dir()
    assert new.is_dir()
    assert sorted(tmp_path.iterdir()) == sorted([held, new, tmp_path / f"tta-worker-{os.getuid()}-file"])
    os.close(lock)
    os.close(new_lock)


def test_only_the_folder_of_its_checkpoints_can_be_written(places: Places, tmp_path: Path) -> None:
    """In every form; under a user of its own it belongs to that user."""
    own = tmp_path / "results" / "checkpoints" / "run_0"
    own.mkdir(parents=True)
    with_own = Places(places.data, places.hidden, own=own)

    for name, make in isolation._FORMS.items():
        for closed, form in zip(make(places, Place(1)), make(with_own, Place(1)), strict=True):
            if isinstance(form, str) or isinstance(closed, str):
                continue
            words = [*form.prefix, *form.confinement.writable]
            assert words.count(str(own)) == (2 if name == "bubblewrap" else 1)
            assert str(own) not in [*closed.prefix, *closed.confinement.writable]
            assert form.confinement.owned == ((str(own),) if name == "landlock" else ())
            if name == "bubblewrap":
                assert form.prefix[form.prefix.index(str(own)) - 1] == "--bind"
