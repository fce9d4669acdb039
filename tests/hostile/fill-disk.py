"""Cases 11-14: files in every amount, size and shape; the quota holds and teardown stays bounded."""
from cloche import HostStaysWell, equal, guest, guest_value


def test_bytes_until_full():
    with HostStaysWell():
        result = guest("""
            with open('big', 'wb', 0) as file:
                for written in range(1000):
                    answer = attempt(file.write, bytes(1 << 20))
                    if answer != 'ok':
                        return [written, answer]
        """, disk=16)
    equal(result.value[1], "ENOSPC", result)
    assert result.value[0] <= 16 and result.limits_hit, result


def test_a_full_disk_frees_again():
    equal(guest_value("""
        def fill():
            with open('big', 'wb', 0) as file:
                while attempt(file.write, bytes(1 << 20)) == 'ok': pass
        fill()
        os.unlink('big')
        return attempt(lambda: open('small', 'wb').write(bytes(4 << 20)))
    """, disk=16), "ok")


def test_a_million_empty_files():
    with HostStaysWell():
        answer = guest_value("""
            os.mkdir('/tmp/d')
            for made in range(1000000):
                answer = attempt(os.mknod, f'/tmp/d/{made}')
                if answer != 'ok':
                    return [made, answer]
        """, timeout=40)
    equal(answer[1], "ENOSPC")
    assert answer[0] <= 65536, answer


def test_sparse_exbibyte():
    equal(guest_value("""
        def sparse(size):
            with open('sparse', 'wb') as file:
                return attempt(file.truncate, size)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        return [sparse(1 << 60), sparse(1 << 20)]
    """), ["EFBIG", "ok"])


def test_fallocate_beyond_the_quota():
    equal(guest_value("""
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        def reserve(size):
            with open('reserved', 'wb') as file:
                return attempt(os.posix_fallocate, file.fileno(), 0, size)
        return [reserve(100 << 20), reserve(1 << 60), reserve(1 << 20)]
    """, disk=16), ["ENOSPC", "EFBIG", "ok"])


def test_deep_directories():
    """Deeper than any path name; listing, changes and removal still come to an end."""
    result = guest("""
        for depth in range(5000):
            os.mkdir('d')
            os.chdir('d')
        open('bottom', 'w').close()
        return depth
    """)
    equal((result.status, result.value), ("success", 4999), result)


def test_long_names():
    result = guest("""
        for i in range(100):
            open(f'{i:03}' + 'n' * 252, 'w').close()
        return attempt(open, 'n' * 256, 'w')
    """)
    equal((result.status, result.value), ("success", "ENAMETOOLONG"))
    equal(len(result.files["created"]), 100)


def test_names_that_are_not_utf8():
    result = guest(r"""
        for name in (b'\xff\xfe', b'new\nline', b'\x1b]0;title\x07', b'caf\xc3\xa9'):
            open(name, 'w').write('x')
        return sorted(os.listdir(b'.'))[-1] == b'\xff\xfe'
    """)
    equal((result.status, result.value), ("success", True), result)
    equal(len(result.files["created"]), 4, result)


def test_special_files_among_the_changes():
    """A FIFO, a socket, a sparse file of the whole allowance: reading the changes blocks on none of them."""
    result = guest("""
        import socket
        os.mkfifo('fifo')
        socket.socket(socket.AF_UNIX).bind('socket')
        os.symlink('/dev/zero', 'endless')
        with open('sparse', 'wb') as file:
            file.truncate(100 << 20)
        return 'made'
    """, timeout=20)
    equal((result.status, result.value), ("success", "made"), result)


def test_directory_loop_of_links():
    result = guest("os.mkdir('a'); os.symlink('..', 'a/up'); os.symlink('self', 'self'); return 'made'")
    equal((result.status, result.value), ("success", "made"), result)


def test_unreadable_directories_of_the_guest():
    """The guest takes its own rights away; teardown and change list still work."""
    result = guest("os.makedirs('locked/in'); os.chmod('locked', 0); os.chmod('.', 0o500); return 'made'")
    equal((result.status, result.value), ("success", "made"), result)
