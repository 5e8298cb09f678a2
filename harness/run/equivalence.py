"""Whether a reimplementation does the reference's mathematics: measured, from the same weights and the same batches.

The reference trains from each drawn seed. Then others follow it, each from the reference's weights at every step, so
that no difference grows from step to step: the reference itself from weights whose last bits differ; the same by other
kernels, which sum in another order, for a part of the steps; and the module. What the former two differ by, times
`FACTOR`, is what the last may.

The last bits are for networks of products alone, where other kernels often give the same bits, and for what is rare: a
unit whose input is next to zero, an update of Adam's where the gradient is next to nothing.

The module is imported when the reference has done all its steps: what it changes in torch, or in the workload, as it is
imported changes the module's steps alone, and shows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError, printable
from harness.log.equivalence import LARGEST, MOST, Difference
from harness.run.replay import Observer, World, limit_workspace, other_kernels, together
from harness.submission.module import CONVERSIONS
from harness.workload import Session

if TYPE_CHECKING:
    from torch import Tensor, nn

FACTOR = 20.0  # on what another order of summation changes; chosen by rounds of tests.equivalences
# Relative differences up to here are never too large: so many units in the last place of what is multiplied, and of
# fp32, in which sums are made. One term after the other, as a compiler writes it, the norm of translation's gradients
# was 50 of the latter away.
FLOOR_ULPS, FLOOR_ULPS_OF_SUMS = 4.0, 256.0
# Other kernels follow so many times fewer steps: a convolution by torch's own kernels takes 20 times as long on a CPU.
NOISE_SHARE = 4
# Mantissa bits of what is multiplied, by precision.
_BITS = {"fp32": 23, "tf32": 10, "bf16": 7, "fp16": 10}
_MAX_SEED = 1 << 31

Weights = dict[str, "Tensor"]
Convert = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Watcher(Observer):
    """Also the norm of the gradients, summed over the updates of a block."""

    def __init__(self) -> None:
        super().__init__()
        self._norm = 0.0

    def __call__(self, parts: Sequence[tuple[Any, ...]], network: nn.Module) -> None:
        super().__call__(parts, network)
        gradients = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
        self._norm += math.sqrt(sum(gradient.detach().double().square().sum().item() for gradient in gradients))

    def taken_norm(self) -> float:
        """Return the norm of what was seen since the last call."""
        found, self._norm = self._norm, 0.0
        return found


@dataclass(frozen=True, slots=True)
class Step:
    """One global batch of a session. before, after: its weights on the host, by the reference's names.

    before: those that the session came to by itself; only then does a follower get the reference's.
    """

    loss: float
    norm: float
    batch: str
    before: Weights
    after: Weights


@dataclass(frozen=True, slots=True)
class Layout:
    """How the weights of a module correspond to the reference's, if their names and shapes are others."""

    to_reference: Convert = dict
    from_reference: Convert = dict


class Parts(Mapping[str, Callable[..., Any]]):
    """The functions of a reimplementation as `RunConfig.parts`: `build_model` gets the network that the reference
    would have built, with its weights, and returns its own.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._functions = {name: function for name, function in functions.items() if name not in CONVERSIONS}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the part; for `build_model` one with the arguments of `default`, the reference's."""
        if name != "build_model" or name not in self._functions:
            return self._functions.get(name, default)

        def build(*arguments: Any, **options: Any) -> nn.Module:
            import torch

            network = default(*arguments, **options)
            # What the module draws must not change what the reference draws after its weights.
            with torch.random.fork_rng():
                found: nn.Module = self._functions[name](network)
            return found

        return build


def layout_of(functions: Mapping[str, Convert]) -> Layout:
    """Return how the weights of a module with these functions correspond to the reference's."""
    return Layout(**{name: functions[name] for name in CONVERSIONS if name in functions})


@dataclass(slots=True)
class Distance:
    """What one follower of the reference differs by, of each quantity (and tensor): the largest, and all values.

    found: (quantity, tensor or "", seed, step) and the relative difference.
    """

    found: dict[tuple[str, str, int, int], float] = field(default_factory=dict)

    def largest(self) -> dict[tuple[str, str], float]:
        """By quantity and tensor, over all seeds and steps."""
        most: dict[tuple[str, str], float] = {}
        for (quantity, tensor, _, _), value in self.found.items():
            most[quantity, tensor] = max(value, most.get((quantity, tensor), 0.0))
        return most


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the three sessions of a measurement share.

    seed_all: seeds all generators. seeds, steps_per_seed: what is trained. data_dir, global_batch_size: as in a run.
    """

    seed_all: Callable[[int], None]
    seeds: Sequence[int]
    steps_per_seed: int
    data_dir: Path
    global_batch_size: int
    precision: str
    world: World

    def steps(
        self,
        opened: tuple[Session, Layout],
        watcher: Watcher,
        seed: int,
        num_steps: int,
        course: list[Step] | None,
        is_nudged: bool = False,
    ) -> list[Step]:
        """Train the first steps of a seed.

        course: of the reference, to follow; None: a course of its own. is_nudged: from weights whose last bits differ.
        """
        session, layout = opened
        try:
            return list(islice(_trained(self, session, watcher, seed, layout, course, is_nudged), num_steps))
        finally:
            session.close()


@dataclass(frozen=True, slots=True)
class Reference:
    """The steps of the reference from each seed, and what other kernels change in them."""

    courses: Mapping[int, list[Step]]
    noise: Distance


def reference_of(measurement: Measurement, opened: Callable[[int, Observer], Session]) -> Reference:
    """Train the reference from each seed, and let other kernels follow the first steps of each.

    opened: a session of the reference with that seed and that observer.

    Raises:
        UsageError: it diverges.
    """
    limit_workspace()
    courses: dict[int, list[Step]] = {}
    for seed in measurement.seeds:
        watcher = Watcher()
        course = measurement.steps((opened(seed, watcher), Layout()), watcher, seed, measurement.steps_per_seed, None)
        for number, step in enumerate(course):
            if not (math.isfinite(step.loss) and math.isfinite(step.norm)):
                raise UsageError(
                    f"at step {number} of the seed {seed} the reference's own loss or gradients are not finite; there "
                    "is nothing to compare with"
                )
        courses[seed] = course
    noise = Distance()
    steps = measurement.steps_per_seed
    for num_steps, kernels in ((steps, nullcontext()), (-(-steps // NOISE_SHARE), other_kernels())):
        with kernels:
            for seed, course in courses.items():
                watcher = Watcher()
                opening = opened(seed, watcher), Layout()
                _compare(noise, seed, course, measurement.steps(opening, watcher, seed, num_steps, course, True), True)
    return Reference(courses, noise)


def differences(
    measurement: Measurement, reference: Reference, opened: Callable[[int, Observer], tuple[Session, Layout]]
) -> dict[str, Any]:
    """Let a module follow the reference; return the `quantities` of `tta_equivalent`.

    opened: a session with the module's parts, that seed and that observer.

    Raises:
        UsageError: the module's weights cannot be brought into the reference's form.
    """
    own = Distance()
    for seed, course in reference.courses.items():
        watcher = Watcher()
        steps = measurement.steps(opened(seed, watcher), watcher, seed, measurement.steps_per_seed, course)
        _compare(own, seed, course, steps)
    floor = max(FLOOR_ULPS * 2.0 ** -_BITS[measurement.precision], FLOOR_ULPS_OF_SUMS * 2.0 ** -_BITS["fp32"])
    found = {name: item.record() for name, item in _judged(own, reference.noise, floor).items()}
    of_ranks = measurement.world.gather(found)
    return {name: max((rank[name] for rank in of_ranks), key=_excess) for name in found}


def _trained(
    measurement: Measurement,
    session: Session,
    watcher: Watcher,
    seed: int,
    layout: Layout,
    course: list[Step] | None,
    is_nudged: bool,
) -> Iterator[Step]:
    """Yield step after step of a session. course: whose weights each step begins from; None: from its own."""
    session.prepare()
    measurement.seed_all(seed)
    session.initialise()
    session.start(measurement.data_dir)
    draws = random.Random(seed)  # noqa: S311  (so that dropout draws the same in each step of all sessions)
    expected = None if course is None else course[0].before
    after = _reference_weights(session, layout, expected)
    number = 0
    while course is None or number < len(course):
        before = after
        if course is not None:
            weights = course[number].before
            _put(session, layout, _nudged(weights, number) if is_nudged else weights)
        if is_nudged:
            before = _reference_weights(session, layout, expected)  # of tensors that share memory, the last one's
        measurement.seed_all(draws.randrange(_MAX_SEED))
        watcher.taken()
        watcher.taken_norm()
        loss = session.train_block(measurement.global_batch_size).mean_loss
        after = _reference_weights(session, layout, expected)
        yield Step(loss, watcher.taken_norm(), together(watcher.taken(), measurement.world), before, after)
        number += 1


def _reference_weights(session: Session, layout: Layout, expected: Weights | None) -> Weights:
    """Return copies of the session's weights on the host, in the reference's form.

    Raises:
        UsageError: they are not by the names and in the shapes of `expected`.
    """
    found = layout.to_reference(session.weights())
    if expected is not None:
        _refuse_unlike("to_reference", "the reference has", expected, found)
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in found.items()}


def _put(session: Session, layout: Layout, weights: Weights) -> None:
    """Give a session the reference's `weights`, in place.

    Raises:
        UsageError: `from_reference` does not return what the module's network has.
    """
    import torch

    own = session.weights()
    given = layout.from_reference({name: tensor.clone() for name, tensor in weights.items()})
    _refuse_unlike("from_reference", "the module's network has", own, given)
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(given[name])


def _nudged(weights: Weights, seed: int) -> Weights:
    """Return the weights, each the next larger or the next smaller number, on all ranks the same."""
    import torch

    draws = torch.Generator().manual_seed(seed)

    def nudged(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        signs = torch.randint(0, 2, tensor.shape, dtype=torch.int8, generator=draws).to(tensor.dtype) * 2 - 1
        return torch.nextafter(tensor, signs * math.inf)

    return {name: nudged(tensor) for name, tensor in weights.items()}


def _refuse_unlike(function: str, whose: str, expected: Mapping[str, Any], found: object) -> None:
    if not isinstance(found, Mapping):
        raise UsageError(f"{function} returns {type(found).__name__}, not a mapping of names to tensors")
    for name in sorted({*expected, *map(str, found)}):
        have, want = (_shape(tensors.get(name)) for tensors in (found, expected))
        if have != want:
            raise UsageError(
                f"weights {printable(name, 100)!r}: {whose} {want}, {function} gives {have}; define "
                "to_reference(state) and from_reference(state) in the module if its weights have other names or shapes"
            )


def _shape(value: object) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return str(list(value.shape))
    return "none" if value is None else type(value).__name__


def _compare(
    distance: Distance, seed: int, course: Sequence[Step], steps: Sequence[Step], is_measured_noise: bool = False
) -> None:
    """Add what `steps` differ by from those of the reference, of which they may be the first only.

    is_measured_noise: see `_difference_of_update`.
    """
    course = course[: len(steps)]
    scales = _scales(course)
    start = course[0].before
    found = {("initial_weights", "", 0): _whole({name: (start[name], steps[0].before[name]) for name in start})}
    for number, (known, step) in enumerate(zip(course, steps, strict=True)):
        found["batches", "", number] = float(step.batch != known.batch)
        found["loss", "", number] = _relative(step.loss - known.loss, known.loss)
        found["gradient_norm", "", number] = _relative(step.norm - known.norm, known.norm)
        squares = 0.0
        for name, scale in scales.items():
            difference = _difference_of_update(known, step, name, is_measured_noise)
            squares += difference**2 if start[name].is_floating_point() else 0.0
            found["tensor_update", name, number] = _relative(difference, max(scale, _size_of_update(known, name)))
        # Counters, such as those of the batches that a normalisation has seen, would be most of it.
        floats = [name for name in scales if start[name].is_floating_point()]
        size = math.sqrt(sum(_size_of_update(known, name) ** 2 for name in floats))
        found["update", "", number] = _relative(math.sqrt(squares), size)
    for (quantity, name, at), value in found.items():
        place = quantity, name, seed, at
        distance.found[place] = max(value, distance.found.get(place, 0.0))


def _scales(course: Sequence[Step]) -> dict[str, float]:
    """By tensor, the root mean square of the sizes of the reference's updates: one of them may be next to nothing."""
    return {
        name: math.sqrt(sum(_size_of_update(step, name) ** 2 for step in course) / len(course))
        for name in course[0].before
    }


def _size_of_update(step: Step, name: str) -> float:
    return _norm(step.after[name].double() - step.before[name].double())


def _difference_of_update(known: Step, step: Step, name: str, is_measured_noise: bool) -> float:
    """The norm of the difference of two updates of a tensor.

    A module begins from the reference's weights, so that their ends differ by what the updates differ by; what the
    numbers of the tensor cannot resolve is left out. The noise began from weights that were nudged.
    """
    import torch

    end = known.after[name].double()
    if is_measured_noise:
        return _norm((step.after[name].double() - step.before[name].double()) - (end - known.before[name].double()))
    difference = _norm(step.after[name].double() - end)
    kind = known.after[name].dtype
    resolution = torch.finfo(kind).eps if kind.is_floating_point else 0.0
    return difference if math.isnan(difference) else max(0.0, difference - 2 * resolution * _norm(end))


def _whole(pairs: Mapping[str, tuple[Tensor, Tensor]]) -> float:
    """The norm of the difference of all tensors, relative to theirs."""
    difference = math.sqrt(sum(_norm(b.double() - a.double()) ** 2 for a, b in pairs.values()))
    return _relative(difference, math.sqrt(sum(_norm(a.double()) ** 2 for a, _ in pairs.values())))


def _norm(tensor: Tensor) -> float:
    return float(tensor.square().sum().sqrt().item())


def _relative(difference: float, size: float) -> float:
    """The ratio, at most `LARGEST`, which also stands for what is not finite; nothing differs from nothing by 0."""
    if difference == 0:
        return 0.0
    ratio = abs(difference) / abs(size) if size else math.inf
    return ratio if ratio < LARGEST else LARGEST  # NaN is not less


def _judged(own: Distance, noise: Distance, floor: float) -> dict[str, Difference]:
    """Return, of each quantity, the difference that is largest compared with its tolerance."""
    explained = {place: max(FACTOR * value, floor) for place, value in noise.largest().items()}
    # Few steps were measured, and what is rare in one tensor (a unit that switches) has happened in another.
    of_any = min(
        MOST["update"], max(value for (quantity, _), value in explained.items() if quantity == "tensor_update")
    )
    worst: dict[str, Difference] = {}
    for (quantity, tensor, seed, step), value in own.found.items():
        match quantity:
            case "batches":  # where rounding decides what comes next, as in reinforcement learning, they may be others
                tolerance = float(explained[quantity, ""] >= FACTOR)
            case "tensor_update":
                tolerance = min(LARGEST, max(of_any, explained[quantity, tensor]))
            case _:
                tolerance = min(MOST[quantity], explained[quantity, ""])
        found = Difference(value, tolerance, seed, step, tensor or None)
        if quantity not in worst or _excess(found.record()) > _excess(worst[quantity].record()):
            worst[quantity] = found
    return worst


def _excess(record: Mapping[str, Any]) -> float:
    difference, tolerance = float(record["difference"]), float(record["tolerance"])
    return difference / tolerance if tolerance else math.copysign(math.inf, difference - 0.5)
