#!/usr/bin/env python3
"""Data analysis over a directory: the code sees it under rules, and nothing it writes is there before somebody said so.

usage: python-approval.py [DIRECTORY]    a directory with CSV files; without one, a copy of rivers.csv. With --yes nobody is asked.
Exit code 77: this daemon has no mounts."""
import pathlib
import shutil
import sys
import tempfile

import cloche

ANALYSIS = '''
import collections, csv, pathlib

def analyse():
    data = pathlib.Path("data")
    longest = collections.Counter()
    for path in sorted(data.glob("*.csv")):
        for row in csv.DictReader(path.open()):
            longest[row["continent"]] = max(longest[row["continent"]], float(row["length_km"]))
    (data / "reports").mkdir(exist_ok=True)
    (data / "reports/longest.txt").write_text("".join(f"{name}: {km:g} km\\n" for name, km in longest.most_common()))
    try:
        next(data.glob("*.csv")).write_text("")
    except PermissionError as error:
        print("the sources are safe:", error.strerror)
    return len(longest)
'''

RULES = cloche.Permissions(rules=[cloche.Rule("reports", allow=["create"]), cloche.Rule("reports/**", allow=["create", "modify"])],
                           exclude=[".git", "*.key"])


def approve(change):
    """What is asked about each change; a program would look at its content."""
    size = "" if change.kind == "directory" else f", {change.size} bytes"
    if "--yes" in sys.argv:
        print(f"{change.type} {change.path}{size}: yes")
        return "continue"
    return "continue" if input(f"{change.type} {change.path}{size}? [y/N] ").lower() == "y" else cloche.Skip("not approved")


def analyse(client, folder):
    mount = cloche.Mount({"/workspace/data": folder}, RULES, sync=cloche.Sync("manual"))
    result = client.call("python", ANALYSIS, mount=mount)
    print(f"{result.unwrap()} continents; {result.stdout.strip()}")
    for denial in result.changes.denied:
        print(f"denied: {denial.operation} {denial.path}")
    report = client.sync(result.changes, before_sync=approve)
    print(f"written: {len(report.synced)}, left out: {len(report.skipped)}")


def main():
    with tempfile.TemporaryDirectory() as copy, cloche.Cloche() as client:
        folder = next((word for word in sys.argv[1:] if not word.startswith("-")), copy)
        if folder == copy:
            pathlib.Path(copy).chmod(0o755)
            shutil.copy(pathlib.Path(__file__).parent / "rivers.csv", copy)
        try:
            analyse(client, folder)
        except (cloche.UnknownMethodError, cloche.InvalidArgumentError) as error:
            if "not supported" not in str(error) and not isinstance(error, cloche.UnknownMethodError):
                raise
            print(f"no mounts here: {error}", file=sys.stderr)
            return 77
        report = pathlib.Path(folder, "reports/longest.txt")
        print(report.read_text().rstrip() if report.exists() else "nothing was approved")
    return 0


if __name__ == "__main__":
    sys.exit(main())
