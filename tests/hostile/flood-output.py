"""Cases 18-20: output without end, without newline, and readers that do not read."""
import os
import subprocess
from cloche import HANG, equal, guest, limit_hit, run, start

YES = "import os\nblock = b'y\\n' * 32768\nwhile True: os.write(1, block)"
RSS_BOUND = 200 << 10  # KiB; the flood would be gigabytes


def test_endless_output_is_capped():
    result = guest(YES, timeout=2)
    limit_hit(result, "timeout", "WallTimeLimit")
    assert len(result.stdout) < 3 << 20, len(result.stdout)


def test_the_cli_does_not_grow_with_the_output():
    process = start("call", "python", "-c", YES, "--timeout", "2", "--json", stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    equal(os.waitstatus_to_exitcode(status), 124)
    assert used.ru_maxrss < RSS_BOUND, used.ru_maxrss
    process.stderr.close()


def test_one_line_of_100_mb():
    result = guest("os.write(1, b'start')\nfor _ in range(100): sys.stdout.write('x' * (1 << 20))\n"
                   "print('end', end='')\nreturn 'done'", timeout=40)
    equal((result.status, result.value), ("success", "done"), result.status)
    assert result.stdout.startswith("start") and result.stdout.endswith("end")


def test_hostile_bytes_pass_as_bytes():
    data = b"\x1b]52;c;cm0gLXJm\x07\x00\xff\xfe\x80\r\n\x9b31m"
    equal(run("python", f"import os; os.write(1, {data!r})").stdout, data)


def test_stdout_that_nobody_reads():
    """The pipe of the caller stays full; the limit still ends the run."""
    process = start("run", "python", "-c", YES, "--timeout", "2")
    equal(process.wait(HANG), 124)
    process.stdout.close()


def test_stderr_that_nobody_reads():
    process = start("run", "python", "-c", YES.replace("write(1", "write(2"), "--timeout", "2")
    equal(process.wait(HANG), 124)


def test_stdout_closed_early():
    process = start("run", "python", "-c", YES, "--timeout", "3")
    process.stdout.read(10)
    process.stdout.close()
    process.stdout = None
    assert process.wait(HANG) != 0, "an endless run cannot have succeeded"
    process.stderr.close()


def test_guest_that_closes_its_own_streams():
    result = guest("os.close(1); os.close(2); return 'still here'")
    equal((result.status, result.value), ("success", "still here"), result)


def test_noise_on_the_channel_ends_the_box_not_the_host():
    """The channel carries the result; garbage there is a protocol error of the guest."""
    for noise in (b"\xff" * 64, b"\x00" * 4096, b'{"jsonrpc"', b"\x05\x00\x00\x00\x01\x00\x00\x00{"):
        result = guest(f"os.write(channel(), {noise!r}); time.sleep(0.2); os._exit(0)", timeout=10)
        assert result.status in ("crash", "error", "timeout"), result


def test_closed_channel_is_a_crash():
    result = guest("os.close(channel()); return 1", timeout=10)
    assert result.status in ("crash", "timeout"), result


def test_forged_answer_is_only_the_guests_own_answer():
    """The guest may answer for itself (its result is its own), but not as something else than a result."""
    frame = '{"jsonrpc":"2.0","id":99999,"result":{"value":"forged"}}'
    result = guest(f"""
        text = {frame!r}.encode()
        os.write(channel(), struct.pack('<II', 4 + len(text), len(text)) + text)
        return 'real'
    """, timeout=10)
    assert result.value == "real" or result.status != "success", result
