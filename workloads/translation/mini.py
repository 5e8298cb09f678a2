"""The data of the mini suite: dates, times, amounts and numbers in words, English and German.

Names, patterns and plurals come from CLDR through Babel, number words from num2words; the sentence frames are written
here. Every sentence has one to three *values* (a number, a day, a time of day, a sum). No value is in two splits: the
test values do not occur in training, though the words they are made of do.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Literal

import numpy as np

from harness.errors import DataError

Pair = tuple[str, str]  # English, German
Span = Literal["year", "month", "week", "day", "hour", "minute"]  # CLDR's names, as Babel types them

MINI_SEED = 5345
NUM_PAIRS = {"train": 20_000, "validation": 400, "test": 400}
SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}  # of the values of each kind; disjoint
CORPUS_SHA256 = "efcf5ac7a01461b1d85b8cf285837884a532dc7b743753b0e20b1960bafc60c5"
WANTED = "babel 2.18 and num2words 0.5.14"

FIRST_DAY = datetime.date(1900, 1, 1)
NUM_VALUES = {
    "tens": 79,  # numbers from 21
    "hundreds": 900,  # numbers from 100
    "thousands": 9_000,  # numbers from 1,000
    "millions": 900_000,  # numbers from 100,000
    "day": 73_049,  # days from 1900 to 2099
    "minute": 1_440,  # of the day
    "cents": 99_900,  # sums from 1.00
}
NUMBERS = ("tens", "hundreds", "thousands", "millions")  # equally likely
FIRST = {"tens": 21, "hundreds": 100, "thousands": 1000, "millions": 100_000, "day": 0, "minute": 0, "cents": 100}
CURRENCIES = (
    "EUR", "USD", "GBP", "CHF", "JPY", "SEK", "PLN", "CZK", "INR", "CAD", "HUF", "TRY", "NOK", "DKK",
    "BRL", "MXN",
)  # fmt: skip
LENGTHS = ("length-kilometer", "length-meter", "length-mile")
GOODS = ("mass-kilogram", "mass-tonne", "volume-liter", "area-hectare", "area-square-meter", "energy-kilowatt-hour")
READINGS = ("speed-kilometer-per-hour", "temperature-celsius", "digital-megabyte", "power-kilowatt")
SPANS: tuple[Span, ...] = ("year", "month", "week", "day", "hour", "minute")
TERRITORIES = (
    "DE", "AT", "DK", "SE", "NO", "FI", "PL", "CZ", "HU", "IT", "ES", "PT", "FR", "GR", "IE", "IS", "BE", "JP", "IN",
    "BR", "CA", "MX", "EG", "KE", "RO", "BG", "HR", "EE", "LV", "LT", "MA", "PE", "CL", "AU", "NZ", "ZA",
)  # fmt: skip


def split_values() -> dict[str, dict[str, list[int]]]:
    """The values that a split may use, by split and kind; disjoint, the same on every machine."""
    pools: dict[str, dict[str, list[int]]] = {split: {} for split in SHARES}
    for stream, (kind, num) in enumerate(NUM_VALUES.items()):
        order = np.random.RandomState(MINI_SEED + stream).permutation(num) + FIRST[kind]
        first = 0
        for split, share in SHARES.items():
            size = round(num * share) if split != "test" else num - first
            pools[split][kind] = sorted(order[first : first + size].tolist())
            first += size
    return pools


class Phrases:
    """Draws phrases in both languages, from the values of one split; `used` collects (kind, value)."""

    def __init__(self, random: np.random.RandomState, pools: Mapping[str, list[int]]) -> None:
        from babel import Locale
        from num2words import num2words

        self.random = random
        self.pools = pools
        self.words: Callable[..., str] = num2words
        self.locales = {"en": Locale("en"), "de": Locale("de")}
        self.used: list[tuple[str, int]] = []

    def draw(self, kind: str) -> int:
        pool = self.pools[kind]
        value = pool[self.random.randint(len(pool))]
        self.used.append((kind, value))
        return value

    def one_of(self, names: tuple[str, ...]) -> str:
        return names[self.random.randint(len(names))]

    def _draw_number(self) -> int:
        return self.draw(self.one_of(NUMBERS))

    def number(self) -> Pair:
        return self._number_words(self._draw_number())

    def _number_words(self, number: int, to: str = "cardinal") -> Pair:
        english, german = (self.words(number, to=to, lang=lang) for lang in ("en", "de"))
        return english.replace(",", ""), german

    def ordinal(self) -> Pair:
        return self._number_words(self._draw_number(), "ordinal")

    def amount(self) -> Pair:
        from babel.numbers import get_currency_name

        number = self._draw_number()
        code = self.one_of(CURRENCIES)
        names = (get_currency_name(code, count=number, locale=locale) for locale in self.locales.values())
        english, german = (f"{words} {name}" for words, name in zip(self._number_words(number), names, strict=True))
        return english, german

    def sum(self) -> Pair:
        """A sum in digits: separators and the position of the currency differ."""
        from babel.numbers import format_currency

        cents = self.draw("cents")
        code = self.one_of(CURRENCIES[:4])
        english, german = (_plain(format_currency(cents / 100, code, locale=lang)) for lang in ("en", "de"))
        return english, german

    def measure(self, units: tuple[str, ...]) -> Pair:
        from babel.units import format_unit

        number = self._draw_number()
        unit = self.one_of(units)
        return self._in_words(number, *(format_unit(number, unit, locale=lang) for lang in ("en", "de")))

    def _in_words(self, number: int, english: str, german: str) -> Pair:
        """The phrases with the number in words instead of digits."""
        from babel.numbers import format_decimal

        words = self._number_words(number)
        return (
            _plain(english).replace(format_decimal(number, locale="en"), words[0]),
            _plain(german).replace(format_decimal(number, locale="de"), words[1]),
        )

    def span(self, is_past: bool) -> Pair:
        """`in n days` or `n days ago`: the German noun is in the dative."""
        from babel.dates import TIMEDELTA_UNITS, format_timedelta

        number = self._draw_number()
        unit = SPANS[self.random.randint(len(SPANS))]
        delta = datetime.timedelta(seconds=(-number if is_past else number) * dict(TIMEDELTA_UNITS)[unit])
        phrases = (format_timedelta(delta, unit, 1e9, add_direction=True, locale=lang) for lang in ("en", "de"))
        return self._in_words(number, *phrases)

    def day(self) -> datetime.date:
        return FIRST_DAY + datetime.timedelta(days=self.draw("day"))

    def formatted(self, day: datetime.date, english: str, german: str) -> Pair:
        """The day in CLDR patterns, one per language."""
        from babel.dates import format_date

        return format_date(day, english, locale="en"), format_date(day, german, locale="de")

    def day_words(self, day: datetime.date) -> tuple[Pair, Pair]:
        """The ordinal of the day of the month, and the year."""
        return self._number_words(day.day, "ordinal"), self._number_words(day.year, "year")

    def time(self) -> Pair:
        from babel.dates import format_time

        minute = self.draw("minute")
        at = datetime.time(minute // 60, minute % 60)
        return _plain(format_time(at, "short", locale="en")), format_time(at, "short", locale="de")

    def time_words(self) -> Pair:
        from babel.dates import format_time

        minute = self.draw("minute")
        hour, minute = divmod(minute, 60)
        of_day = format_time(datetime.time(hour, minute), "B", locale="en")
        twelve, twenty_four = self._number_words((hour - 1) % 12 + 1)[0], self._number_words(hour)[1]
        minutes = self._number_words(minute)
        english = f"{twelve} {'oh ' * (minute < 10)}{minutes[0]} {of_day}" if minute else f"{twelve} o'clock {of_day}"
        german = ("ein" if hour == 1 else twenty_four) + " Uhr" + (f" {minutes[1]}" if minute else "")
        return english, german

    def territory(self) -> Pair:
        code = self.one_of(TERRITORIES)
        return self.locales["en"].territories[code], self.locales["de"].territories[code]


def _plain(text: str) -> str:
    """Replace CLDR's no-break spaces, wide and narrow, by plain ones."""
    return text.replace("\u202f", " ").replace("\u00a0", " ")


def _begun(text: str) -> str:
    """Capitalise the first letter, as at the start of a sentence."""
    return text[0].upper() + text[1:]


def _on_day(p: Phrases) -> Pair:
    """The date after `on`, entirely in words."""
    day = p.day()
    month, (ordinal, year) = p.formatted(day, "MMMM", "MMMM"), p.day_words(day)
    weekday = p.formatted(day, "EEEE", "EEEE")
    return (
        f"{weekday[0]}, the {ordinal[0]} of {month[0]} {year[0]}",
        f"{weekday[1]}, dem {ordinal[1]}n {month[1]} {year[1]}",
    )


def _leaves(p: Phrases) -> Pair:
    day, time = _on_day(p), p.time()
    return f"The train leaves on {day[0]} at {time[0]}.", f"Der Zug fährt am {day[1]} um {time[1]} ab."


def _signed(p: Phrases) -> Pair:
    day, place = _on_day(p), p.territory()
    return (
        f"The contract was signed in {place[0]} on {day[0]}.",
        f"Der Vertrag wurde am {day[1]} in {place[1]} signiert.",
    )


def _invoice(p: Phrases) -> Pair:
    day, amount = p.formatted(p.day(), "MMMM d, y", "d. MMMM y"), p.amount()
    return f"The invoice of {day[0]} comes to {amount[0]}.", f"Die Rechnung vom {day[1]} beträgt {amount[1]}."


def _due(p: Phrases) -> Pair:
    amount, span = p.amount(), p.span(is_past=False)
    return _begun(f"{amount[0]} are due {span[0]}."), _begun(f"{span[1]} sind {amount[1]} fällig.")


def _paid(p: Phrases) -> Pair:
    amount, measure = p.amount(), p.measure(GOODS)
    return f"We paid {amount[0]} for {measure[0]}.", f"Für {measure[1]} haben wir {amount[1]} bezahlt."


def _between(p: Phrases) -> Pair:
    a, b, measure = p.territory(), p.territory(), p.measure(LENGTHS)
    return f"From {a[0]} to {b[0]} it is {measure[0]}.", f"Von {a[1]} nach {b[1]} sind es {measure[1]}."


def _guest(p: Phrases) -> Pair:
    ordinal, span, place = p.ordinal(), p.span(is_past=True), p.territory()
    return (
        f"The {ordinal[0]} guest came from {place[0]} {span[0]}.",
        f"Der {ordinal[1]} Gast kam {span[1]} aus {place[1]}.",
    )


def _clock(p: Phrases) -> Pair:
    time, measure = p.time_words(), p.measure(READINGS)
    return f"At {time[0]} we measured {measure[0]}.", f"Um {time[1]} haben wir {measure[1]} gemessen."


def _appointment(p: Phrases) -> Pair:
    day, time = p.formatted(p.day(), "EEEE, MMMM d, y", "EEEE, d. MMMM y"), p.time_words()
    return f"{day[0]}, {time[0]}", f"{day[1]}, {time[1]}"


def _price(p: Phrases) -> Pair:
    total, measure = p.sum(), p.measure(GOODS)
    return _begun(f"{measure[0]} cost {total[0]}."), _begun(f"{measure[1]} kosten {total[1]}.")


def _counted(p: Phrases) -> Pair:
    first, second, place = p.number(), p.number(), p.territory()
    return (
        f"Of {first[0]} visitors {second[0]} were from {place[0]}.",
        f"Von {first[1]} Besuchern stammten {second[1]} aus {place[1]}.",
    )


def _open(p: Phrases) -> Pair:
    first, last = p.time(), p.time()
    return f"The shop is open from {first[0]} to {last[0]}.", f"Das Geschäft ist von {first[1]} bis {last[1]} geöffnet."


def _worth(p: Phrases) -> Pair:
    first, second = p.amount(), p.amount()
    return _begun(f"{first[0]} are worth {second[0]}."), _begun(f"{first[1]} sind {second[1]} wert.")


def _prize(p: Phrases) -> Pair:
    ordinal, amount, place = p.ordinal(), p.amount(), p.territory()
    return (
        f"The {ordinal[0]} prize of {amount[0]} went to {place[0]}.",
        f"Der {ordinal[1]} Preis von {amount[1]} ging nach {place[1]}.",
    )


FRAMES = (
    _leaves, _signed, _invoice, _due, _paid, _between, _guest, _clock, _appointment, _price, _counted, _open, _worth,
    _prize,
)  # fmt: skip


def make_mini() -> dict[str, list[Pair]]:
    """Generate train, validation and test pairs.

    Raises:
        DataError: the installed Babel or num2words words the phrases differently.
    """
    splits = corpus()
    lines = "".join(f"{split}\t{en}\t{de}\n" for split, pairs in splits.items() for en, de in pairs)
    found = hashlib.sha256(lines.encode()).hexdigest()
    if found != CORPUS_SHA256:
        have = " and ".join(f"{name} {version(name)}" for name in ("babel", "num2words"))
        raise DataError(f"phrases by {have} have sha256 {found}, expected {CORPUS_SHA256}, which needs {WANTED}")
    return splits


def corpus() -> dict[str, list[Pair]]:
    """The pairs as the installed libraries word them; no English sentence occurs twice in a split."""
    pools = split_values()
    splits = {}
    for stream, (split, num) in enumerate(NUM_PAIRS.items()):
        phrases = Phrases(np.random.RandomState(MINI_SEED + 100 + stream), pools[split])
        pairs: dict[str, str] = {}
        while len(pairs) < num:
            english, german = FRAMES[phrases.random.randint(len(FRAMES))](phrases)
            pairs.setdefault(english, german)
        splits[split] = list(pairs.items())
    return splits
