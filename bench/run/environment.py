"""What the figures were taken on, and whether somebody else uses the machine meanwhile.

Nothing here names the machine or a path: a file of figures may be published.
"""

import glob
import os
import platform
import re
import subprocess
import threading
import time

import statistics_of


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _first(pattern, text):
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1).strip() if match else None


def _output(*command):
    try:
        return subprocess.run(command, text=True, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def file_system_of(path):
    """The kind of file system below a path: that of the longest mount point that holds it."""
    path, best, kind = os.path.realpath(path), "", None
    for line in _read("/proc/mounts").split("\n"):
        fields = line.split(" ")
        if len(fields) > 2:
            point = fields[1].rstrip("/")
            if (path == point or path.startswith(point + "/")) and len(fields[1]) >= len(best):
                best, kind = fields[1], fields[2]
    return kind


def fdatasync_us(directory, seconds=0.5):
    """Median of raw 512-byte appends with fdatasync in a directory, in microseconds."""
    path = os.path.join(directory, "fdatasync")
    samples = []
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begin = time.perf_counter_ns()
            os.write(file, b"x" * 512)
            os.fdatasync(file)
            samples.append((time.perf_counter_ns() - begin) / 1000)
    finally:
        os.close(file)
        os.unlink(path)
    return statistics_of.median(samples)


def _boost_version(cache):
    include = _first(r"^Boost_INCLUDE_DIR:\w+=(.*)$", cache) or "/usr/include"
    text = _first(r'^#define BOOST_LIB_VERSION "(.*)"',
                  _read(os.path.join(include, "boost/version.hpp")))
    return text.replace("_", ".") if text else None


def governors():
    return sorted({_read(path).strip() for path in
                   glob.glob("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")})


def fingerprint(root, build, scratch):
    cache = _read(os.path.join(build, "CMakeCache.txt"))
    compiler = _output(_first(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache) or "c++", "--version")
    commit = _output("git", "-C", root, "rev-parse", "--short=12", "HEAD").strip()
    changed = _output("git", "-C", root, "status", "--porcelain", "--untracked-files=no").strip()
    memory_kib = int(_first(r"^MemTotal:\s*(\d+)", _read("/proc/meminfo")) or 0)
    return {
        "cpu": _first(r"^model name\s*:\s*(.*)$", _read("/proc/cpuinfo")) or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "virtual": "hypervisor" in (_first(r"^flags\s*:\s*(.*)$", _read("/proc/cpuinfo")) or ""),
        "memory_gib": round(memory_kib / 2**20),
        "kernel": platform.release(),
        "compiler": re.sub(r"^\S*?(g\+\+|c\+\+|clang\+\+)\S*", r"\1",
                           compiler.split("\n")[0]) or None,
        "build_type": _first(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", cache),
        "governor": ", ".join(governors()) or None,
        "clock_source": _read("/sys/devices/system/clocksource/clocksource0/"
                              "current_clocksource").strip() or None,
        "file_system": file_system_of(scratch),
        "fdatasync_us_p50": fdatasync_us(scratch),
        "rocksdb": _output("pkg-config", "--modversion", "rocksdb").strip() or None,
        "boost": _boost_version(cache),
        "commit": (commit + ("+changes" if changed else "")) or None,
    }


def steal_seconds():
    """Processor time that the hypervisor has given to others since the machine started."""
    fields = _read("/proc/stat").split("\n")[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 else 0.0


def _spin(seconds, gap_us, out):
    lost, longest = 0, 0
    begin = last = time.perf_counter_ns()
    while last - begin < seconds * 1e9:
        now = time.perf_counter_ns()
        if now - last > gap_us * 1000:
            lost += now - last
            longest = max(longest, now - last)
        last = now
    out.append((100 * lost / (last - begin), longest / 1e6))


def noise(seconds=1.0):
    """A thread that only looks at the clock: the share of its time that it was not running, and the
    longest gap. What takes it away takes it from the benchmarks too."""
    steal, out = steal_seconds(), []
    spinner = threading.Thread(target=_spin, args=(seconds, 50, out))
    spinner.start()
    spinner.join()
    return {"lost_percent": round(out[0][0], 2), "longest_gap_ms": round(out[0][1], 2),
            "steal_seconds": round(steal_seconds() - steal, 2),
            "load": round(os.getloadavg()[0], 2)}


def _quota():
    """Cores that the control group may use; None without a limit."""
    fields = _read("/sys/fs/cgroup/cpu.max").split()
    if len(fields) == 2 and fields[0] != "max":
        return int(fields[0]) / int(fields[1])
    return None


def warnings(found, noisy):
    """Sentences on what makes the figures doubtful."""
    out = []
    if found["build_type"] != "Release":
        out.append(f"the programs are built as {found['build_type']}, not Release")
    if noisy["lost_percent"] > 2 or noisy["longest_gap_ms"] > 5:
        out.append(f"a thread that only spins loses {noisy['lost_percent']} % of its time "
                   f"(longest gap {noisy['longest_gap_ms']} ms): others use this machine")
    if noisy["load"] > 0.5:
        out.append(f"the load average is {noisy['load']}: others use this machine, or did just now")
    if noisy["steal_seconds"] > 0.02:
        out.append("the hypervisor gives processor time of this machine to others")
    if found["governor"] and found["governor"] != "performance":
        out.append(f"the frequency governor is {found['governor']}, not performance")
    if found["cores"] < 2:
        out.append("one core: the threads of the engine and the benchmark take turns on it")
    quota = _quota()
    if quota is not None and quota < found["cores"]:
        out.append(f"a quota of {quota:g} cores")
    if found["file_system"] in ("tmpfs", "ramfs"):
        out.append("the log lies in memory, where every sync is free: set COUNTWHEEL_BENCH_DIR")
    return out
