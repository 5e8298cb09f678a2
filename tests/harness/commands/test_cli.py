"""The command line as a contract: one sentence and the right status for any input, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from tests.fabricate import SYSTEM, events, write_log, write_result

ROOT = Path(__file__).parents[3]
HEAVY = ("torch", "mlflow", "transformers", "accelerate", "omegaconf", "numpy", "scipy", "datasets", "rich", "jinja2")
ESCAPE = "\x1b[31m"


@pytest.fixture(autouse=True)
def signals_and_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test in its own folder; what `main` does to SIGTERM is undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TTA_DATA", str(tmp_path / "data"))
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that runs this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def tta(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", *arguments],
        text=True,
        errors="replace",
        timeout=300,
        env=environment(**(env or {})),
        **streams,
    )


@pytest.mark.parametrize("verb", cli.VERBS)
def test_help_of_every_verb_names_the_exit_statuses(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """0, on standard output, and nothing on standard error."""
    assert cli.main([verb, "--help"]) == 0

    shown, errors = capsys.readouterr()
    assert f"usage: tta {verb}" in shown
    assert "Exit status: 0 success" in shown
    assert errors == ""


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """`tta --help` is the table of contents; --version is a version."""
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out.splitlines()
    listed = {line.split()[0] for line in shown if line.startswith("    ") and line[4] > " "}
    assert [name for name, verb in cli.VERBS.items() if (name in listed) is not verb.is_listed] == []

    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tta ")


OPEN = ("run", "image_classification", "--division", "open", "--module")
METER = ("run", "image_classification", "--data", "data", "--meter")
BRING = (
    *("power", "import", "clocked", "--run", "0", "--csv", "watts.csv", "--time-column", "time"),
    *("--power-column", "watts", "--class", "A", "--accuracy", "1"),
)
BAD: list[tuple[list[str], str]] = [
    ([], "required: VERB"),
    (["chek", "."], "unknown verb 'chek'; did you mean 'check'? (see `tta --help`)"),
    ([ESCAPE], r"unknown verb '\\x1b[31m'"),
    (["check"], "required: PATH"),
    (["check", "nowhere"], "nowhere: there is no such file"),
    (["check", "void"], "there is no result"),
    (["check", "empty"], "empty: is empty: not a run log"),
    (["check", "/dev/null"], "is not a regular file"),
    (["reproduce", ""], "the path is empty"),
    (["check", "/dev/zero"], "is not a regular file"),
    (["check", "noise"], "not a run log"),
    (["check", "x" * 5000], "File name too long"),
    (["check", "[/etc/passwd]"], "[/etc/passwd]: there is no such"),
    (["check", "empty", "--format", "xml"], "unknown --format 'xml'; there are: html, json, sarif, text"),
    (["check", "empty", "--frmat", "json"], "unknown argument '--frmat'"),
    (["check", "log", "--ruleset", "v9"], "unknown ruleset 'v9'"),
    (["check", "log", "--ruleset", "x" * 5000], "too long"),
    (["check", "log", "--ruleset", "../../etc"], "unknown ruleset"),
    (["run"], "required: WORKLOAD, or --all"),
    (["run", "--suite", "mini"], "required: WORKLOAD, or --all"),
    (["run", "--all", "image_classification"], "name either 'image_classification' or --all"),
    (["run", "--all", "opt_momentum=0.8"], "opt_momentum=0.8 cannot be set for every workload at once"),
    (["run", "--all", "--division", "open", "--module", "part.py"], "--module part.py is for one workload"),
    (["run", "--all", "--source", "void"], "--source void is for one workload"),
    (["run", "--all", "--suite", "mimi"], "unknown suite 'mimi'; did you mean 'mini'?"),
    (["run", "--all", "--division", "opne"], "unknown division 'opne'; did you mean 'open'?"),
    (["run", "--all", "--out", "run"], "run: exists already"),
    (["run", "image_classification", "--module", "part.py"], "a module needs --division open"),
    (["run", "image_classification", "--division", "opne", "--module", "part.py"], "unknown division 'opne'"),
    ([*OPEN, "nowhere.py"], "nowhere.py: cannot be read: No such file"),
    ([*OPEN, "void"], "void: the file's name must be a Python name"),
    ([*OPEN, "folder.py"], "folder.py: is not a file"),
    ([*OPEN, "part.py"], "line 2: unknown part of image_classification 'build_modle'; did you mean 'build_model' or"),
    ([*OPEN, "none.py"], "none.py: has none of the parts of image_classification: build_model, build_optimizer"),
    ([*OPEN, "syntax.py"], "syntax.py, line 3: not Python"),
    ([*OPEN, "nul.py"], "nul.py, line 1: not Python"),
    ([*OPEN, "x" * 5000 + ".py"], "at most 64 characters"),
    ([*OPEN, "fast" + ESCAPE + ".py"], r"fast\x1b[31m.py"),
    (["summary", "run", "--format", "sarif"], "unknown --format 'sarif'; there are: json, text"),
    (["summary", "run"], "ruleset v1 has no such benchmark: toy_mini"),
    (["run", "image_clasification"], "unknown workload 'image_clasification'; did you mean 'image_classification'?"),
    (["run", "image_classification", "--suite", "mimi"], "unknown suite 'mimi'; did you mean 'mini'?"),
    (["run", "image_classification", "--rums", "3"], "unknown option '--rums'"),
    (["run", "image_classification", "--runs", "0"], "'0' is not a whole number of at least 1"),
    (["run", "image_classification", "--runs", "9" * 5000], "--runs"),
    (["run", "image_classification", "--runs", "١"], "not a whole number of at least 1"),
    (["run", "image_classification", "--seed", "-1"], "--seed"),
    (["run", "image_classification", "--seed", "2147483648"], "from 0 to 2147483647"),
    (["run", "image_classification", "--devices", "2.5"], "not a whole number"),
    (["run", "image_classification", "--precision", "fp64"], "precision 'fp64' is not permitted"),
    (["run", "image_classification", "--precision", "tf32"], "precision 'tf32' is not permitted; permitted: fp32"),
    (["run", "image_classification", "--division", "open", "--precision", "fp64"], "permitted: fp32, tf32, bf16, fp16"),
    (["run", "image_classification", "--execution", "compil=true"], "did you mean 'compile'?"),
    (["run", "image_classification", "--execution", "compile"], "an execution option is written KEY=VALUE"),
    (["run", "image_classification", "--execution", "compile=2"], "compile is '2', expected true or false"),
    (["run", "translation", "--execution", "channels_last=true"], "unknown execution option of translation"),
    (["run", "translation", "--execution", "ddp_bucket_mb=5"], "a single device exchanges no gradients"),
    (["run", "image_classification", "--devices", "7"], "cannot be divided equally"),
    (["run", "image_classification", "--lr=1"], "without dashes: lr=VALUE"),
    (["run", "image_classification", "+lr=1"], "write lr=VALUE"),
    (["run", "image_classification", "opt_momentun=0.9"], "did you mean 'opt_momentum'"),
    (["run", "image_classification", "opt_momentum=0.8"], "fixed at 0.9"),
    (["run", "image_classification", "opt_momentum=${oc.env:HOME}"], "interpolations are not resolved"),
    (["run", "image_classification", "opt_momentum=!!bool x"], "must be one finite number"),
    (["run", "image_classification", "--quiet", "opt_momentum"], "written KEY=VALUE"),
    (["run", "image_classification", "--suite"], "expected one argument"),
    ([*METER, "nvlm"], "unknown meter 'nvlm'; did you mean 'nvml'?"),
    ([*METER, "nvml,nvml"], "names nvml twice"),
    ([*METER, "nvml,auto"], "auto cannot be combined"),
    ([*METER, "none,nvml"], "none cannot be combined"),
    ([*METER, ""], "unknown meter ''"),
    ([*METER, "redfish"], "redfish: needs a file that says where it is"),
    ([*METER, ESCAPE], r"x1b[31m'; there are: auto, estimate"),
    ([*METER, "nowhere.yaml"], "nowhere.yaml: there is no such file"),
    ([*METER, "./void"], "there is no such file"),
    ([*METER, "key.yaml"], "unknown key 'metres'; did you mean 'meters'?"),
    ([*METER, "kind.yaml"], "unknown kind of meter 'redfsh'; did you mean 'redfish'?"),
    ([*METER, "typo.yaml"], "unknown key 'passwort'; did you mean 'password_env'?"),
    ([*METER, "node.yaml", "--power-nodes", "2"], "--power-listen"),
    ([*METER, "powercap"], "powercap: "),
    ([*METER, "estimate"], "declares no tta_idle_power_w"),
    ([*METER, "node.yaml"], "is for node 1; the nodes are 0 to 0"),
    (["run", "image_classification", "--idle", "60"], "--idle 60.0: there is nothing to read without --meter"),
    (["run", "image_classification", "--meter-period", "0"], "'0' is not a number from 0.02 to 60"),
    (["run", "image_classification", "--idle", "nan"], "'nan' is not a number"),
    (["run", "image_classification", "--power-nodes", "2"], "nothing to read without --meter"),
    ([*METER, "nvml", "--power-listen", "127.0.0.1:1"], "with one node, no agent connects"),
    (["run", "--all", "--power-nodes", "2", "--meter", "auto"], "--power-nodes 2 is for one workload"),
    (["agent"], "required: --connect, --node"),
    (["agent", "--connect", "x:1", "--node", "0"], "'0' is not a whole number of at least 1"),
    (["agent", "--connect", "127.0.0.1:9", "--node", "1"], "the environment has no TTA_POWER_TOKEN"),
    (["power", "export"], "unknown action 'export'"),
    ([*BRING, "--class", "C"], "unknown --class 'C'"),
    ([*BRING, "--accuracy", "0"], "--accuracy"),
    ([*BRING, "--run", "7"], "there is no such run"),
    ([*BRING, "--csv", "nowhere.csv"], "nowhere.csv: is not a file"),
    ([*BRING, "--time-column", "tiem"], "no column 'tiem'; there are: time, watts"),
    ([*BRING, "--node", "3"], "--node 3: the log names 1 nodes"),
    (["submit", "run"], "required: --to"),
    (["submit", "nowhere", "--to", "."], "is not a folder that `tta run` wrote"),
    (["submit", "run", "--to", "nowhere"], "nowhere: is not a folder"),
    (["submit", "run", "--to", ".", "--category", "availabel"], "did you mean 'available'"),
    (["submit", "run", "--to", ".", "--submitter", "other"], "cannot be submitted under another name"),
    (["submit", "void", "--to", "."], "no run log"),
    (["submit", "bare", "--to", "."], "has no system.json"),
    (["submit", "hostile", "--to", "."], "the system is called '../../etc'"),
    (["check", ""], "the path is empty; the current folder is called ."),
    (["submit", ".", "--to", ""], "argument --to: the path is empty"),
    (["run", "image_classification", "--out", ""], "argument --out: the path is empty"),
    (["explain", ESCAPE], r"\x1b[31m"),
    (["data"], "required: action"),
    (["data", "destroy", "image_classification"], "unknown action 'destroy'; there are: prepare"),
    (["data", "prepare", "x"], "unknown workload 'x'"),
    (["data", "prepare", "image_classification", "--data", "/dev/null/x"], "cannot be prepared there"),
    (["baseline", "image_classification", "--suite", "x"], "unknown suite 'x'"),
    (["explain", "LOG001", "--out", "pages"], "give --all as well"),
    (["prices", "refresh", "--provider", "lambda"], "unknown provider 'lambda'; there are: aws, azure"),
    (["prices", "refresh", "now"], "write `tta prices refresh`"),
    (["reference", "image_classification"], "required: --system"),
    (["reference", "image_clasification", "--system", "s.json"], "did you mean 'image_classification'"),
    (["reference", "image_classification", "--system", "s.json", "--only", "x"], "no reference_recipes with jobs"),
    (["board", "build", "."], "--out SITE"),
    (["board", "build", "nowhere", "--out", "site"], "nowhere"),
    (["board", "serve", ".", "--port", "x"], "'x' is not a port"),
    (["target", "nowhere"], "nowhere"),
    (["sync", "nowhere"], "nowhere"),
    (["doctor", "--format", "yaml"], "unknown --format 'yaml'"),
    (["doctor", "--out", "/dev/null/x"], "/dev/null/x"),
]


@pytest.fixture
def things(tmp_path: Path) -> None:
    """The files that the bad commands name."""
    (tmp_path / "empty").touch()
    (tmp_path / "void").mkdir()
    (tmp_path / "noise").write_bytes(bytes(range(256)))
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "part.py").write_text("import math\ndef build_modle(): ...\n")
    (tmp_path / "none.py").write_text("class Net: ...\n\n\ndef _build_model(): ...\n")
    (tmp_path / "syntax.py").write_text("import math\n\ndef build_model(:\n")
    (tmp_path / "nul.py").write_bytes(b"x = '\0'\n")
    meters = "meters: [{kind: redfish, url: 'https://bmc/x'"
    (tmp_path / "key.yaml").write_text("metres: []\n")
    (tmp_path / "kind.yaml").write_text("meters: [{kind: redfsh}]\n")
    (tmp_path / "typo.yaml").write_text(meters + ", passwort: x}]\n")
    (tmp_path / "node.yaml").write_text(meters + ", node: 1}]\n")
    (tmp_path / "watts.csv").write_text("time,watts\n2026-01-01T00:00:00Z,5\n2026-01-01T00:00:01Z,6\n")
    write_log(tmp_path / "log", events())
    write_result(tmp_path / "run", num_runs=1)
    (tmp_path / "clocked").mkdir()
    write_log(tmp_path / "clocked" / "result_0.txt", events(mono_ns=10**12))
    write_result(tmp_path / "bare", num_runs=1)
    (tmp_path / "bare" / "system.json").unlink()
    write_result(tmp_path / "hostile", num_runs=1, system={**SYSTEM, "system_name": "../../etc"})


@pytest.mark.usefixtures("things")
@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(a)[:40].replace(ESCAPE, "ESC") for a, _ in BAD])
def test_bad_input_is_one_sentence_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, printable, without a traceback; and nothing was created."""
    before = sorted(path.name for path in Path.cwd().iterdir())

    status = cli.main(arguments)

    shown, errors = capsys.readouterr()
    assert status == 2, errors
    assert message in errors
    assert "Traceback" not in errors + shown
    assert errors.startswith("tta: ")
    assert errors.count("\n") == 1
    assert errors.rstrip("\n").isprintable()
    assert len(errors) < 3000
    assert [path.name for path in Path.cwd().iterdir() if path.name not in (*before, "data")] == []


def test_import_of_the_command_line_is_light() -> None:
    """`tta --help` must not wait for libraries that the verb does not need."""
    code = "import sys; from harness import cli; cli.main(['--help']); print('\\n', *sys.modules)"

    modules = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()[-1]

    assert sorted({name.split(".")[0] for name in modules.split()} & set(HEAVY)) == []
    assert [name for name in modules.split() if name.startswith("harness.commands.")] == ["harness.commands._arguments"]


def test_judging_needs_no_machine_learning_library(tmp_path: Path) -> None:
    """check, score and explain run where torch is not installed."""
    write_result(tmp_path / "run", num_runs=1)
    code = (
        "import sys; from harness import cli; cli.main(['check', 'run']); cli.main(['score', 'run']); "
        "cli.main(['explain', 'LOG001']); print('\\n', *sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)

    names = {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert sorted(names & {"torch", "mlflow", "transformers", "accelerate", "datasets"}) == []


def test_status_reaches_the_shell() -> None:
    """The value of `main` is the status of the process."""
    done = tta("check", "nowhere")

    assert done.returncode == 2
    assert done.stderr == "tta: nowhere: there is no such file or folder\n"
    assert done.stdout == ""


# Python may buffer the output until it exits; an error there would be status 120.
BUFFERING = pytest.mark.parametrize("unbuffered", ["", "1"])


@BUFFERING
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["explain", "--all"], 0),
        (["--help"], 0),
        (["explain", "LOG001"], 0),
        (["check", "result", "--ruleset", "v1"], 1),
    ],
)
def test_reader_that_goes_away_is_not_an_error(
    arguments: list[str], status: int, unbuffered: str, tmp_path: Path
) -> None:
    """`tta explain --all | head -1`: nothing on standard error, and the exit status is that of the answer."""
    (write_result(tmp_path / "result") / "result_0.txt").unlink()
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = tta(*arguments, env={"PYTHONUNBUFFERED": unbuffered}, stdout=writing)
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (status, "")


@BUFFERING
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_under_the_output_is_status_2(unbuffered: str) -> None:
    """The answer could not be written; on a closed output nothing crashes, either."""
    with open("/dev/full", "w") as full:
        done = tta("explain", "LOG001", env={"PYTHONUNBUFFERED": unbuffered}, stdout=full)

    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    shell = f"{sys.executable} -m harness.cli explain LOG001 >&-"
    closed = subprocess.run(["sh", "-c", shell], env=environment(), capture_output=True, text=True, timeout=300)
    assert closed.returncode in (0, 2)
    assert "Traceback" not in done.stderr + closed.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_output_in_any_encoding_does_not_crash(tmp_path: Path, encoding: str) -> None:
    """A file name that is not text, and typographic characters, in a terminal that has neither."""
    folder = tmp_path / os.fsdecode(b"res\xff\xe2\x89\xa5")
    write_result(folder, num_runs=1)

    for verb in (["check", str(folder)], ["score", str(folder)], ["explain", "--all"]):
        done = tta(*verb, env={"PYTHONIOENCODING": encoding})
        assert done.returncode in (0, 1), done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_a_command_is_130_and_one_sentence(tmp_path: Path, number: int) -> None:
    """Ctrl-C while a command is busy: no traceback."""
    code = (
        "import sys, time\n"
        "from harness import cli\nfrom harness.commands import explain\n"
        "def wait(arguments):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "explain.call = wait\n"
        "sys.exit(cli.main(['explain', 'LOG001']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    begin = time.monotonic()
    _, errors = process.communicate(timeout=300)

    assert process.returncode == 130
    assert time.monotonic() - begin < 20
    assert errors.startswith("tta: interrupted")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("level", ["1", "2"])
@pytest.mark.parametrize("words", [("explain", "LOG001"), ("check", "."), ("--version",)])
def test_python_without_assertions_is_refused(words: tuple[str, ...], level: str) -> None:
    """Without docstrings `explain` printed nothing, with 0; without assertions nothing guards what is assumed."""
    done = tta(*words, env={"PYTHONOPTIMIZE": level})

    sentence = "tta: `tta` relies on assertions and docstrings: run Python without -O, -OO and PYTHONOPTIMIZE\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


@pytest.mark.parametrize("words", [("doctor",), ("score", "."), ("board", "build", ".", "--out", "site")])
def test_working_directory_that_was_deleted_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    """The system's error has no name: "No such file or directory" alone says nothing."""
    place = tmp_path / "gone"
    place.mkdir()
    command = f'rmdir "{place}" && exec "{sys.executable}" -P -m harness.cli {" ".join(words)}'

    done = subprocess.run(
        ["sh", "-c", command],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(PWD=str(place)),
        check=False,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tta: {place}: No such file or directory\n"
