"""Cases 33 to 52 and 96 against mounted directories: a guest's attacks with links, names and
special files, and the host's changes to the guest's files. Attacks within the server's own tree are
in tests/fs, races of the sync in tests/sync."""
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time

from cloche import call, cli, equal, guest, guest_value, sampled, start

ALL = "**=*"


class Mounted:
    """A directory of the host and the options to mount it at /workspace/m."""

    def __init__(self, *rules, at="/workspace/m", **options):
        self.host = os.path.abspath("host")
        os.makedirs(self.host, exist_ok=True)
        self.options = {"mount": f"{at}={self.host}", "rule": list(rules), **options} if rules else {"mount": f"{at}={self.host}", **options}

    def put(self, path, text="x", mode=0o644):
        path = os.path.join(self.host, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def read(self, path):
        with open(os.path.join(self.host, path)) as file:
            return file.read()

    def value(self, body):
        return guest_value(body, **self.options)

    def run(self, body):
        return guest(body, **self.options)


# ---- 33: names that lead out ---------------------------------------------------------------------------------

def test_links_of_the_host_lead_nowhere_on_the_host():
    m = Mounted(ALL)
    m.put("inside", "mine")
    secret = os.path.abspath("secret")
    with open(secret, "w") as file:
        file.write("the host's")
    for name, target in [("absolute", secret), ("up", "../secret"), ("far", "../" * 40 + secret[1:]), ("root", "/proc/1/root"), ("good", "inside")]:
        os.symlink(target, os.path.join(m.host, name))
    answers = m.value("""
        def read(name):
            return attempt(lambda: open('/workspace/m/' + name).read())
        return [read('absolute'), read('up'), read('far'), read('root/etc/shadow'), open('/workspace/m/good').read(),
                attempt(lambda: os.listdir('/workspace/m/root/'))]
    """)
    assert answers[0] == answers[1] == answers[2] == "ENOENT" and answers[3] in ("EACCES", "ENOENT"), answers
    equal(answers[4], "mine")


def test_dot_dot_stays_in_the_box():
    m = Mounted(ALL)
    m.put("a/b/c")
    answers = m.value("""
        os.chdir('/workspace/m/a/b')
        return [sorted(os.listdir('..')), sorted(os.listdir('../../../..')) == sorted(os.listdir('/')), os.path.exists('../' * 60 + 'workspace/m/a/b/c')]
    """)
    equal(answers, [["b"], True, True])


# ---- 36: hard links ------------------------------------------------------------------------------------------

def test_no_hard_link_out_of_or_into_the_mount():
    m = Mounted(ALL)
    m.put("file")
    equal(m.value("""
        open('/workspace/own', 'w').close()
        return [attempt(os.link, '/workspace/m/file', '/workspace/out'), attempt(os.link, '/workspace/own', '/workspace/m/in'),
                attempt(os.link, '/usr/bin/env', '/workspace/m/in'), attempt(os.link, '/workspace/m/file', '/workspace/m/twin')]
    """), ["EXDEV", "EXDEV", "EXDEV", "ok"])
    equal(sorted(os.listdir(m.host)), ["file", "twin"])


# ---- 37: a denied path under another name --------------------------------------------------------------------

def test_renaming_the_parent_does_not_free_what_is_denied():
    m = Mounted("d/secret=-*", "d/given=*", "d=*", "e=*", "e/**=*", "d/open/**=*", "d/open=*")
    m.put("d/secret", "no")
    m.put("d/open/x", "yes")
    answers = m.value("""
        os.chdir('/workspace/m')
        return [attempt(os.rename, 'd', 'e'), attempt(lambda: open('e/secret').read()), attempt(lambda: open('d/secret').read()),
                attempt(lambda: open('d/secret', 'w')), attempt(os.rename, 'd/secret', 'd/given'), attempt(os.link, 'd/secret', 'd/given'),
                attempt(os.rename, 'd/open', 'e'), open('e/x').read()]
    """)
    equal(answers, ["EACCES", "ENOENT", "EACCES", "EACCES", "EACCES", "EACCES", "ok", "yes"])
    equal(m.read("d/secret"), "no")
    equal(m.read("e/x"), "yes")


# ---- 38: the mount itself ------------------------------------------------------------------------------------

def test_the_mount_cannot_be_taken_away_or_covered():
    m = Mounted(ALL)
    m.put("file")
    answers = m.value("""
        MOUNT, UMOUNT2, OPEN_TREE, MOVE_MOUNT, FSOPEN, PIVOT_ROOT, CHROOT = 165, 166, 428, 429, 430, 155, 161
        tried = [syscall(UMOUNT2, b'/workspace/m', 0), syscall(UMOUNT2, b'/workspace/m', 2), syscall(MOUNT, b'none', b'/workspace/m', b'tmpfs', 0, None),
                 syscall(MOUNT, b'/workspace/m', b'/tmp', None, 4096, None), syscall(OPEN_TREE, -100, b'/workspace/m', 1), syscall(FSOPEN, b'fuse', 0),
                 syscall(PIVOT_ROOT, b'/workspace/m', b'/workspace/m'), syscall(CHROOT, b'/workspace/m')]
        return [tried, os.listdir('/workspace/m')]
    """)
    assert all(answer in ("EPERM", "ENOSYS") for answer in answers[0]), answers
    equal(answers[1], ["file"])


# ---- 39 to 41: special files and bits ------------------------------------------------------------------------

def test_no_devices_and_no_rights_by_bits():
    m = Mounted(ALL)
    with open(m.put("suid"), "wb") as file:
        with open("/usr/bin/id", "rb") as id_program:
            file.write(id_program.read())
    os.chown(os.path.join(m.host, "suid"), 0, 0)
    os.chmod(os.path.join(m.host, "suid"), 0o6755)
    answers = m.value("""
        os.chdir('/workspace/m')
        made = [attempt(os.mknod, 'null', stat.S_IFCHR | 0o666, os.makedev(1, 3)), attempt(os.mknod, 'disk', stat.S_IFBLK | 0o666, os.makedev(8, 0)),
                attempt(os.mkfifo, 'pipe')]
        told = subprocess.run(['./suid', '-u'], capture_output=True, text=True)
        open('own', 'w').close()
        os.chmod('own', 0o6755)
        return [made, told.stdout.strip(), oct(os.stat('suid').st_mode & 0o7000), oct(os.stat('own').st_mode & 0o6000)]
    """)
    equal(answers, [["EPERM", "EPERM", "ok"], "1000", "0o0", "0o0"])
    assert not os.path.exists(os.path.join(m.host, "pipe")), "a pipe of the guest's is its own"
    equal(stat.S_IMODE(os.stat(os.path.join(m.host, "own")).st_mode) & 0o6000, 0)


def test_special_files_of_the_host_stop_nobody():
    m = Mounted(ALL)
    os.mkfifo(os.path.join(m.host, "pipe"))
    m.put("plain", "here")
    answers = m.value("""
        os.chdir('/workspace/m')
        def read(name):
            descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
            os.close(descriptor)
        return [attempt(read, 'pipe') in ('ok', 'EACCES', 'ENXIO', 'EPERM', 'ENOENT'), open('plain').read()]
    """)
    equal(answers, [True, "here"])


# ---- 44: descriptors -----------------------------------------------------------------------------------------

def test_no_descriptor_of_the_mount_is_in_the_box():
    m = Mounted(ALL)
    answers = m.value("""
        seen = []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                for descriptor in os.listdir(f'/proc/{pid}/fd'):
                    seen.append(os.readlink(f'/proc/{pid}/fd/{descriptor}'))
            except OSError:
                pass
        return [[name for name in seen if 'fuse' in name or 'host' in name], os.path.exists('/dev/fuse'), attempt(os.open, '/dev/fuse', os.O_RDWR)]
    """)
    equal(answers, [[], False, "ENOENT"])


def test_the_mount_table_tells_nothing_of_the_host():
    m = Mounted(ALL)
    table = m.value("return open('/proc/self/mountinfo').read()")
    assert "fuse" in table and m.host not in table and "host" not in table.replace("hosts", "").replace("hostname", ""), table


# ---- 47: attributes ------------------------------------------------------------------------------------------

def test_forged_attributes():
    m = Mounted(ALL)
    m.put("file")
    answers = m.value("""
        path = '/workspace/m/file'
        return [attempt(os.setxattr, path, 'trusted.overlay.opaque', b'y'), attempt(os.setxattr, path, 'security.capability', struct.pack('<5I', 0x02000001, 1, 0, 0, 0)),
                attempt(os.setxattr, path, 'user.mine', b'1'), os.getxattr(path, 'user.mine').decode()]
    """)
    assert answers[0] in ("EPERM", "EOPNOTSUPP") and answers[1] in ("EPERM", "EOPNOTSUPP"), answers
    equal(answers[2:], ["ok", "1"])
    equal(os.listxattr(os.path.join(m.host, "file")), [])


# ---- 48, 49: making a server wait ----------------------------------------------------------------------------

def test_a_lease_and_a_lock_of_the_host_stall_nothing():
    m = Mounted(ALL)
    path = m.put("leased", "old")
    m.put("free", "old")
    descriptor = os.open(path, os.O_RDWR)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        result = m.run("""
            os.chdir('/workspace/m')
            with open('free', 'w') as file: file.write('new')
            return [open('free').read(), attempt(lambda: open('leased').read())]
        """)
    finally:
        os.close(descriptor)
        signal.signal(signal.SIGIO, before)
    equal(result.value[0], "new", result)
    assert result.value[1] in ("ok", "EAGAIN"), result
    equal(m.read("free"), "new")


def test_locks_of_the_guest_do_not_outlive_it():
    m = Mounted(ALL)
    m.put("file", "old")
    equal(m.value("""
        import fcntl
        held = open('/workspace/m/file', 'r+')
        fcntl.flock(held, fcntl.LOCK_EX)
        if os.fork() == 0:
            time.sleep(1000)
        held.write('new')
        held.flush()
        return 'left'
    """), "left")
    equal(m.read("file"), "new")
    with open(os.path.join(m.host, "file")) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_guest_cannot_freeze_a_read_of_ours():
    """userfaultfd and file systems of its own would make the engine wait for the guest."""
    m = Mounted(ALL)
    answers = m.value("""
        USERFAULTFD, FANOTIFY_INIT = 323, 300
        return [syscall(USERFAULTFD, 0), syscall(FANOTIFY_INIT, 0, 0)]
    """)
    assert all(answer in ("EPERM", "ENOSYS") for answer in answers), answers


def test_a_guest_killed_in_the_middle_of_calls():
    """Its server is still working for it: the box ends all the same, and nothing is written."""
    m = Mounted(ALL, timeout=1)
    for i in range(200):
        m.put(f"f{i}", "old")
    result = m.run("""
        for worker in range(4):
            if os.fork() == 0:
                break
        while True:
            for i in range(200):
                with open(f'/workspace/m/f{i}', 'w') as file: file.write('new' * 1000)
    """)
    equal(result.status, "timeout", result)
    equal({m.read(f"f{i}") for i in range(200)}, {"old"})


# ---- 50: names that look alike -------------------------------------------------------------------------------

def test_rules_are_for_exactly_these_names():
    m = Mounted("Secret=-*", ALL)
    m.put("Secret", "no")
    answers = m.value(r"""
        os.chdir('/workspace/m')
        def read(name):
            return attempt(lambda: open(name).read())
        for other in ['secret', 'Secret.', 'Secret ', 'Secr\u0435t', 'SECRET']:
            open(other, 'w').write('yes')
        return [read('Secret'), read('./Secret'), read('//workspace//m/./Secret'), read('x/../Secret'), read('../m/Secret'), read('secret'), read('Secret.')]
    """)
    equal(answers, ["EACCES", "EACCES", "EACCES", "ENOENT", "EACCES", "ok", "ok"])
    equal(m.read("Secret"), "no")


def test_both_forms_of_a_letter_are_two_names():
    m = Mounted("caf\u00e9=-*", ALL)
    m.put("caf\u00e9", "composed")
    m.put("cafe\u0301", "decomposed")
    equal(m.value(r"""
        os.chdir('/workspace/m')
        return [attempt(lambda: open('caf\u00e9').read()), attempt(lambda: open('cafe\u0301').read())]
    """), ["EACCES", "ok"])


# ---- 96: rules against each other ----------------------------------------------------------------------------

def rules_file(**permissions):
    with open("rules.json", "w") as file:
        json.dump(permissions, file)
    return "rules.json"


def test_overlapping_rules_have_one_order():
    """Priority, then the given order; within one rule denials apply first, then permissions (the contract)."""
    m = Mounted()
    for name in ["a", "b", "c", "d/e"]:
        m.put(name)
    m.options["mount"] += ":" + rules_file(
        default={"read": False, "list": True},
        rules=[{"pattern": "**", "allow": ["read"], "priority": 1}, {"pattern": "a", "deny": ["*"], "priority": 2}, {"pattern": "a", "allow": ["*"], "priority": 2},
               {"pattern": "b", "deny": ["read"], "allow": ["read"], "priority": 3}, {"pattern": "c", "allow": ["*"], "priority": 5}],
        exclude=["c", "d/**"])
    answers = m.value("""
        os.chdir('/workspace/m')
        return [attempt(lambda: open(name).read()) for name in ['a', 'b', 'c', 'd/e']]
    """)
    equal(answers, ["EACCES", "ok", "EACCES", "EACCES"])


def test_a_path_that_is_made_later_has_the_rules_of_its_name():
    m = Mounted("later/**=-*", "later=create,list,read", "*=create,modify,read,list")
    answers = m.value("""
        os.chdir('/workspace/m')
        os.mkdir('later')
        return [attempt(open, 'later/x', 'w'), attempt(open, 'other', 'w'), attempt(os.rename, 'other', 'later/x')]
    """)
    equal(answers, ["EACCES", "ok", "EACCES"])
    equal(sorted(os.listdir(m.host)), ["later", "other"])


def test_two_stars_do_not_reach_out_of_the_mount():
    m = Mounted(ALL)
    m.put("x")
    answers = m.value("""
        return [attempt(open, '/workspace/m/../../etc/passwd', 'w'), attempt(open, '/usr/bin/env', 'w'), attempt(open, '/workspace/m/y', 'w')]
    """)
    assert answers[0] in ("EROFS", "EACCES") and answers[1] in ("EROFS", "EACCES"), answers
    equal(answers[2], "ok")


def test_a_grant_through_a_link_is_decided_where_it_leads():
    m = Mounted("open/**=*", "closed/**=-*", "*=list,read")
    m.put("closed/secret", "no")
    m.put("open/x", "yes")
    os.symlink("../closed/secret", os.path.join(m.host, "open", "way"))
    os.symlink("x", os.path.join(m.host, "open", "good"))
    equal(m.value("""
        os.chdir('/workspace/m/open')
        return [attempt(lambda: open('way').read()), attempt(open, 'way', 'w'), open('good').read()]
    """), ["EACCES", "EACCES", "yes"])
    equal(m.read("closed/secret"), "no")


# ---- 34, 35: directories that turn into links while the box works ---------------------------------------------

def test_a_directory_swapped_for_a_link_never_leads_out():
    """The host swaps, the guest reads and writes as fast as it can: at least 700 tries, of which some
    meet the directory and some the link, and files outside are never seen or touched."""
    m = Mounted(ALL, timeout=30)
    m.put("d/file", "inside")
    outside = os.path.abspath("outside")
    os.makedirs(outside)
    with open(os.path.join(outside, "file"), "w") as file:
        file.write("outside")
    os.symlink(outside, os.path.join(m.host, "link"))
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, m.host], start_new_session=True)
    try:
        seen = m.value("""
            tries, seen, met = 0, set(), set()
            while tries < MANY or len(met) < 4:
                for name in ('d', 'link'):
                    tries += 1
                    try:
                        with open(f'/workspace/m/{name}/file') as file: seen.add(file.read())
                        met.add((name, 'directory'))
                        with open(f'/workspace/m/{name}/made{tries % 7}', 'w') as file: file.write('guest')
                        os.unlink(f'/workspace/m/{name}/made{tries % 7}')
                    except OSError as e:
                        met.add((name, 'link'))
            return sorted(seen)
        """.replace("MANY", str(sampled(700, 2000))))
    finally:
        os.killpg(swapper.pid, signal.SIGKILL)
        swapper.wait()
    equal(seen, ["inside"])
    equal(os.listdir(outside), ["file"])
    with open(os.path.join(outside, "file")) as file:
        equal(file.read(), "outside")


SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
os.chdir(sys.argv[1])
while True:
    libc.renameat2(-100, b'd', -100, b'link', 2)
"""


def test_what_is_read_back_is_not_followed():
    """35: the guest puts links where the engine looks afterwards."""
    result = guest("""
        os.symlink('/etc/hostname', '/workspace/link')
        os.mkdir('/workspace/d')
        os.symlink('/etc', '/workspace/d/etc')
    """)
    created = {change["path"]: change for change in result.files["created"]}
    equal((created["/workspace/link"]["kind"], created["/workspace/link"]["target"]), ("symlink", "/etc/hostname"))
    equal(sorted(created), ["/workspace/d", "/workspace/d/etc", "/workspace/link"])
