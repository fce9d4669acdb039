#!/bin/sh
# The main job on real input, as `make demo` runs it. Each step shows the command, then what it does.
# usage: demo.sh [BUILD]
set -u
here=$(cd "$(dirname "$0")" && pwd)
cloche=$(cd "${1:-$here/../build}" && pwd)/cloche
cd "$here" || exit 1
problems=0
XDG_DATA_HOME=$(mktemp -d) # for the prefix and the daemon below
CLOCHE_SOCKET=$XDG_DATA_HOME/socket
export XDG_DATA_HOME CLOCHE_SOCKET
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null; rm -rf "$XDG_DATA_HOME"' EXIT

# Others may use Cloche on this machine, too: theirs were there before, or have a keeper that lives (a group is named cloche-PID, after it).
list_groups() {
        find /sys/fs/cgroup -name 'cloche-*' 2>/dev/null | while read -r group; do
                case $(cat "/proc/${group##*/cloche-}/comm" 2>/dev/null) in cloche-keeper) ;; *) echo "$group" ;; esac
        done | sort
}
list_mounts() { grep cloche /proc/mounts | sort; }
# What is in the second list and not in the first.
count_new() { printf '%s\n' "$2" | grep -vxF -e "$1" -e '' | wc -l; }
groups_before=$(list_groups)
mounts_before=$(list_mounts)

# step WHAT EXIT-CODE cloche-arguments…
step() {
        printf '\n\033[1m%s\033[0m\n' "$1"
        expected=$2
        shift 2
        printf '$ cloche'
        printf " '%s'" "$@"
        printf '\n'
        "$cloche" "$@"
        code=$?
        printf -- '-> exit %d\n' "$code"
        [ "$code" = "$expected" ] || { echo "expected exit $expected" >&2; problems=$((problems + 1)); }
}

step 'A Python function over a real CSV file' 0 \
        call python summary -f summary.py --file rivers.csv=rivers.csv --args '["rivers.csv"]'
step 'A JavaScript function with keyword arguments' 0 \
        call javascript -c 'function greet(name, { greeting = "Hello", mark = "." } = {}) { return `${greeting}, ${name}${mark}` }' \
        --args '["Ada"]' --kwargs '{"greeting": "Good morning", "mark": "!"}'
step 'A C function with a structure, compiled in the box' 0 \
        call c -c 'struct rectangle { double width, height; };
double area(struct rectangle r) { return r.width * r.height; }' --args '[{"width": 6, "height": 7}]'
step 'A Ruby function with a keyword' 0 \
        call ruby -c 'def shout(text, times: 1) = text.upcase * times' --args '["ada "]' --kwargs '{"times": 2}'
step 'The same in PHP' 0 call php -c 'function shout(string $text, int $times = 1) { return str_repeat(strtoupper($text), $times); }' --args '["ada ", 2]'
step 'And in Bash' 0 call bash -c 'shout() { printf "%s" "${1^^}${1^^}"; }' --args '["ada "]'
step 'An exception with its type and line' 1 \
        call python ratio -c 'def ratio(a, b):
    return a / b' --args '[1, 0]'
step 'An endless loop, stopped after a second' 124 \
        call python -c 'def spin():
    while True: pass' --timeout 1
step 'A fork bomb, held by the box: the host lives, the run ends' 124 \
        call python -c 'import os
def bomb():
    while True:
        try: os.fork()
        except OSError: pass' --timeout 1 --pids 64
step 'A memory bomb, held by the box' 1 \
        call python -c 'def bomb():
    hoard = []
    while True: hoard.append(bytearray(1 << 24))' --memory 128
step 'Set-up code, checked once and kept by name' 0 \
        prefix create rivers python --force --file rivers.csv=rivers.csv -c 'import csv
RIVERS = {row["river"]: float(row["length_km"]) for row in csv.DictReader(open("rivers.csv"))}'
step 'A call forked from it, with its data there' 0 \
        call python --prefix rivers -c 'return max(RIVERS, key=RIVERS.get)'
host=$(mktemp -d)
cp rivers.csv "$host/"
step 'A host directory under rules: the report may be written, the data only read' 0 \
        call python -c 'def report():
    rows = open("/workspace/data/rivers.csv").read().splitlines()
    open("/workspace/data/report.txt", "w").write(f"{len(rows) - 1} rivers\n")
    try: open("/workspace/data/rivers.csv", "w")
    except PermissionError as e: return str(e)' --mount "/workspace/data=$host" --rule 'report.txt=create'
echo "on the host: $(cat "$host/report.txt")"
[ "$(cat "$host/report.txt")" = "19 rivers" ] || problems=$((problems + 1))
rm -rf "$host"
"${cloche}d" --socket "$CLOCHE_SOCKET" --state-dir '' --profile user --log-level warning &
daemon=$!
tries=0
until [ -S "$CLOCHE_SOCKET" ] || [ "$tries" = 100 ]; do sleep 0.1; tries=$((tries + 1)); done
step 'A sandbox stays: files go in' 0 cp rivers.csv box:/workspace/
step 'A session keeps its directory and variables' 0 exec box -- 'mkdir -p out && cd out && export LONGEST=$(sort -t, -k3 -rn ../rivers.csv | head -1 | cut -d, -f1)'
step 'for the next command' 0 exec box -- 'echo "in $PWD: $LONGEST"'
step 'What wedges other shells does not wedge this one' 2 exec box -- 'if true; then echo "no end'
step 'A command over its time is killed with all it started' 124 exec box --timeout 1 -- 'sleep 100 & sleep 100'
step 'A server in the background' 0 start box --process web -- 'cd /workspace && exec python3 -m http.server 8000'
step 'and its port, asked from inside' 0 exec box --timeout 30 -- 'until exec 9<>/dev/tcp/127.0.0.1/8000; do sleep 0.1; done 2>/dev/null; printf "GET /rivers.csv HTTP/1.0\r\n\r\n" >&9; grep -c km <&9'
step 'Nowhere to connect to, until it is said' 7 exec box -- 'exec 9<>/dev/tcp/192.0.2.1/80 || exit 7'
step 'A context: an interpreter that stays, pandas imported' 0 context run box -c 'import pandas as pd; rivers = pd.read_csv("/workspace/rivers.csv"); rivers.shape'
step 'The next cell finds what it left' 0 context run box -c 'rivers.length_km.max()'
step 'A cell that leaves the interpreter is an error of that cell' 1 context run box -c 'import os; os._exit(3)'
step 'A notebook, its outputs written as Jupyter writes them' 0 notebook run continents.ipynb -o "$XDG_DATA_HOME/continents.ipynb" --sandbox box
step 'The end of it' 0 sandbox rm box
kill "$daemon"
wait "$daemon"
daemon=
step 'What a call costs here: cold, forked on demand, from a spare' 0 bench python --runs 20
step 'What protects all this' 0 selftest

printf '\n'
echo "left behind: $(count_new "$groups_before" "$(list_groups)") control groups, $(count_new "$mounts_before" "$(list_mounts)") mounts"
[ "$problems" = 0 ] && echo "demo: everything went as expected"
exit "$problems"
