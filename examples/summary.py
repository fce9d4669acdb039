"""What an agent might write about a file it was given: rows, total and extremes of the last column."""
import csv


def summary(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    lengths = {row["river"]: float(row["length_km"]) for row in rows}
    return {
        "rows": len(rows),
        "longest": max(lengths, key=lengths.get),
        "shortest": min(lengths, key=lengths.get),
        "mean_km": round(sum(lengths.values()) / len(lengths), 1),
    }
