#!/usr/bin/python3
"""The cost of a call in each language: cold, forked on demand, from the pool; against starting the
interpreter (or the compiler and the program) plainly, and against @runno/sandbox's WebAssembly in
the same run.

    bench/languages.py [--build DIR] [--runs N] [--no-peers] [--only LANGUAGE] [--json]

The ratio is to the language's own plain start. For C and C++ that is gcc or g++ and the program;
the first call of a program compiles it, later ones reuse the build."""
import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The caller's variables would slow some candidates only: NODE_EXTRA_CA_CERTS alone costs node 20 ms.
ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
C_PROGRAM = "int one(void) { return %d; }\nint main(void) { return one() < 0; }\n"
PLAIN = {
    "python": ["python3", "-c", "pass"],
    "javascript": ["node", "-e", "0"],
    "typescript": ["node", "-e", "0"],
    "ruby": ["ruby", "-e", "0"],
    "php": ["php", "-r", "0;"],
    "bash": ["bash", "-c", ":"],
    "perl": ["perl", "-e", "0"],
    "c": ["sh", "-c", "gcc -O1 -g -o p p.c && ./p"],
    "cpp": ["sh", "-c", "g++ -O1 -g -o p p.cpp && ./p"],
}
RUNNO = {"python": "python", "javascript": "quickjs", "ruby": "ruby", "php": "php-cgi", "c": "clang"}
COMPILED = {"c": "c", "cpp": "cpp"}


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, round(share * (len(values) - 1)))]


def timed(command, **settings):
    started = time.perf_counter()
    finished = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **settings)
    if finished.returncode:
        sys.exit(f"languages.py: {' '.join(command)} ended with {finished.returncode}")
    return (time.perf_counter() - started) * 1000


def row(language, what, samples):
    return {"language": language, "what": what, "n": len(samples), "p50_ms": percentile(samples, 0.5), "p99_ms": percentile(samples, 0.99)}


def first_calls(build, language, runs):
    """Plain compiler and first call in turn, each with a new program."""
    plain, ours = [], []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**ENVIRONMENT, "HOME": folder}
        for number in range(runs):
            code = C_PROGRAM % number
            with open(f"{folder}/p.{COMPILED[language]}", "w") as file:
                file.write(code)
            plain.append(timed(PLAIN[language], cwd=folder, env=environment))
            ours.append(timed([f"{build}/cloche", "call", language, "one", "-c", code], env=environment))
    yield row(language, "plain start", plain)
    yield row(language, "first call, compiled", ours)


def of_plain(language, runs):
    with tempfile.TemporaryDirectory() as folder:
        timed(PLAIN[language], cwd=folder, env={**ENVIRONMENT, "HOME": folder})
        yield row(language, "plain start", [timed(PLAIN[language], env={**ENVIRONMENT, "HOME": folder}) for _ in range(runs)])


def of_cloche(build, language, runs):
    command = [f"{build}/cloche", "bench", language, "--runs", str(runs), "--json"]
    print("+", " ".join(command), file=sys.stderr)
    finished = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if finished.returncode:
        sys.exit(f"languages.py: {' '.join(command)} ended with {finished.returncode}")
    for told in json.loads(finished.stdout)["rows"]:
        if told["question"] != "fork, exit and wait of this process":
            yield {"language": language, "what": told["question"], "n": told["n"], "p50_ms": told["p50Ms"], "p99_ms": told["p99Ms"]}


def of_runno(language):
    command = [f"{SOURCE}/bench/peers/run", "--quick", "--only", f"runno/{RUNNO[language]}"]
    print("+", " ".join(command), file=sys.stderr)
    for line in subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        told = json.loads(line)
        if told.get("question") == "trivial":
            if "p50_ms" in told:
                yield {"language": language, "what": f"@runno/sandbox {RUNNO[language]}", "n": told["n"], "p50_ms": told["p50_ms"], "p99_ms": told["p99_ms"]}
            else:
                print(f"languages.py: runno {language}: {told.get('skipped')}", file=sys.stderr)


def of_language(build, language, options):
    yield from first_calls(build, language, options.runs) if language in COMPILED else of_plain(language, options.runs)
    yield from of_cloche(build, language, options.runs)
    if language in RUNNO and not options.no_peers:
        yield from of_runno(language)


def table(rows):
    lines = ["| language | what | n | p50 ms | p99 ms | p50 to plain |", "|---|---|---:|---:|---:|---:|"]
    for told in rows:
        plain = next(other["p50_ms"] for other in rows if (other["language"], other["what"]) == (told["language"], "plain start"))
        lines.append(f"| {told['language']} | {told['what']} | {told['n']} | {told['p50_ms']:.2f} | {told['p99_ms']:.2f} | {told['p50_ms'] / plain:.2f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="A call in each language against the plain interpreter and WebAssembly.")
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--only", choices=sorted(PLAIN))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    rows = [told for language in PLAIN if options.only in (None, language) for told in of_language(build, language, options)]
    if options.json:
        print(json.dumps({"kernel": platform.release(), "cores": os.cpu_count(), "rows": rows}, indent=2))
    else:
        print(f"Kernel {platform.release()}, {os.cpu_count()} cores.\n\n{table(rows)}")


if __name__ == "__main__":
    main()
