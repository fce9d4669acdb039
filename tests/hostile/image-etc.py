"""/etc of a box: ours over the image's, which a guest cannot uncover; of the host's /etc only what programs need."""
import os

from cloche import ORDINARY_USER, equal, guest_value, need_ordinary_user, need_root
from image_trees import make_image

# open_tree(2), move_mount(2), fsopen(2), umount2(2)
UNCOVER = """
found = [attempt(open, path) for path in ('/proc/1/root/etc/shadow', '/etc/../etc/shadow', '/run/.etc/shadow')]
found += [syscall(166, b'/etc', flags) for flags in (0, 1, 2, 8)]
found += [syscall(428, -100, b'/etc', flags) for flags in (0, 1)]
found += [syscall(429, -100, b'/etc', -100, b'/tmp', 0), syscall(430, b'overlay', 0), syscall(165, b'/etc', b'/tmp', 0, 4096, 0)]
seen = [path for path in ('/etc', '/run', '/tmp', '/') for here, _, names in os.walk(path, onerror=None) if not here.startswith(('/proc', '/usr'))
        for name in names for path in [os.path.join(here, name)] if os.path.isfile(path) and os.access(path, os.R_OK)
        and os.path.getsize(path) < 4096 and b'of-the-image' in open(path, 'rb').read()]
return [found, sorted(set(seen)), open('/etc/passwd').read()]
"""
OWN_PASSWD = "cloche:x:1000:1000:cloche:/home/cloche:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"


def fill(image):
    for name in ("passwd", "group", "hostname", "resolv.conf", "permitted"):
        with open(f"{image}/etc/{name}", "w") as file:
            file.write("of-the-image\n")


def check_uncover(**options):
    image = make_image()
    fill(image)
    found, seen, passwd = guest_value(UNCOVER, image=image, **options)
    assert all(answer in ("EPERM", "ENOENT", "ENOSYS", "EACCES", "EINVAL") for answer in found), found
    equal((seen, passwd), (["/etc/permitted"], OWN_PASSWD))  # the first is the twin


def test_the_images_own_files_stay_covered():
    check_uncover()


def test_the_images_own_files_stay_covered_for_an_ordinary_user():
    need_ordinary_user()
    check_uncover(under=ORDINARY_USER)


def test_overlay_attributes_and_whiteouts_of_an_image_do_not_count():
    """A directory that another overlay wrote names another to be shown in its place."""
    need_root()
    image = make_image()
    for name in ("secret", "shown"):
        os.mkdir(f"{image}/etc/{name}")
        with open(f"{image}/etc/{name}/file", "w") as file:
            file.write(name)
    os.mkdir(f"{image}/usr/outside")
    with open(f"{image}/usr/outside/file", "w") as file:
        file.write("outside")
    for name, value in (("redirect", b"/../usr/outside"), ("opaque", b"y"), ("metacopy", b"")):
        os.setxattr(f"{image}/etc/shown", "trusted.overlay." + name, value)
        os.setxattr(f"{image}/etc/shown/file", "trusted.overlay." + name, value)
    equal(guest_value("return [open('/etc/' + name + '/file').read() for name in ('secret', 'shown')]", image=image), ["secret", "shown"])


def test_a_pipe_of_the_image_leads_nowhere():
    image = make_image()
    os.mkfifo(f"{image}/etc/pipe", 0o666)
    os.chmod(f"{image}/etc/pipe", 0o666)
    fd = os.open(f"{image}/etc/pipe", os.O_RDWR | os.O_NONBLOCK)
    try:
        answer = guest_value("return attempt(lambda: os.write(os.open('/etc/pipe', os.O_WRONLY | os.O_NONBLOCK), b'x'))", image=image)
        assert answer in ("ENXIO", "EROFS", "ENOENT"), answer
        try:
            equal(os.read(fd, 1), "nothing")
        except BlockingIOError:
            pass
        os.write(fd, b"y")  # the twin: it is a pipe for programs outside
        equal(os.read(fd, 1), b"y")
    finally:
        os.close(fd)


HOSTS_ETC = {"alternatives", "fonts", "gemrc", "group", "hostname", "hosts", "ImageMagick-6", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic",
             "magic.mime", "matplotlibrc", "mime.types", "nsswitch.conf", "os-release", "passwd", "perl", "php", "protocols", "python3", "python3.11", "resolv.conf",
             "services", "ssl", "terminfo"}
NEEDED = {"ld.so.cache", "os-release", "passwd", "hostname", "resolv.conf"}


def test_of_the_hosts_etc_only_what_programs_need():
    names, ssl = guest_value("return [os.listdir('/etc'), os.listdir('/etc/ssl') if os.path.isdir('/etc/ssl') else []]")
    assert set(names) <= HOSTS_ETC, set(names) - HOSTS_ETC
    assert set(ssl) <= {"certs", "openssl.cnf"}, ssl
    assert NEEDED <= set(names), NEEDED - set(names)  # the twin
    assert os.path.exists("/etc/shadow"), "the host has more"
