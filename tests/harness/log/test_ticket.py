"""Tickets: seeds made of both sides' nonces, recomputable by anybody."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import chisquare

from harness.log import run_log
from harness.log.ticket import Ticket, commitment_of, config_digest, nonce_of, parse_ticket, seed_of, ticket_of
from tests import fabricate
from tests.killing import ROOT
from tests.witnessing import give_tickets, ticket

# What the documents show: from what a closed campaign publishes, with programs that every system has.
SHELL = """
nonce=$(printf '%s:%s' "$CAMPAIGN" "$NUMBER" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$SECRET" | sed 's/.* //')
digest=$(printf 'tta-seed%s%s%s' "$TICKET" "$nonce" "$CLIENT_NONCE" | sha256sum)
echo $(( 0x$(printf '%.8s' "$digest") >> 1 ))
"""


def test_seeds_are_uniform() -> None:
    """Over 2^31, as chi-square over 256 ranges sees it; and no two tickets in 20,000 have the same nonce."""
    secret = hashlib.sha256(b"a campaign").digest()
    nonces = [nonce_of(secret, "c" * 32, number) for number in range(20_000)]
    seeds = [seed_of(f"{number:032x}", nonce, "ab" * 32) for number, nonce in enumerate(nonces)]
    counts = [0] * 256
    for seed in seeds:
        assert 0 <= seed < 1 << 31
        counts[seed >> 23] += 1

    assert len(set(nonces)) == len(nonces)
    assert chisquare(counts).pvalue > 1e-3  # what is drawn here is always the same


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_a_shell_makes_the_seed_again() -> None:
    """From the campaign's secret, without this program, by the lines of the document."""
    assert f"```bash{SHELL}```" in (ROOT / "docs" / "explanation" / "witness.md").read_text()
    wanted, secret = ticket(3), bytes(range(32))
    environment = {
        "PATH": "/usr/bin:/bin", "CAMPAIGN": wanted.campaign, "NUMBER": str(wanted.number), "SECRET": secret.hex(),
        "TICKET": wanted.ticket, "CLIENT_NONCE": wanted.client_nonce,
    }  # fmt: skip
    made = subprocess.run(["sh", "-c", SHELL], env=environment, capture_output=True, text=True, check=True)

    assert int(made.stdout) == wanted.seed


def test_both_sides_and_the_ticket_decide_the_seed() -> None:
    """Another of any of the three makes another seed."""
    seed = seed_of("a" * 32, "b" * 64, "c" * 64)
    others = [seed_of("b" * 32, "b" * 64, "c" * 64), seed_of("a" * 32, "c" * 64, "c" * 64),
              seed_of("a" * 32, "b" * 64, "b" * 64)]  # fmt: skip

    assert seed not in others
    assert commitment_of(b"a") != commitment_of(b"b")


def test_configurations_that_differ_in_seeds_are_the_same() -> None:
    """And in nothing else."""
    config = {"seed": 1, "weights_seed": 2, "noise_seed": 3, "precision": "fp32"}

    assert config_digest(config) == config_digest({"seed": 9, "precision": "fp32"})
    assert config_digest(config) != config_digest({**config, "precision": "bf16"})


@pytest.mark.parametrize(
    "change",
    [
        {"campaign": "c"}, {"ticket": 7}, {"server_nonce": "ab"}, {"client_nonce": None}, {"witness": ""},
        {"number": -1}, {"seed": 1.5}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_ticket_is_refused(change: dict[str, Any]) -> None:
    """By its field."""
    record = {**ticket(0).record(), **change}

    with pytest.raises(ValueError, match=next(iter(change)) if "more" not in change else "exactly"):
        parse_ticket(record)


def test_a_log_has_its_ticket(tmp_path: Path) -> None:
    """One that cannot be read is none, and so is none."""
    steps = fabricate.events()
    without = run_log.read(fabricate.write_log(tmp_path / "without.txt", steps))
    give_tickets([steps])
    with_one = run_log.read(fabricate.write_log(tmp_path / "with.txt", steps))
    fabricate.find(steps, "tta_ticket").value = 7
    with_none = run_log.read(fabricate.write_log(tmp_path / "none.txt", steps))

    assert ticket_of(without) is None
    assert ticket_of(with_one) == ticket(0)
    assert isinstance(ticket_of(with_one), Ticket)
    assert ticket_of(with_none) is None
