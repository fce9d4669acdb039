"""The build of a compiled program is stored for its next calls. Input of one call must not change
the build for the next one."""
import glob
import hashlib
import os
from cloche import call, equal

KEPT = os.path.join(os.environ["XDG_CACHE_HOME"], "cloche/builds-*/*")
PROGRAM = r"""
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int answer(int forge) {
    static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"artifact\":{\"$\":\"bytes\",\"at\":0,\"n\":4}}}";
    uint32_t head[2] = {4 + sizeof text - 1 + 4, sizeof text - 1};
    struct stat st;
    for (int fd = 3; forge && fd < 1024; fd++)
        if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode))
            write(fd, head, 8), write(fd, text, sizeof text - 1), write(fd, "evil", 4);
    return 42;
}
"""


def kept():
    return {path: hashlib.sha256(open(path, "rb").read()).hexdigest() for path in glob.glob(KEPT)}


def test_a_build_is_kept_and_used():
    equal(call("c", PROGRAM, "answer", args=[0]).value, 42)
    first = kept()
    equal(len(first), 1)
    again = call("c", PROGRAM, "answer", args=[0])
    equal(again.value, 42)
    equal(kept(), first)


def test_another_program_is_another_build():
    call("c", PROGRAM, "answer", args=[0])
    call("c", PROGRAM + "// different\n", "answer", args=[0])
    call("c", PROGRAM, "answer", args=[0], build='{"flags": ["-O3"]}')
    equal(len(kept()), 3)


def test_a_forged_build_is_refused():
    equal(call("c", PROGRAM, "answer", args=[0]).value, 42)
    before = kept()
    forged = call("c", PROGRAM, "answer", args=[1])
    equal((forged.status, forged.error["type"]), ("crash", "ProtocolError"), forged)
    equal(kept(), before)
    equal(call("c", PROGRAM, "answer", args=[0]).value, 42)


def test_a_spoilt_build_is_made_again():
    call("c", PROGRAM, "answer", args=[0])
    (path, good), = kept().items()
    for spoilt in (b"", b"\0" * 4096, open(path, "rb").read()[:-100]):
        with open(path, "wb") as file:
            file.write(spoilt)
        equal(call("c", PROGRAM, "answer", args=[0]).value, 42)
        assert kept()[path] != hashlib.sha256(spoilt).hexdigest(), "it was not replaced"
