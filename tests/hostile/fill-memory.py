"""Cases 4-7: memory of every kind is charged to the box; only the box pays."""
from cloche import HostStaysWell, equal, guest, guest_value, limit_hit, one_of

MIB = 96


def killed(body, **options):
    with HostStaysWell():
        result = guest(body, memory=MIB, **options)
    limit_hit(result, "crash", "MemoryLimit")


def test_touched_heap():
    killed("""
        hoard = []
        while True:
            hoard.append(bytearray(os.urandom(1 << 20)))
    """)


def test_in_a_child_process():
    """The kernel kills the child that hoards; the parent reports, and the breach is in the result."""
    with HostStaysWell():
        result = guest("return in_child(lambda: [bytearray(b'x' * (1 << 20)) for _ in range(1000)] and None)", memory=MIB)
    if result.status == "success":
        equal(result.value, ["signal", 9], result)
        assert result.limits_hit, result
    else:
        limit_hit(result, "crash", "MemoryLimit")


def test_populated_mapping():
    killed("""
        MAP_POPULATE = 0x8000
        mapping = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_POPULATE)
        return len(mapping)
    """)


def test_locked_mapping():
    answer = guest_value("""
        mapping = mmap.mmap(-1, 64 << 20)
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        return syscall(149, address, 64 << 20)
    """, memory=MIB)
    one_of(answer, "ENOMEM", "EPERM", "EAGAIN")


def test_memory_files():
    killed("""
        hoard = []
        while True:
            fd = os.memfd_create('hoard')
            hoard.append(fd)
            for _ in range(8):
                os.write(fd, b'x' * (1 << 20))
    """)


def test_shared_memory_segments():
    killed("""
        libc.shmat.restype = ctypes.c_void_p
        for key in range(200):
            segment = libc.shmget(0, 8 << 20, 0o1600)
            if segment < 0:
                return errno.errorcode[ctypes.get_errno()]
            ctypes.memset(libc.shmat(segment, None, 0), 1, 8 << 20)
    """)


def test_scratch_files_count_as_memory():
    """Disk quota above the memory limit: the tmpfs pages are the box's memory."""
    killed("""
        for i in range(400):
            with open(f'/dev/shm/{i}', 'wb') as file:
                file.write(b'x' * (1 << 20))
    """, disk=1024)


def test_pipe_buffers_are_bounded():
    with HostStaysWell():
        result = guest("""
            import fcntl
            filled = 0
            pipes = []
            for _ in range(400):
                r, w = os.pipe()
                attempt(fcntl.fcntl, w, 1031, 1 << 20)
                os.set_blocking(w, False)
                pipes.append((r, w))
                try:
                    while True:
                        filled += os.write(w, b'x' * 65536)
                except BlockingIOError:
                    pass
            return filled
        """, memory=MIB)
    if result.status == "success":
        assert result.value < MIB << 20, result.value
    else:
        limit_hit(result, "crash", "MemoryLimit")


def test_page_cache_is_reclaimed_not_hoarded():
    """Reading far more than the limit works: clean pages go, the neighbours' stay."""
    with HostStaysWell():
        result = guest("""
            seen = 0
            for directory, _, names in os.walk('/usr/lib/x86_64-linux-gnu'):
                for name in names:
                    try:
                        with open(os.path.join(directory, name), 'rb', 0) as file:
                            while chunk := file.read(1 << 20):
                                seen += len(chunk)
                    except OSError:
                        pass
                    if seen > 400 << 20:
                        return seen
            return seen
        """, memory=MIB)
    equal(result.status, "success", result)
    assert result.value > MIB << 20, "not enough files to read for this test"


def test_below_the_limit_all_kinds_work():
    equal(guest_value("""
        heap = bytearray(b'x' * (10 << 20))
        fd = os.memfd_create('m')
        os.write(fd, b'x' * (4 << 20))
        mapping = mmap.mmap(-1, 8 << 20)
        mapping[::4096] = b'x' * len(mapping[::4096])
        segment = libc.shmget(0, 1 << 20, 0o1600)
        return [len(heap), os.fstat(fd).st_size, len(mapping), segment >= 0]
    """, memory=MIB), [10 << 20, 4 << 20, 8 << 20, True])
