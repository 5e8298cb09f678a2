"""eSpeak NG in its own process: requests in, speech out.

The library keeps state from one utterance to the next (oscillator phases, random numbers), even across its own
termination; only the same utterances in the same order in a fresh process give the same bytes. So this file is run as a
script: a JSON list of [text, voice, words per minute, pitch, pitch range] on standard input; on standard output, for
each of them, the number of samples (int32) and the samples (int16, 22,050 Hz), both little-endian.
"""

from __future__ import annotations

import ctypes
import json
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

Request = tuple[str, str, int, int, int]

VERSION = "1.52.0"
SAMPLE_HZ = 22050
# From speak_lib.h.
_SYNCHRONOUS = 2
_UTF8 = 1
_BY_CHARACTER = 1
_RATE, _PITCH, _RANGE = 1, 3, 4


class SpeechError(Exception):
    """eSpeak NG is missing, is another version, or failed; the message is for the user."""


def spoken(requests: Sequence[Request]) -> Iterator[bytes]:
    """Yield the samples of each utterance, int16 little-endian at 22,050 Hz, spoken by a fresh process.

    Raises:
        SpeechError: the process failed.
    """
    command = [sys.executable, "-P", str(Path(__file__).resolve())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            process.stdin.write(json.dumps(requests).encode())
            process.stdin.close()
        except BrokenPipeError:
            pass  # it ended before reading everything; its error message is read below
        for _ in requests:
            header = process.stdout.read(4)
            size = 2 * struct.unpack("<i", header)[0] if len(header) == 4 else 0
            samples = process.stdout.read(size)
            if not size or len(samples) < size:
                process.kill()
                lines = process.stderr.read().decode(errors="replace").strip().splitlines()
                raise SpeechError(lines[-1] if lines else "eSpeak NG ended before it had spoken everything")
            yield samples


def _serve() -> None:
    try:
        import espeakng_loader

        library = ctypes.CDLL(espeakng_loader.get_library_path())
        data_path = espeakng_loader.get_data_path()
    except (ImportError, OSError) as error:
        sys.exit(f"eSpeak NG cannot be loaded ({error}); install the package espeakng-loader")
    library.espeak_Info.restype = ctypes.c_char_p
    library.espeak_Synth.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int,
        ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    version = library.espeak_Info(None).decode()
    if version != VERSION:
        sys.exit(f"eSpeak NG is version {version}, expected {VERSION}")
    if library.espeak_Initialize(_SYNCHRONOUS, 0, str(data_path).encode(), 0) != SAMPLE_HZ:
        sys.exit(f"eSpeak NG could not be started with the data in {data_path}")
    library.espeak_ng_SetRandSeed(ctypes.c_long(1))  # the default seed is the time of day
    parts: list[bytes] = []

    def take(samples: int | None, count: int, _events: int | None) -> int:
        if samples and count > 0:
            parts.append(ctypes.string_at(samples, 2 * count))
        return 0

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(take)
    library.espeak_SetSynthCallback(callback)
    for text, voice, rate, pitch, pitch_range in json.load(sys.stdin):
        parts.clear()
        if library.espeak_SetVoiceByName(voice.encode()):
            sys.exit(f"eSpeak NG has no voice {voice!r}")
        for parameter, value in ((_RATE, rate), (_PITCH, pitch), (_RANGE, pitch_range)):
            library.espeak_SetParameter(parameter, value, 0)
        content = text.encode()
        if library.espeak_Synth(content, len(content) + 1, 0, _BY_CHARACTER, 0, _UTF8, None, None):
            sys.exit(f"eSpeak NG could not speak {text!r}")
        samples = b"".join(parts)
        sys.stdout.buffer.write(struct.pack("<i", len(samples) // 2) + samples)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
