#!/usr/bin/python3
"""Objects that are loaded in images require no version of glibc later than that of Debian 11 (2.31)."""
import os
import re
import subprocess

BUILD = os.environ["CLOCHE_BUILD"]
NEWEST = (2, 31)
LOADED = ("libcloche-guest.so", "cloche-bash.so", "cloche-session.so", "libcloche-catch.so", "cloche-native")
LATE = {"stat", "fstat", "stat64", "fstat64", "close_range"}  # without a version in a library that names no C library


def test_versions_of_symbols():
    for name in LOADED:
        table = subprocess.run(["objdump", "-T", os.path.join(BUILD, name)], check=True, text=True, stdout=subprocess.PIPE).stdout
        asked = [line for line in table.splitlines() if "*UND*" in line]
        assert asked, name
        for line in asked:
            version = re.search(r"GLIBC_(\d+)\.(\d+)", line)
            assert not version or tuple(map(int, version.groups())) <= NEWEST, f"{name}: {line}"
            assert line.split()[-1] not in LATE, f"{name}: {line}"


if __name__ == "__main__":
    test_versions_of_symbols()
