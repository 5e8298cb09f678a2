"""Facts from a test's own /proc and /sys: one that is absent or garbled is None and hides no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import OutputError, UsageError
from harness.run.accelerators import read_accelerators
from harness.run.machine import cpu_quota, read_host, read_processor, read_storage, smallest_step_ns
from harness.submission.layout import NAME_PATTERN
from harness.submission.system import (
    FIELDS,
    STATUSES,
    Accelerator,
    Accelerators,
    Machine,
    default_name,
    size,
    speed,
    system_description,
    unknown_fields,
)
from tests.fabricate import SYSTEM
from tests.scripted import FakeClock

CPU = "sys/devices/system/cpu"
X86 = "processor\t: {n}\nmodel name\t: Example(R) 9000 CPU @ 3.00GHz\ncpu MHz\t\t: 2999.998\nflags\t\t: fpu sse2\n\n"


def plant(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write the files below `root`, with their folders."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def server(root: Path) -> Path:
    """Two sockets of two cores of two threads, with everything that a kernel reports."""
    files: dict[str, str | bytes] = {
        "proc/cpuinfo": "".join(X86.format(n=n) for n in range(8)),
        "proc/meminfo": "MemTotal:       65536 kB\nMemFree: 1 kB\nMemAvailable:   32768 kB\n",
        "proc/loadavg": "0.50 0.40 0.30 1/100 1234\n",
        "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-7\n",
        "proc/self/limits": "Limit   Soft Limit  Hard Limit  Units\nMax open files            1024    4096    files \n",
        "proc/self/cgroup": "0::/\n",
        "etc/os-release": 'NAME="Example"\nPRETTY_NAME="Example Linux 12"\n',
        f"{CPU}/online": "0-7\n",
        f"{CPU}/intel_pstate/no_turbo": "0\n",
        "sys/devices/system/node/node0/cpulist": "0-3\n",
        "sys/devices/system/node/node1/cpulist": "4-7\n",
        "sys/class/net/lo/speed": "\n",
        "sys/class/net/eth0/speed": "25000\n",
        "sys/class/net/eth0/device/vendor": "0x1\n",
        "sys/class/net/eth1/speed": "-1\n",
        "sys/class/net/eth1/device/vendor": "0x1\n",
        "sys/class/net/docker0/speed": "10000\n",
        "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
        "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n",
        "sys/class/infiniband/mlx5_1/ports/1/rate": "25 Gb/sec (1X EDR)\n",
        "sys/class/infiniband/mlx5_1/ports/1/link_layer": "Ethernet\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    }
    for n in range(8):
        pair = n - n % 2
        cpu = f"{CPU}/cpu{n}"
        files |= {
            f"{cpu}/topology/physical_package_id": f"{n // 4}\n",
            f"{cpu}/topology/thread_siblings_list": f"{pair}-{pair + 1}\n",
            f"{cpu}/cpufreq/cpuinfo_max_freq": "3800000\n",
            f"{cpu}/cpufreq/scaling_governor": "performance\n",
        }
        for index, (level, kind, kib, shared) in enumerate(
            [
                ("1", "Data", "48K", f"{pair}-{pair + 1}"),
                ("1", "Instruction", "32K", f"{pair}-{pair + 1}"),
                ("2", "Unified", "1024K", f"{pair}-{pair + 1}"),
                ("3", "Unified", "32M", f"{n // 4 * 4}-{n // 4 * 4 + 3}"),
            ]
        ):
            files |= {
                f"{cpu}/cache/index{index}/level": level,
                f"{cpu}/cache/index{index}/type": kind,
                f"{cpu}/cache/index{index}/size": kib,
                f"{cpu}/cache/index{index}/shared_cpu_list": shared,
            }
    return plant(root, files)


def machine(root: Path, accelerators: Accelerators | None = None) -> Machine:
    return read_host(root, accelerators or Accelerators(), root)


def test_server_is_read_completely(tmp_path: Path) -> None:
    """Counts are over all sockets, caches per group that shares them; interfaces with hardware are listed once."""
    found = machine(server(tmp_path))

    processor = found.processor
    assert processor.model == "Example(R) 9000 CPU @ 3.00GHz"
    assert (processor.num_sockets, processor.num_cores, processor.num_threads) == (2, 4, 8)
    assert (processor.num_allowed, processor.quota, processor.num_usable) == (8, None, 8)
    assert processor.caches == ("L1d 48 KiB x 4", "L1i 32 KiB x 4", "L2 1 MiB x 4", "L3 32 MiB x 2")
    assert (processor.max_mhz, processor.num_numa_nodes) == (3800, 2)
    assert (processor.governor, processor.is_turbo) == ("performance", True)
    links = [(link.name, link.speed_mbps) for link in found.interfaces]
    assert links == [("eth0", 25000), ("eth1", None), ("mlx5_0/1", 400000)]
    assert (found.memory_bytes, found.memory_available_bytes) == (64 << 20, 32 << 20)
    assert (found.load_1min, found.max_open_files, found.os) == (0.5, 1024, "Example Linux 12")
    assert (found.virtualisation, found.container, found.clock.source) == (None, None, "tsc")
    assert found.packages["omegaconf"] is not None


def test_empty_root_is_a_machine_of_unknowns(tmp_path: Path) -> None:
    """Without any file every fact is unknown, except that there are no accelerators."""
    found = machine(tmp_path, read_accelerators(tmp_path))
    described = system_description(found, "acme")

    processor = found.processor
    assert (processor.model, processor.num_sockets, processor.num_cores, processor.num_threads) == (None,) * 4
    assert (processor.caches, processor.num_usable, found.memory_bytes, found.load_1min) == ((), None, None, None)
    assert found.storage.kind is None
    assert found.storage.capacity_bytes > 0
    assert described["host_processor_model_name"] == "unknown"
    assert described["system_name"] == "unnamed"
    assert described["accelerators_per_node"] == "0"
    assert {described[field] for field in FIELDS if field.startswith("accelerator_")} == {"none"}


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"\xff\xfe\x00", b"-\n", b"9" * 23, b"0-\n", b"max\n", "²\n".encode(), b"a: b: c\n"],
)
def test_garbled_files_never_stop_the_look(tmp_path: Path, content: bytes) -> None:
    """Whatever one file has, the rest is read, and the description is complete."""
    server(tmp_path)
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        path.write_bytes(content)

    described = system_description(machine(tmp_path), "acme", "box1")

    assert set(described) == set(FIELDS)
    assert all(value and value.isprintable() for value in described.values())


def test_one_garbled_file_hides_no_other(tmp_path: Path) -> None:
    """An invalid maximum frequency leaves the current one; an invalid cache leaves the others."""
    plant(server(tmp_path), {f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq": "fast"})
    for n in range(8):
        plant(tmp_path, {f"{CPU}/cpu{n}/cache/index2/size": "big"})

    processor = read_processor(tmp_path)

    assert processor.max_mhz == 2999
    assert processor.caches == ("L1d 48 KiB x 4", "L1i 32 KiB x 4", "L3 32 MiB x 2")


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        pytest.param(
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n", "ARM Neoverse V2", id="a known core"
        ),
        pytest.param(
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n\n"
            "processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\n"
            "processor\t: 2\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n",
            "implementer 0x41 part 0xd05 + implementer 0x41 part 0xd0b",
            id="big and little cores",
        ),
        pytest.param("processor\t: 0\nBogoMIPS\t: 50.00\n", "Some Board", id="only the device tree"),
    ],
)
def test_arm_has_codes_for_a_model_name(tmp_path: Path, cpuinfo: str, model: str) -> None:
    """Without 'model name', each kind of core is listed once."""
    plant(tmp_path, {"proc/cpuinfo": cpuinfo, "proc/device-tree/model": "Some Board\0"})

    processor = read_processor(tmp_path)

    assert processor.model == model
    assert processor.num_threads == cpuinfo.count("processor")


def test_socket_without_a_number_is_unknown(tmp_path: Path) -> None:
    """Kernels without firmware tables report -1."""
    plant(tmp_path, {f"{CPU}/cpu0/topology/physical_package_id": "-1\n", f"{CPU}/online": "0\n"})

    assert read_processor(tmp_path).num_sockets is None


V1 = "cpu,cpuacct/cpu.cfs"


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        pytest.param("0::/", {"cpu.max": "150000 100000"}, 1.5, id="v2 at the root"),
        pytest.param("0::/", {"cpu.max": "max 100000"}, None, id="v2 without limit"),
        pytest.param(
            "0::/pods/one",
            {"pods/cpu.max": "200000 100000", "pods/one/cpu.max": "400000 100000"},
            2.0,
            id="v2 limit of the parent",
        ),
        pytest.param(
            "5:cpu,cpuacct:/docker/ab\n0::/",
            {f"{V1}_quota_us": "50000", f"{V1}_period_us": "100000"},
            0.5,
            id="v1 with the host's path",
        ),
        pytest.param(
            "1:cpu,cpuacct:/", {f"{V1}_quota_us": "-1", f"{V1}_period_us": "100000"}, None, id="v1 without limit"
        ),
        pytest.param("0::/../../..", {"cpu.max": "100000 100000"}, 1.0, id="out of the root"),
        pytest.param("0::/", {"cpu.max": "100000 0"}, None, id="period of nothing"),
        pytest.param("nonsense", {}, None, id="nonsense"),
        pytest.param("", {}, None, id="no control groups"),
    ],
)
def test_quota_is_the_smallest_on_the_way_up(
    tmp_path: Path, groups: str, files: dict[str, str], quota: float | None
) -> None:
    """A container with fewer CPUs than the machine is recognised in both versions of control groups."""
    plant(tmp_path, {f"sys/fs/cgroup/{name}": f"{content}\n" for name, content in files.items()})
    if groups:
        plant(tmp_path, {"proc/self/cgroup": f"{groups}\n"})

    assert cpu_quota(tmp_path) == quota


def test_usable_is_what_scheduling_and_quota_leave(tmp_path: Path) -> None:
    """Eight threads, four allowed, a quota of one and a half: 1.5, also in the description."""
    plant(
        server(tmp_path),
        {"proc/self/status": "Cpus_allowed_list:\t0,2,4-5\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"},
    )
    found = machine(tmp_path)

    assert (found.processor.num_allowed, found.processor.num_usable) == (4, 1.5)
    assert "1.5 of 8 CPUs usable" in system_description(found)["hw_notes"]


@pytest.mark.parametrize(
    ("mount", "files", "kind"),
    [
        pytest.param("259:2 / {place} rw - ext4 /dev/nvme0n1p2 rw", {"259:2": ("nvme0n1", "0")}, "NVMe SSD", id="nvme"),
        pytest.param("8:1 / {place} rw - xfs /dev/sda1 rw", {"8:1": ("sda", "0")}, "SSD", id="ssd"),
        pytest.param("8:1 / {place} rw - xfs /dev/sda1 rw", {"8:1": ("sda", "1")}, "HDD", id="hdd"),
        pytest.param("8:1 / {place} rw - xfs /dev/sda1 rw", {"8:1": ("sda", "?")}, None, id="flag garbled"),
        pytest.param("254:1 / {place} rw - ext4 /dev/vda1 rw", {"254:1": ("vda", "1")}, "virtual disk", id="virtual"),
        pytest.param("0:40 / {place} rw shared:1 - tmpfs tmpfs rw", {}, "memory", id="tmpfs"),
        pytest.param("0:41 / {place} rw - nfs4 host:/data rw", {}, "network", id="nfs"),
        pytest.param("0:42 / {place} rw - overlay overlay rw", {}, None, id="overlay"),
        pytest.param("nonsense", {}, None, id="nonsense"),
    ],
)
def test_storage_is_what_the_folder_lies_on(
    tmp_path: Path, mount: str, files: dict[str, tuple[str, str]], kind: str | None
) -> None:
    """The kind comes from the innermost mount of the folder and the disk of its partition."""
    root, folder = tmp_path / "root", tmp_path / "my folder"
    folder.mkdir()
    place = str(folder).replace(" ", "\\040")
    lines = ["1 0 0:99 / / rw - tmpfs tmpfs rw", f"2 1 {mount.format(place=place)}"] if "{" in mount else [mount]
    plant(root, {"proc/self/mountinfo": "\n".join(lines)})
    for number, (disk, rotational) in files.items():
        plant(root, {f"sys/devices/{disk}/queue/rotational": rotational, f"sys/devices/{disk}/part/uevent": ""})
        (root / "sys/dev/block").mkdir(parents=True)
        (root / "sys/dev/block" / number).symlink_to(root / "sys/devices" / disk / "part")

    assert read_storage(folder, root).kind == kind


def test_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """The folder must exist."""
    with pytest.raises(OutputError, match="cannot be examined"):
        read_storage(tmp_path / "nowhere", tmp_path)


@pytest.mark.parametrize(
    ("files", "virtualisation", "container"),
    [
        pytest.param({}, None, None, id="nothing recognised"),
        pytest.param(
            {
                "proc/cpuinfo": "flags\t: fpu hypervisor sse2\n",
                "sys/class/dmi/id/sys_vendor": "QEMU\n",
                "sys/class/dmi/id/product_name": "Standard PC\n",
            },
            "virtual machine (QEMU Standard PC)",
            None,
            id="a virtual machine",
        ),
        pytest.param({"sys/hypervisor/type": "xen\n"}, "virtual machine (xen)", None, id="Xen without flag"),
        pytest.param({"sys/class/dmi/id/sys_vendor": "Maker\n"}, None, None, id="a maker alone proves nothing"),
        pytest.param({".dockerenv": ""}, None, "docker", id="docker"),
        pytest.param({"run/.containerenv": ""}, None, "podman", id="podman"),
        pytest.param({"proc/self/cgroup": "0::/kubepods/x\n"}, None, "kubepods", id="a pod"),
    ],
)
def test_virtualisation_is_a_hint(
    tmp_path: Path, files: dict[str, str | bytes], virtualisation: str | None, container: str | None
) -> None:
    """What is recognised is named, otherwise the fact is None."""
    found = machine(plant(tmp_path, files))

    assert (found.virtualisation, found.container) == (virtualisation, container)


class ScriptedClock(FakeClock):
    """A clock with given readings, which then stops."""

    def __init__(self, *times_ns: int) -> None:
        super().__init__()
        self._times_ns = list(times_ns)

    def elapsed_ns(self) -> int:
        return self._times_ns.pop(0) if len(self._times_ns) > 1 else self._times_ns[0]


def test_smallest_step_is_the_smallest_that_moved() -> None:
    """Equal reads are no step; of 40, 0, 20 and 100 ns the smallest step is 20."""
    assert smallest_step_ns(ScriptedClock(0, 40, 40, 60, 160), num_reads=10) == 20
    assert smallest_step_ns(ScriptedClock(5), num_reads=10) is None


class FakeNvml:
    """NVML of a node with `count` devices; the calls in `unsupported` raise, as for a virtual device."""

    NVML_NVLINK_MAX_LINKS = 4
    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        pass

    def __init__(self, count: int = 2, unsupported: tuple[str, ...] = (), name: str | bytes = "NVIDIA H200") -> None:
        self._count, self._unsupported, self._name = count, unsupported, name
        self.is_open = False

    def __getattr__(self, call: str) -> Any:
        def answer(*arguments: int) -> Any:
            if call in self._unsupported:
                raise self.NVMLError("Not Supported")
            if call in ("nvmlInit", "nvmlShutdown"):
                self.is_open = call == "nvmlInit"
                return None
            assert self.is_open
            return {
                "nvmlDeviceGetCount": self._count,
                "nvmlDeviceGetHandleByIndex": 0,
                "nvmlDeviceGetName": self._name,
                "nvmlDeviceGetMemoryInfo": type("Memory", (), {"total": 141 << 30})(),
                "nvmlDeviceGetMaxPcieLinkGeneration": 5,
                "nvmlDeviceGetMaxPcieLinkWidth": 16,
                "nvmlDeviceGetNvLinkState": int(arguments[-1:] != (3,)),
                "nvmlDeviceGetMaxClockInfo": 1980,
                "nvmlDeviceGetComputeRunningProcesses": [],
                "nvmlSystemGetDriverVersion": b"580.1",
            }[call]

        return answer


H200 = Accelerator("NVIDIA H200", 141 << 30, "PCIe gen 5 x16", 1980, 3, 0)
KERNEL_GPU: dict[str, str | bytes] = {
    "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA H200\nIRQ:   1\n",
    "sys/module/nvidia/version": "580.1\n",
}
PCI_GPU: dict[str, str | bytes] = {
    "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
    "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:02:00.0/class": "0x120000\n",
    "sys/bus/pci/devices/0000:02:00.0/vendor": "0x1002\n",
    "sys/bus/pci/devices/0000:03:00.0/class": "0x030000\n",
    "sys/bus/pci/devices/0000:03:00.0/vendor": "0x1a03\n",
}


def test_nvml_is_read_and_closed(tmp_path: Path) -> None:
    """Names, memory, bus, clock, links and driver; NVML is closed."""
    nvml = FakeNvml()

    assert read_accelerators(tmp_path, nvml) == Accelerators((H200, H200), "580.1", None)
    assert not nvml.is_open


def test_unsupported_details_are_none(tmp_path: Path) -> None:
    """What a virtual device does not support is None."""
    unsupported = tuple(
        f"nvmlDeviceGet{name}"
        for name in ("MemoryInfo", "MaxPcieLinkWidth", "NvLinkState", "MaxClockInfo", "ComputeRunningProcesses")
    )
    found = read_accelerators(tmp_path, FakeNvml(1, unsupported, name=b"GRID\x1b A100"))

    assert found.devices == (Accelerator("GRID\\x1b A100", None, None, None, 0, None),)


@pytest.mark.parametrize("broken", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetName"])
def test_broken_nvml_falls_back_to_the_kernel(tmp_path: Path, broken: str) -> None:
    """A driver that NVML cannot talk to still names its devices; the reason is kept."""
    found = read_accelerators(plant(tmp_path, KERNEL_GPU), FakeNvml(unsupported=(broken,)))

    assert (found.devices, found.driver) == ((Accelerator("NVIDIA H200"),), "580.1")
    assert found.reason == "NVML: Not Supported, so only their names are known"


def test_device_without_driver_is_unknown_not_none(tmp_path: Path) -> None:
    """A device without a driver does not count as no accelerator; a display chip is not one."""
    found = read_accelerators(plant(tmp_path, PCI_GPU))
    described = system_description(machine(tmp_path, found))

    assert found.devices == ()
    assert "on the PCI bus: 1 x NVIDIA, 1 x AMD" in str(found.reason)
    assert described["accelerators_per_node"] == described["accelerator_model_name"] == "unknown"


def test_description_has_mlperfs_fields_as_texts(tmp_path: Path) -> None:
    """The 33 names in order, all strings; cores are per processor, vCPUs per node."""
    found = machine(server(tmp_path), Accelerators((H200, H200), "580.1"))
    described = system_description(found, "acme", "box1", "onprem", "open")

    assert list(described) == list(FIELDS) == list(SYSTEM)
    assert all(isinstance(value, str) and value for value in described.values())
    assert (described["status"], described["division"]) == ("Available on-premise", "open")
    assert (described["host_processors_per_node"], described["host_processor_core_count"]) == ("2", "2")
    assert described["host_processor_vcpu_count"] == "8"
    assert described["host_memory_capacity"] == "64 MiB"
    assert described["host_networking"] == "1 x 25 Gb/s, 1 x 400 Gb/s"
    assert described["accelerators_per_node"] == "2"
    assert described["accelerator_memory_capacity"] == "141 GiB"
    assert described["accelerator_interconnect"] == "NVLink, 3 links a device"
    assert "accelerator driver 580.1" in described["other_software_stack"]
    assert set(unknown_fields(described)) >= {"cooling", "host_memory_configuration", "host_processor_interconnect"}


def test_overrides_are_what_a_person_knows(tmp_path: Path) -> None:
    """A field may be replaced, and an optional one added."""
    described = system_description(machine(tmp_path), overrides={"cooling": "liquid", "tta_idle_power_w": "100"})

    assert (described["cooling"], described["tta_idle_power_w"]) == ("liquid", "100")


@pytest.mark.parametrize("status", [*STATUSES, *STATUSES.values(), None])
def test_status_is_one_of_mlperfs(tmp_path: Path, status: str | None) -> None:
    """Short and long names are accepted; the default is the weakest claim."""
    described = system_description(machine(tmp_path), status=status)

    assert described["status"] in STATUSES.values()
    assert status is not None or described["status"] == STATUSES["rdi"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"status": "onpremise"}, "did you mean 'onprem'"),
        ({"overrides": {"colling": "liquid"}}, "did you mean 'cooling'"),
        ({"submitter": "../evil"}, "submitter is '../evil'"),
        ({"submitter": ""}, "submitter is ''"),
        ({"system_name": "a b"}, "system_name is 'a b'"),
        ({"system_name": "x" * 101}, "system_name is 'xxx"),
    ],
)
def test_invalid_field_is_refused(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    """A status or a field must exist; submitter and system are folder names in a submission."""
    with pytest.raises(UsageError, match=message):
        system_description(machine(tmp_path), **arguments)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Intel(R) Xeon(R) Platinum 8480C CPU @ 2.00GHz", "1xIntel-Xeon-Platinum-8480C"),
        ("AMD EPYC 9654 96-Core Processor", "1xAMD-EPYC-9654"),
        ("../../etc/passwd", "1xetc-passwd"),
        ("龍芯", "unnamed"),
        ("x" * 300, "1x" + "x" * 98),
        ("Evil\x1b[2J\x07   9000\x85", "1xEvil-x1b-2J-x07-9000-x85"),
    ],
)
def test_default_name_is_fit_for_a_folder(tmp_path: Path, model: str, name: str) -> None:
    """It is the model as letters, digits and _.+- only; accelerators have priority."""
    plant(tmp_path, {"proc/cpuinfo": f"processor: 0\nmodel name\t: {model}\n"})
    found = machine(tmp_path)

    assert str(found.processor.model).isprintable()
    assert default_name(found) == name
    assert NAME_PATTERN.fullmatch(name)
    assert default_name(machine(tmp_path, Accelerators((H200,) * 8))) == "8xNVIDIA-H200"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (size(0), "0 bytes"),
        (size(1), "1 bytes"),
        (size(1023), "1023 bytes"),
        (size(1024), "1 KiB"),
        (size(1536 << 20), "1.5 GiB"),
        (size(1 << 60), "1048576 TiB"),
        (speed(100), "100 Mb/s"),
        (speed(1000), "1 Gb/s"),
        (speed(2500), "2.5 Gb/s"),
        (speed(400000), "400 Gb/s"),
    ],
)
def test_size_and_speed_in_words(text: str, expected: str) -> None:
    """Binary units of size and decimal ones of speed, with at most one decimal."""
    assert text == expected
