"""The data of the mini suite: commands and digit strings, spoken by eSpeak NG in many voices, in noise.

Everything after the synthesis is in integers (or in exact floating point), and the random streams are `RandomState`'s,
frozen by numpy's policy (NEP 19).

Dimension letters: S samples.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import hashlib
import math
import zlib

import numpy as np
import numpy.typing as npt

from harness.errors import DataError
from workloads.speech_recognition.dataset import SAMPLE_HZ, Utterances, encoded
from workloads.speech_recognition.espeak import Request, SpeechError, spoken

Ints = npt.NDArray[np.int64]

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ROOMS = "kitchen bedroom garage hall garden"
COMMANDS = (
    "turn on off the light heater fan radio set timer alarm to minutes hours seconds call move left right up down "
    "steps meters open close door window curtain"
)
VOCABULARY = tuple(sorted({*DIGITS, *ROOMS.split(), *COMMANDS.split()}))

ACCENTS = ("en-us", "en", "en-gb-x-rp", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-us-nyc", "en-029")
# The speakers: eSpeak NG's variants, without whisperers and most robots. Variants that share at least half of their
# settings (such as edward and edward2) are in the same split.
VOICES = {
    "train": (
        "Alex", "Andy", "Annie", "Denis", "Diogo", "Gene", "Gene2", "Henrique", "Hugo", "Jacky", "Marco", "Mario",
        "Michael", "Mr serious", "Nguyen", "RicishayMax", "RicishayMax2", "RicishayMax3", "Storm", "Tweaky", "adam",
        "anika", "aunty", "benjamin", "caleb", "ed", "edward", "edward2", "f1", "f4", "f5", "grandma", "grandpa",
        "gustave", "iven", "iven2", "iven3", "iven4", "john", "kaukovalta", "m1", "m2", "m4", "m6", "m8", "marcelo",
        "max", "michel", "miguel", "norbert", "pablo", "pedro", "quincy", "robert", "sandro", "shelby", "steph",
        "steph2", "steph3", "victor",
    ),
    "validation": ("Andrea", "Lee", "boris", "f2", "m5", "linda", "rob", "travis"),
    "test": ("Alicia", "Mike", "Reed", "antonio", "belinda", "david", "f3", "ian", "m3", "m7", "paul", "zac"),
}  # fmt: skip
NUM_UTTERANCES = {"train": 6000, "validation": 800, "test": 800}
SEED = 8000
# Of the synthesised speech, before any processing.
SPOKEN_SHA256 = {
    "train": "fc73a0cb711edca93cb1a33e4f36d7056c3f2e546fa50bea2aac3487fcd2099f",
    "validation": "366c612ec9c38bc2f00eb07b2cdc59b918ab99e5b39ebf5a490b7f47390153cc",
    "test": "e77a9695617fb1f2f2acf614920e6e25428a61d6e13612043261406ede8926c4",
}
NOISES = ("hiss", "rumble", "breath", "machine", "babble")
# 4096 * 10 ** (-decibels / 20) for 25, 20, 15 and 10 dB of signal over noise.
NOISE_LEVELS = (230, 410, 728, 1295)
MARGIN = 400  # samples kept on either side of the audible part
AUDIBLE = 100  # of 32,768


def render() -> dict[str, Utterances]:
    """Render train, validation and test of the mini suite: no voice or text of one split occurs in another.

    Raises:
        DataError: eSpeak NG is missing, or its speech differs from that of the benchmark.
    """
    splits = {}
    for stream, name in enumerate(NUM_UTTERANCES):
        random = np.random.RandomState(SEED + stream)
        requests = script(name, random)
        splits[name] = Utterances(_recorded(name, requests, random), [r[0].split() for r in requests])
    return splits


def script(split: str, random: np.random.RandomState) -> list[Request]:
    """Requests for a split: the voices take turns, everything else is drawn."""
    requests: list[Request] = []
    voices = VOICES[split]
    while len(requests) < NUM_UTTERANCES[split]:
        text = " ".join(_text(random))
        if split_of(text) == split:
            voice = f"{ACCENTS[random.randint(len(ACCENTS))]}+{voices[len(requests) % len(voices)]}"
            rate, pitch, pitch_range = random.randint(150, 241), random.randint(20, 81), random.randint(20, 81)
            requests.append((text, voice, int(rate), int(pitch), int(pitch_range)))
    return requests


def split_of(text: str) -> str:
    """The only split in which a text may occur."""
    return {0: "test", 1: "validation"}.get(zlib.crc32(text.encode()) % 10, "train")


def _text(random: np.random.RandomState) -> list[str]:
    def one_of(words: str) -> str:
        choice = words.split()
        return choice[random.randint(len(choice))]

    def digits(fewest: int, most: int) -> list[str]:
        return [DIGITS[random.randint(10)] for _ in range(random.randint(fewest, most + 1))]

    match random.randint(8):
        case 0:
            return ["turn", one_of("on off"), "the", one_of(ROOMS), one_of("light heater fan radio")]
        case 1:
            return ["set", one_of("timer alarm"), "to", *digits(1, 2), one_of("minutes hours seconds")]
        case 2:
            return ["call", *digits(3, 4)]
        case 3:
            return ["move", one_of("left right up down"), *digits(1, 2), one_of("steps meters")]
        case 4:
            return [one_of("open close"), "the", one_of(ROOMS), one_of("door window curtain")]
        case _:
            return digits(3, 6)


def _recorded(split: str, requests: list[Request], random: np.random.RandomState) -> list[npt.NDArray[np.uint8]]:
    """Mu-law codes of the requests: spoken, downsampled to 8 kHz, trimmed, and each mixed with a noise."""
    digest = hashlib.sha256()
    voices = []
    try:
        for samples in spoken(requests):
            digest.update(samples)
            speech_S = downsampled(np.frombuffer(samples, "<i2"))
            audible = np.flatnonzero(np.abs(speech_S) > AUDIBLE)
            voices.append(speech_S[max(0, audible[0] - MARGIN) : audible[-1] + MARGIN].astype(np.int32))
    except SpeechError as error:
        raise DataError(str(error)) from None
    if digest.hexdigest() != SPOKEN_SHA256[split]:
        raise DataError(
            f"eSpeak NG's speech for the {split} split has SHA-256 {digest.hexdigest()}, expected "
            f"{SPOKEN_SHA256[split]}: this would be another data set"
        )
    recordings = []
    for voice_S in voices:
        silences = [np.zeros(random.randint(200, 1200), np.int64) for _ in range(2)]
        speech_S = np.concatenate([silences[0], voice_S, silences[1]])
        noise_S = _noise(random, len(speech_S), voices)
        # Energies are exact integers and square roots are correctly rounded, so the mix is the same everywhere.
        ratio = math.sqrt(int((speech_S**2).sum()) / (int((noise_S**2).sum()) + 1))
        level = NOISE_LEVELS[random.randint(len(NOISE_LEVELS))] / 4096 * ratio
        heard_S = speech_S + np.rint(noise_S * level).astype(np.int64)
        peak = random.randint(2000, 28000)
        recordings.append(encoded(heard_S * peak // max(int(np.abs(heard_S).max()), 1)))
    return recordings


def _noise(random: np.random.RandomState, size: int, voices: list[npt.NDArray[np.int32]]) -> Ints:
    white_S: Ints = random.randint(-1000, 1000, size + 12)
    match NOISES[random.randint(len(NOISES))]:
        case "hiss":
            return np.diff(white_S)[:size]
        case "rumble":
            total: Ints = np.cumsum(white_S)
            return total[12:] - total[:-12]
        case "breath":
            return white_S[:size]
        case "machine":  # a triangle of 60 to 400 Hz and a sawtooth of three times its frequency
            phase = np.arange(size) * (random.randint(60, 400) * 65536 // SAMPLE_HZ) + random.randint(65536)
            tone_S: Ints = (np.abs((phase & 65535) - 32768) - 16384) // 8 + ((phase * 3 & 65535) - 32768) // 16
            return tone_S
        case _:  # babble: four other utterances of the split at once
            several_S = np.zeros(size, np.int64)
            for _ in range(4):
                other_S = voices[random.randint(len(voices))]
                several_S += np.resize(np.roll(other_S, random.randint(len(other_S))), size)
            return several_S


# ---- 22,050 Hz to 8,000 Hz: 160 samples for every 441

_IN, _OUT, _TAPS = 441, 160, 32


def _filters() -> npt.NDArray[np.float64]:
    """Filters (160, 32): a windowed sinc with cut-off 3.6 kHz for each of the 160 offsets, in 1/2**14."""
    offset = np.arange(_OUT)[:, None] * _IN % _OUT / _OUT
    t = np.arange(_TAPS) - _TAPS // 2 + 1 - offset
    cutoff = 2 * 3600 / 22050
    weights = np.sinc(cutoff * t) * (0.5 + 0.5 * np.cos(np.pi * np.clip(2 * t / _TAPS, -1, 1)))
    rounded: npt.NDArray[np.float64] = np.rint(weights / weights.sum(1, keepdims=True) * 2**14)
    return rounded


_FILTERS = _filters()


def downsampled(speech_S: npt.NDArray[np.int16]) -> Ints:
    """`speech_S` at 8 kHz. Products and sums are integers below 2**53, so the order of summation does not matter."""
    padded = np.pad(speech_S.astype(np.float64), (_TAPS // 2 - 1, _TAPS))
    wanted = np.arange(len(speech_S) * _OUT // _IN)
    windows = np.lib.stride_tricks.sliding_window_view(padded, _TAPS)[wanted * _IN // _OUT]
    # einsum without `optimize` avoids BLAS, whose threads would wait for each other longer than they compute.
    heard_S: Ints = np.rint(np.einsum("st,st->s", windows, _FILTERS[wanted % _OUT]) / 2**14).astype(np.int64)
    return heard_S
