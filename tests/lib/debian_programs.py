"""Programs of Debian packages that tests need and no machine shall have installed, since that would start a service."""
import hashlib
import os
import subprocess

import npm_cache


def unpacked(*packages):
    """A directory with the files of these packages, fetched with the machine's apt."""
    version = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
    with npm_cache.made_once(f"{packages[0]}-packages-{version}") as (place, is_done):
        if not is_done:
            os.mkdir(f"{place}/archives")
            fetch = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *packages]
            if subprocess.run(fetch, cwd=f"{place}/archives", stdin=subprocess.DEVNULL).returncode:
                subprocess.run(["apt-get", "update", "-qq"], check=True, stdin=subprocess.DEVNULL)  # the lists are missing or old
                subprocess.run(fetch, cwd=f"{place}/archives", check=True, stdin=subprocess.DEVNULL)
            for name in os.listdir(f"{place}/archives"):
                subprocess.run(["dpkg-deb", "-x", f"{place}/archives/{name}", place], check=True)
    return place
