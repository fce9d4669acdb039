"""The parts of bench/sandbox.py: each is a function PART(table, sides, options) that adds rows. sides: Cloche over HTTP first."""
import contextlib
import hashlib
import json
import os
import platform
import subprocess
import threading
import time

from measure import descendants, rollup_kb
from sandbox_sides import Buffered, Refused, Upstream, expect

COMMANDS = {"exec true": "true", "exec echo": "echo hello", "exec /bin/true": "/bin/true", "exec python3 -c pass": "python3 -c pass"}
TWENTY = "for i in {1..20}; do echo $i; done"
SLOW = "for i in 1 2 3 4 5; do echo $i; sleep 0.02; done"
BLOCK = 10
PIECE = 8 << 20
ROUNDS_AT_ONCE = 10


class Table:
    def __init__(self, as_json):
        self.as_json, self.rows = as_json, []

    def begin(self):
        if not self.as_json:
            print(f"kernel {platform.release()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; ms\n"
                  f"{'what':49}{'who':16}{'n':>6}{'p50':>10}{'p99':>10}{'bad':>5}", flush=True)

    def end(self):
        if self.as_json:
            print(json.dumps({"kernel": platform.release(), "processors": os.cpu_count(), "load": os.getloadavg()[0], "rows": self.rows}))

    def add(self, what, who, times=None, failed=0, note=""):
        row = {"what": what, "who": who, "failed": failed, "note": note}
        if times:
            times = sorted(times)
            row |= {"n": len(times), "p50": times[len(times) // 2], "p99": times[round(0.99 * (len(times) - 1))]}
        self.rows.append(row)
        if not self.as_json:
            figures = f"{row['n']:6}{row['p50']:10.2f}{row['p99']:10.2f}" if times else " " * 26
            print(f"{what:49}{who:16}{figures}{failed:5}  {note}", flush=True)

    def ratio(self, what):
        """The ratio of upstream's time to Cloche's, at p50 and p99."""
        of = {row["who"]: row for row in self.rows if row["what"] == what and "p50" in row}
        if "cloche" in of and "upstream" in of:
            ours, theirs = of["cloche"], of["upstream"]
            self.add(what, "ratio", note=f"p50 {theirs['p50'] / ours['p50']:.1f}, p99 {theirs['p99'] / ours['p99']:.1f} times faster")


def timed(act):
    begun = time.perf_counter()
    value = act()
    return (time.perf_counter() - begun) * 1e3, value


def in_turns(table, what, sides, rounds, act):
    """act(side, connection, session) -> {suffix: ms}; in blocks, each side with a connection and a session of its own."""
    with contextlib.ExitStack() as stack:
        ready = []
        for side in sides:
            connection = side.connect()
            stack.callback(connection.close)
            session = side.session(connection)
            act(side, connection, session)
            ready.append((side, connection, session, {}, []))
        for done in range(0, rounds, BLOCK):
            for side, connection, session, times, failures in ready:
                for _ in range(min(BLOCK, rounds - done)):
                    try:
                        for suffix, ms in act(side, connection, session).items():
                            times.setdefault(suffix, []).append(ms)
                    except (Refused, KeyError, OSError, ValueError) as error:
                        failures.append(error)
        for side, connection, session, _, _ in ready:
            side.drop_session(connection, session)
    for suffix in ready[0][3]:
        for side, _, _, times, failures in ready:
            table.add(what + suffix, side.name, times.get(suffix), len(failures), str(failures[0])[:120] if failures else "")
        table.ratio(what + suffix)


def execute(table, sides, options):
    in_turns(table, "a request that does nothing", sides, options.rounds, lambda side, connection, _:
             {"": timed(lambda: side.nothing(connection))[0]})
    for what, command in COMMANDS.items():
        in_turns(table, what, sides, options.rounds, lambda side, connection, session, c=command:
                 {"": timed(lambda: side.execute(connection, session, c))[0]})


def stream(table, sides, options):
    def act(side, connection, session, command):
        whole, first = timed(lambda: side.stream(connection, session, command))
        return {": first output": first, ": to its end": whole}
    in_turns(table, "stream, 20 echo", sides, options.rounds, lambda *given: act(*given, TWENTY))
    in_turns(table, "stream, 5 echo with 20 ms between", sides, max(20, options.rounds // 5), lambda *given: act(*given, SLOW))


def start(table, sides, options):
    in_turns(table, "start a process, until it runs", sides, max(20, options.rounds // 3), lambda side, connection, session:
             {"": timed(lambda: side.start(connection, session, "sleep 0.2"))[0]})


def session(table, sides, options):
    def act(side, connection, _):
        made, session = timed(lambda: side.session(connection))
        first, _ = timed(lambda: side.execute(connection, session, "true"))
        side.drop_session(connection, session)
        return {", answered": made, " and its first exec": made + first}
    in_turns(table, "a new session", sides, 30, act)


def sandbox(table, sides, options):
    """Upstream has no equivalent without its platform."""
    cloche = sides[0]
    http, times = cloche.connect(), {", answered": [], " and its first exec": [], ", deleted": []}
    for number in range(-5, max(50, options.rounds)):
        name = f"new-{number + 5}"
        made, answer = timed(lambda: http.ask("POST", "/v1/sandboxes", {"sandbox": name}))
        expect(answer["created"], answer)
        first, _ = timed(lambda: cloche.execute(http, "default", "true", name))
        gone, _ = timed(lambda: http.ask("DELETE", f"/v1/sandboxes/{name}"))
        if number >= 0:
            for key, ms in zip(times, (made, made + first, gone)):
                times[key].append(ms)
    for key, all_times in times.items():
        table.add("a new sandbox" + key, cloche.name, all_times)
    http.close()


def at_once(lanes, rounds, act):
    """act(lane, round) from this many threads at the same time, round by round: latencies and failures."""
    barrier, times, failures = threading.Barrier(len(lanes)), [], []

    def work(lane):
        for number in range(rounds):
            barrier.wait()
            try:
                times.append(timed(lambda: act(lane, number))[0])
            except Exception as error:
                failures.append(repr(error))
    threads = [threading.Thread(target=work, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, failures


def echo(side, connection, session, number, is_program, **where):
    command = f"echo {number}; head -c 4096 /dev/zero | tr '\\0' x" if is_program else f"echo {number}"
    expect(side.execute(connection, session, command, **where) == f"{number}\n" + "x" * 4096 * is_program, number)


def concurrent(table, sides, options):
    count = options.at_once
    kept = {side: [(connection, side.session(connection)) for connection in (side.connect() for _ in range(count))] for side in sides}
    for is_program, what in ((False, "echo"), (True, "head | tr")):
        times, failures = {side: [] for side in sides}, {side: [] for side in sides}
        for number in range(ROUNDS_AT_ONCE):
            for side in sides:
                more, failed = at_once(kept[side], 1, lambda lane, _, s=side: echo(s, *lane, number, is_program))
                times[side] += more if number else []
                failures[side] += failed
        for side in sides:
            table.add(f"{what}, {count} at once in {count} sessions", side.name, times[side], len(failures[side]), "".join(failures[side][:1])[:120])
        table.ratio(f"{what}, {count} at once in {count} sessions")
    for side in reversed(sides):  # over frames first: HTTP's are another principal's, and another sandbox's, but of one daemon
        if side.name != "cloche, frames":
            made = side.made if isinstance(side, Upstream) else count  # those of other parts still exist
            count_memory(table, f"{made} idle sessions", side, made)
        for connection, session in kept[side]:
            side.drop_session(connection, session)
            connection.close()
    in_sandboxes(table, sides[0], count)


def in_sandboxes(table, cloche, count):
    lanes = [(cloche.connect(), f"many-{number}") for number in range(count)]
    created, failed_to_create = at_once(lanes, 1, lambda lane, _: lane[0].ask("POST", "/v1/sandboxes", {"sandbox": lane[1]}))
    table.add(f"a new sandbox, {count} at once", cloche.name, created, len(failed_to_create), "".join(failed_to_create[:1])[:120])
    for is_program, what in ((False, "echo"), (True, "head | tr")):
        at_once(lanes, 1, lambda lane, number: echo(cloche, lane[0], "default", number, is_program, sandbox=lane[1]))
        times, failed = at_once(lanes, ROUNDS_AT_ONCE, lambda lane, number: echo(cloche, lane[0], "default", number, is_program, sandbox=lane[1]))
        table.add(f"{what}, {count} at once in {count} sandboxes", cloche.name, times, len(failed), "".join(failed[:1])[:120])
    for connection, name in lanes:
        connection.ask("DELETE", f"/v1/sandboxes/{name}")
        connection.close()


def transfer(table, sides, options):
    cloche, data = sides[0], os.urandom(1 << 20) * 100
    digest, http = hashlib.sha256(data).hexdigest(), cloche.connect()
    path, read = "/v1/sandboxes/bench/raw?path=/workspace/large", hashlib.sha256()

    def get():
        for piece in http.pieces(http.begin("GET", path)):
            read.update(piece)
    write_ms, _ = timed(lambda: b"".join(http.pieces(http.begin("PUT", path, data, "application/octet-stream"))))
    read_ms, _ = timed(get)
    says_transfer(table, cloche.name, "HTTP raw", write_ms, read_ms, read.hexdigest() == digest)
    http.ask("POST", "/v1/sandboxes/bench/file/remove", {"path": "/workspace/large"})
    http.close()
    frames, found = Buffered(cloche.daemon), hashlib.sha256()

    def put_pieces():
        for at in range(0, len(data), PIECE):
            piece = data[at:at + PIECE]
            where = {"offset": at} if at else {}
            frames.call("file.write", piece, sandbox="bench", path="/workspace/pieces", content={"$": "bytes", "at": 0, "n": len(piece)}, **where)

    def get_pieces():
        for at in range(0, len(data), PIECE):
            content = frames.call("file.read", sandbox="bench", path="/workspace/pieces", offset=at, limit=PIECE)["content"]
            found.update(frames.attachments[content["at"]:content["at"] + content["n"]])
    write_ms, _ = timed(put_pieces)
    read_ms, _ = timed(get_pieces)
    says_transfer(table, "cloche, frames", "pieces of 8 MiB", write_ms, read_ms, found.hexdigest() == digest)
    frames.call("file.remove", sandbox="bench", path="/workspace/pieces")
    frames.close()
    for side in sides:
        if isinstance(side, Upstream):
            upstream_transfer(table, side)


def says_transfer(table, who, how, write_ms, read_ms, is_intact):
    table.add("100 MiB written", who, [write_ms], 0 if is_intact else 1, how)
    table.add("100 MiB read", who, [read_ms], 0 if is_intact else 1, f"{how}, {'intact' if is_intact else 'DAMAGED'}")


def upstream_transfer(table, side):
    """Its content is text; from 64 KiB on its response after 30 s is an error."""
    http = side.connect()
    for size in (32 << 10, 128 << 10):
        session = side.session(http)
        params = {"path": f"{side.server.directory}/large", "content": "x" * size, "sessionId": session}
        try:
            ms, answer = timed(lambda: http.ask("POST", "/api/write", params))
            table.add(f"{size >> 10} KiB written", side.name, [ms], 0 if answer.get("success") else 1, "" if answer.get("success") else str(answer)[:120])
        except (Refused, OSError, ValueError) as error:
            table.add(f"{size >> 10} KiB written", side.name, None, 1, str(error)[:120])
    http.close()


def cli(table, sides, options):
    cloche = sides[0]
    build, path = os.environ["CLOCHE_BUILD"], cloche.daemon.path
    commands = {"fork and exec of /bin/true": ["/bin/true"], "cloche --version": [f"{build}/cloche", "--version"],
                "cloche exec SANDBOX -- true": [f"{build}/cloche", "exec", "bench", "--socket", path, "--", "true"]}
    times = {what: [] for what in commands}
    for _ in range(max(30, options.rounds // 3)):
        for what, command in commands.items():
            times[what].append(timed(lambda: subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))[0])
    for what, all_times in times.items():
        table.add(what, cloche.name if "cloche" in what else "", all_times)


def pss_kb(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return rollup_kb("Pss", pid)
    return 0


def groups_mib(pids):
    """Memory that the kernel charges to the groups of these processes (cgroup v1 or v2), with its
    own; without the group they were started in."""
    here, found = group_of(os.getpid()), {}
    for pid in pids:
        path = group_of(pid)
        if path and path != here:
            for name in ("memory.usage_in_bytes", "memory.current"):
                with contextlib.suppress(OSError), open(os.path.join(path, name), encoding="ascii") as file:
                    found[path] = int(file.read())
    return sum(found.values()) / 2 ** 20, len(found)


def group_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if "memory" in controllers.split(","):
                return "/sys/fs/cgroup/memory" + path
            if not controllers and os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
                return "/sys/fs/cgroup" + path
    return None


def count_memory(table, what, side, count, before_mib=0.0):
    pids = descendants(side.memory_roots())
    pss_mib = sum(map(pss_kb, pids)) / 1024
    charged, groups = groups_mib(pids)
    table.add(what, side.name, note=f"PSS {pss_mib:.0f} MiB of {len(pids)} processes ({(pss_mib - before_mib) / count:.2f} each); "
              f"memory groups {charged:.0f} MiB ({groups})")
    return pss_mib


def idle(table, sides, options):
    cloche, count = sides[0], options.idle
    http = cloche.connect()
    before = count_memory(table, "no sandbox but one", cloche, 1)
    for number in range(count):
        expect(cloche.execute(http, "default", "true", f"idle-{number}") == "", number)
    time.sleep(2)
    count_memory(table, f"{count} idle sandboxes, a session each", cloche, count, before)
    for number in range(count):
        http.ask("DELETE", f"/v1/sandboxes/idle-{number}")
    http.close()


def processor_ms(pids):
    """Processor time that these processes have used."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
    return ticks * 1000 / os.sysconf("SC_CLK_TCK")


def name_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8") as file:
        return file.read().strip()
    return ""


def copies(table, sides, options):
    """Forks and snapshots, and pauses of one whose process has 200 MiB."""
    cloche, rounds = sides[0], max(20, options.rounds // 10)
    http = cloche.connect()

    def ask(path, **body):
        return timed(lambda: http.ask("POST", "/v1/sandboxes" + path, body))

    def rounds_of(what, act):
        table.add(what, cloche.name, [act(number) for number in range(rounds)])

    def fork(number):
        ms, answer = ask("/copied/fork", names=[f"copy-{number}"])
        expect(not answer["omitted"], answer)
        http.ask("DELETE", f"/v1/sandboxes/copy-{number}")
        return ms

    def begin(number):
        ms, answer = ask("", sandbox=f"begun-{number}", snapshot="taken")
        expect(answer["created"], answer)
        http.ask("DELETE", f"/v1/sandboxes/begun-{number}")
        return ms

    ask("", sandbox="copied")
    ask("/copied/snapshot", snapshot="taken")
    rounds_of("start from a snapshot", begin)
    rounds_of("a fork without contexts", fork)
    ask("/copied/context/create", context="c", language="python", forkable=True)
    ask("/copied/context/run", context="c", code="x = 1")
    rounds_of("a fork with a context of Python", fork)
    ask("/copied/process/start", process="big", command="exec python3 -uc \"x = b'x' * (200 << 20); print('made'); import time; time.sleep(1000)\"")
    ask("/copied/process/wait", process="big", text="made")
    pauses, resumes = [], []
    for _ in range(rounds):
        pauses.append(ask("/copied/pause", save=False)[0])
        resumes.append(ask("/copied/resume")[0])
    table.add("pause with 200 MiB, without a save", cloche.name, pauses)
    table.add("resume with 200 MiB", cloche.name, resumes)
    http.ask("DELETE", "/v1/sandboxes/copied")
    http.ask("DELETE", "/v1/snapshots/taken")
    http.close()


def paused(table, sides, options):
    """The boxes' own memory is frozen with them; the rest is the daemon's."""
    cloche, count, seconds = sides[0], options.idle, 20
    http = cloche.connect()
    for number in range(count):
        expect(cloche.execute(http, "default", "true", f"paused-{number}") == "", number)
        if number == 0:
            owners = [pid for pid in descendants(cloche.memory_roots()) if name_of(pid).startswith("cloche")]
            before_kb = sum(map(pss_kb, owners))
    for number in range(count):
        answer = http.ask("POST", f"/v1/sandboxes/paused-{number}/pause", {"save": False})
        expect(answer.get("pauseKind") == "memory", answer)
    boxes = [pid for pid in descendants(cloche.memory_roots()) if pid not in owners]
    at_first = processor_ms(boxes), processor_ms(owners)
    time.sleep(seconds)
    own_mib = (sum(map(pss_kb, owners)) - before_kb) / 1024 / (count - 1)
    table.add(f"{count} paused sandboxes, a session each", cloche.name,
              note=f"in {seconds} s they used {processor_ms(boxes) - at_first[0]:.0f} ms of processor time, the daemon "
                   f"{processor_ms(owners) - at_first[1]:.0f} ms; its programs {', '.join(map(name_of, owners))} grew by {own_mib:.3f} MiB for each; "
                   f"the boxes have {sum(map(pss_kb, boxes)) / 1024 / count:.2f} MiB of PSS each")
    for number in range(count):
        http.ask("DELETE", f"/v1/sandboxes/paused-{number}")
    http.close()
