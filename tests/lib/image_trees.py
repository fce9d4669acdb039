"""Directories that are images of boxes. Standard library only."""
import os
import re
import shutil
import subprocess
import sys

LOADER = "/lib64/ld-linux-x86-64.so.2"


def libraries_of(*paths):
    """The libraries that the loader names for these. ldd would start four processes for each."""
    environment = {**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}
    named = (subprocess.run([LOADER, path], env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout for path in paths)
    return set(re.findall(r"(/\S+) \(0x", "".join(named)))


def copy_programs(image, *paths):
    """The programs and their libraries, at their own paths."""
    copy_files(image, {*paths, *libraries_of(*paths)})


def copy_files(image, paths):
    for name in paths:
        target = image + "/usr" + name.removeprefix("/usr")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(target):
            shutil.copy(os.path.realpath(name), target)


LEFT_OUT = re.compile(r"dist-packages|test|config-.*|idlelib|ensurepip|lib2to3|tkinter|pydoc_data|unittest|turtledemo|venv|wsgiref")


def copy_modules(source, target):
    """Python's standard library, each module compiled, beside its folder's others and without its source:
    450 files instead of 1,100, each of which costs every copy, import and removal of an image."""
    for directory, folders, names in os.walk(source):
        folders[:] = [name for name in folders if not LEFT_OUT.fullmatch(name) and name != "__pycache__"]
        place = target + directory.removeprefix(source)
        os.makedirs(place, exist_ok=True)
        for name in names:
            path = os.path.join(directory, name)
            compiled = f"{directory}/__pycache__/{name.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"
            if os.path.exists(compiled):
                shutil.copy(compiled, f"{place}/{name}c")
            elif not os.path.islink(path):
                shutil.copy(path, place)


def make_shell(name="image"):
    """bash with its libraries, 3 MB."""
    image = os.path.abspath(name)
    for directory in ("usr/bin", "usr/lib", "usr/lib64", "etc"):
        os.makedirs(f"{image}/{directory}")
    for name in ("bin", "lib", "lib64"):
        os.symlink("usr/" + name, f"{image}/{name}")
    copy_programs(image, "/usr/bin/bash")
    copy_files(image, libraries_of(os.path.join(os.environ["CLOCHE_BUILD"], "cloche-bash.so")))
    return image


def make_image(name="image"):
    """Debian's python3, bash, dash and env with their libraries, 40 MB; /etc/marker has the name."""
    image = os.path.abspath(name)
    for directory in ("usr/bin", "usr/lib", "usr/lib64", "etc"):
        os.makedirs(f"{image}/{directory}")
    for name in ("bin", "lib", "lib64"):
        os.symlink("usr/" + name, f"{image}/{name}")
    version = os.path.basename(os.path.realpath("/usr/bin/python3"))
    copy_programs(image, *("/usr/bin/" + name for name in (version, "dash", "bash", "env")))
    os.symlink(version, f"{image}/usr/bin/python3")
    os.symlink("dash", f"{image}/usr/bin/sh")
    copy_modules("/usr/lib/" + version, f"{image}/usr/lib/{version}")
    wanted = ("_ctypes", "_ssl", "_hashlib", "_bz2", "_lzma", "_json", "_asyncio")
    dynamic = f"{image}/usr/lib/{version}/lib-dynload"
    copy_files(image, libraries_of(os.path.join(os.environ["CLOCHE_BUILD"], "cloche-session.so"), *(f"{dynamic}/{m}" for m in os.listdir(dynamic) if m.startswith(wanted))))
    with open(f"{image}/etc/marker", "w") as file:
        file.write(os.path.basename(image))
    return image


def make_store(count, directory="images"):
    """A store with that many images, alike but for /etc/marker, which has the digest. Returns it and the digests."""
    image = make_image()
    store = os.path.abspath(directory)
    digests = [f"sha256-{i:064x}" for i in range(count)]
    os.makedirs(f"{store}/trees")
    for path in (store, f"{store}/trees"):
        os.chmod(path, 0o700)
    for digest in digests:
        tree = f"{store}/trees/{digest}"
        shutil.copytree(image, tree, symlinks=True, copy_function=os.link)
        os.remove(f"{tree}/etc/marker")
        with open(f"{tree}/etc/marker", "w") as file:
            file.write(digest)
    return store, digests


ETC = """import os
def f():
    return [len(os.listdir('/etc')), open('/etc/file-9999').read(), open('/etc/marker').read(), os.readlink('/etc/link'),
            os.listdir('/etc/directory'), *(open('/etc/' + name).read().split()[0] for name in ('hosts', 'hostname', 'passwd'))]"""
OWN = ["127.0.0.1", "cloche", "cloche:x:1000:1000:cloche:/home/cloche:/bin/sh"]


def fill_etc(image):
    """More entries than a box may have mounts of, and two that it replaces."""
    for i in range(10000):
        with open(f"{image}/etc/file-{i}", "w") as file:
            file.write(str(i))
    os.mkdir(f"{image}/etc/directory")
    open(f"{image}/etc/directory/inner", "w").close()
    os.symlink("directory/inner", f"{image}/etc/link")
    os.mkdir(f"{image}/etc/hosts")  # a directory where ours is a file
    with open(f"{image}/etc/passwd", "w") as file:
        file.write("root:x:0:0::/root:/bin/sh\n")
    # those, the marker, the directory, the link; and hosts, passwd, group, hostname, nsswitch.conf, resolv.conf
    return [10009, "9999", os.path.basename(image), "directory/inner", ["inner"], *OWN]


def configured_image(config, name="layout"):
    """An OCI layout of make_image() with this configuration; it has /srv/app, a user and a tool in /opt/bin."""
    import tarfile
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "image"))
    from store import Image
    root = os.path.abspath("root")
    if not os.path.exists(root):
        make_image("root")
        for path, text in (("srv/app/helper.py", "VALUE = 7\n"), ("etc/passwd", "app:x:1001:1001::/home/app:/bin/sh\n"), ("opt/bin/tool", "#!/bin/sh\necho a tool of the image\\'s PATH\n")):
            os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
            with open(f"{root}/{path}", "w") as file:
                file.write(text)
        os.chmod(f"{root}/opt/bin/tool", 0o755)
        with tarfile.open("layer.tar", "w", format=tarfile.PAX_FORMAT) as layer:
            layer.add(root, ".")
    with open("layer.tar", "rb") as layer:
        layout = Image([layer.read()], config)
    shutil.rmtree(name, ignore_errors=True)
    return layout.write(os.path.abspath(name))
