"""A directory as image: its files are the root, read-only, and nothing of the host's /usr shows."""
import os
import re
import shutil
import subprocess
from cloche import call, call_words, cli, equal, guest_code, need_root


def copy_program(image, path):
    """The program and the libraries the loader names for it, at their own paths."""
    listing = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    for name in [path, *re.findall(r"(/\S+) \(0x", listing)]:
        target = image + "/usr" + name.removeprefix("/usr")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(target):
            shutil.copy(os.path.realpath(name), target)


def make_image():
    """Debian's python3 and dash with their libraries, 40 MB."""
    image = os.path.abspath("image")
    for directory in ("usr/bin", "usr/lib", "usr/lib64", "etc"):
        os.makedirs(f"{image}/{directory}")
    for name in ("bin", "lib", "lib64"):
        os.symlink("usr/" + name, f"{image}/{name}")
    version = os.path.basename(os.path.realpath("/usr/bin/python3"))
    copy_program(image, "/usr/bin/" + version)
    copy_program(image, "/usr/bin/dash")
    os.symlink(version, f"{image}/usr/bin/python3")
    os.symlink("dash", f"{image}/usr/bin/sh")
    shutil.copytree("/usr/lib/" + version, f"{image}/usr/lib/{version}", symlinks=True,
                    ignore=shutil.ignore_patterns("dist-packages", "__pycache__", "test", "config-*", "idlelib"))
    for library in copied_modules_libraries(f"{image}/usr/lib/{version}/lib-dynload"):
        copy_program(image, library)
    with open(f"{image}/etc/marker", "w") as file:
        file.write("image")
    return image


def copied_modules_libraries(directory):
    wanted = ("_ctypes", "_ssl", "_hashlib", "_bz2", "_lzma", "_json", "_asyncio")
    modules = [os.path.join(directory, m) for m in os.listdir(directory) if m.startswith(wanted)]
    found = set()
    for module in modules:
        found.update(re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", module], capture_output=True, text=True).stdout))
    return found


def test_the_images_files_are_the_root():
    image = make_image()
    result = call("python", "import os\ndef f(): return [open('/etc/marker').read(), sorted(os.listdir('/usr/bin'))]", "f",
                  image=image)
    equal(result.value[0], "image", result)
    assert "gcc" not in result.value[1] and "dash" in result.value[1], result


def test_it_cannot_be_written():
    image = make_image()
    attack = guest_code("return [attempt(open, p, 'w') for p in ('/etc/marker', '/usr/bin/dash', '/new', '/usr/new')]")
    result = call("python", attack, "attack", image=image)
    for answer in result.value:
        assert answer in ("EROFS", "EACCES"), result
    equal(open(image + "/etc/marker").read(), "image")
    assert not os.path.exists(image + "/usr/new")


def test_a_missing_interpreter_is_named():
    image = make_image()
    finished = cli(*call_words("javascript", "function f() {}", "f", image=image))
    assert finished.code not in (0, 124, 143) and b"node" in finished.stdout + finished.stderr, finished


def test_links_in_the_image_are_not_followed_on_the_host():
    """/dev, /proc and /etc/passwd as links out of the image (CVE-2026-47766, CVE-2021-30465)."""
    need_root()
    image = make_image()
    outside = os.path.abspath("outside")
    os.mkdir(outside)
    for name in ("dev", "proc", "tmp", "workspace", "etc/passwd", "etc/hosts"):
        os.symlink(outside, f"{image}/{name}")
    result = call("python", "def f(): return [open('/etc/passwd').read(), open('/proc/self/comm').read() != '']", "f",
                  image=image)
    equal(result.status, "success", result)
    assert "cloche" in result.value[0] and "root:" not in result.value[0], result
    equal(os.listdir(outside), [])
