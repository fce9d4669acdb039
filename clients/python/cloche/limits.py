"""The limits of a run. Written by tools/spec from spec/limits.def: change that."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """A limit that is None has its default; 0: no limit."""

    wall_ms: int | None = None
    """Time from start to result; breach: timeout.
    In ms, 1 to 86400000; 30000 by default."""
    cpu_ms: int | None = None
    """Processor time of all processes of the run together; breach: timeout.
    In ms, 1 to 86400000; 30000 by default."""
    memory_bytes: int | None = None
    """All memory of the box: anonymous, page cache, tmpfs, kernel; breach: crash.
    In bytes, 8388608 to 1099511627776; 536870912 by default."""
    pids: int | None = None
    """Processes and threads at one time; breach: fork fails with EAGAIN.
    In tasks, 8 to 32768; 128 by default."""
    cpu_percent: int | None = None
    """Share of the processors; breach: throttled.
    In percent of one core, 1 to 100000; 200 by default."""
    disk_bytes: int | None = None
    """Files written in the box, all together; breach: ENOSPC.
    In bytes, 65536 to 1099511627776; 268435456 by default."""
    disk_inodes: int | None = None
    """Files and directories in the box; breach: ENOSPC.
    In files, 64 to 100000000; 65536 by default."""
    file_bytes: int | None = None
    """Size of one file; breach: EFBIG.
    In bytes, 4096 to 1099511627776; 268435456 by default."""
    open_files: int | None = None
    """Descriptors of one process; breach: EMFILE.
    In descriptors, 16 to 1048576; 1024 by default."""
    output_bytes: int | None = None
    """Kept of stdout and of stderr each: head and tail; what is over is counted and dropped.
    In bytes, 1 to 1073741824; 1048576 by default."""
    result_bytes: int | None = None
    """The encoded result; breach: error.
    In bytes, 1 to 1073741824; 67108864 by default."""
    bridge_calls: int | None = None
    """Calls of host functions in one run; breach: the run ends with an error, whatever its code does.
    In calls, 1 to 1000000000; 1000 by default."""
    bridge_bytes: int | None = None
    """Arguments of one call of a host function; breach: as above.
    In bytes, 1 to 1073741824; 16777216 by default."""


JSON_NAMES = {
    "wall_ms": "wallMs",
    "cpu_ms": "cpuMs",
    "memory_bytes": "memoryBytes",
    "pids": "pids",
    "cpu_percent": "cpuPercent",
    "disk_bytes": "diskBytes",
    "disk_inodes": "diskInodes",
    "file_bytes": "fileBytes",
    "open_files": "openFiles",
    "output_bytes": "outputBytes",
    "result_bytes": "resultBytes",
    "bridge_calls": "bridgeCalls",
    "bridge_bytes": "bridgeBytes",
}
