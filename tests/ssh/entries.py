"""The entries of cloche ssh-config: their quotes, files and modes, hostile names, and all that they switch off."""
import os
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box_sshd import HANG
from cloche import CLI, bad_input, cli, equal, write_file

ODD = "it's 50% $HOME #1 %h"
KEYS = ["--keys", "keys"]


def printed(*words):
    done = cli("ssh-config", *KEYS, *words)
    equal(done.code, 0, done)
    return done.stdout.decode()


def settings(host, config):
    """As ssh has them, by name; None: ssh itself refuses the host."""
    write_file("config", config)
    done = subprocess.run(["ssh", "-F", "config", "-G", "--", host], capture_output=True, text=True, timeout=HANG)
    return {name: value for name, _, value in (line.partition(" ") for line in done.stdout.splitlines())} if done.returncode == 0 else None


def test_names_of_others():
    for word in ("a b", "x\nHost *", "$(id)", "a'b", "A", "-", "a-", "a.b", "%h", "x" * 64, "", ".cloche", "a.cloche.cloche", "é"):
        for command in ("ssh-config", "ssh-proxy"):
            done = cli(command, *KEYS, word, env={"CLOCHE_SOCKET": os.path.abspath("none")})
            equal((done.code != 0, done.stdout), (True, b""), done)
    bad_input("ssh-proxy", *KEYS, "$(id).cloche", says="the host is no sandbox")
    bad_input("ssh-proxy", *KEYS, "Work.cloche", says='"Work" has capital letters, which ssh makes small: .*cloche sandbox rename')
    for user in ("a b", "x\n    LocalCommand id", "-a", "", "%r", "x" * 33):
        bad_input("ssh-config", *KEYS, "--user", user, says="--user: expected")


def test_hosts_of_others():
    """The host may be of a URL that someone else wrote, and ssh gives it to a shell."""
    config = printed()
    equal(settings("box.cloche", config)["proxycommand"].split()[-1], "'%h'")
    for host in ("a'b.cloche", "-x.cloche", "'$(id)'.cloche"):
        found = settings(host, config)
        assert found is None or "proxycommand" not in found, found
    [command] = [line.strip().removeprefix("ProxyCommand ") for line in config.splitlines() if "ProxyCommand" in line]
    for host in ("$(touch made).cloche", "`touch made`.cloche", ";touch made;.cloche", "\ntouch made\n.cloche", "$PWD.cloche", "../x.cloche", "--socket.cloche"):
        done = subprocess.run(["sh", "-c", "exec " + command.replace("%h", host)], capture_output=True, text=True, timeout=HANG)
        equal((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done)
        subprocess.run(["ssh", "-F", "config", "--", host], stdin=subprocess.DEVNULL, capture_output=True, timeout=HANG)
    assert not os.path.exists("made")
    assert not os.path.exists("keys/hosts")


DANGEROUS = "Host *\n ForwardAgent yes\n ForwardX11 yes\n ForwardX11Trusted yes\n PermitLocalCommand yes\n LocalCommand touch made\n StrictHostKeyChecking no\n UpdateHostKeys yes\n" \
            " CanonicalizeHostname always\n PasswordAuthentication yes\n KbdInteractiveAuthentication yes\n PreferredAuthentications password\n GSSAPIAuthentication yes\n Tunnel yes\n" \
            " IdentitiesOnly no\n GatewayPorts yes\n VerifyHostKeyDNS yes\n HostbasedAuthentication yes\n AddKeysToAgent yes\n IdentityAgent /agent\n User other\n PubkeyAcceptedKeyTypes ssh-rsa,ssh-ed25519\n"
OUR_KIND = "ecdsa-sha2-nistp521"  # keys that other entries name are of other kinds
SAFE = {"forwardagent": "no", "forwardx11": "no", "forwardx11trusted": "no", "permitlocalcommand": "no", "stricthostkeychecking": "true", "updatehostkeys": "false", "canonicalizehostname": "false",
        "passwordauthentication": "no", "kbdinteractiveauthentication": "no", "preferredauthentications": "publickey", "tunnel": "false", "identitiesonly": "yes",
        "gatewayports": "no", "verifyhostkeydns": "false", "hostbasedauthentication": "no", "addkeystoagent": "false", "identityagent": "none", "user": "cloche", "hostkeyalgorithms": "ssh-ed25519",
        "pubkeyacceptedalgorithms": OUR_KIND}


def test_the_users_own_settings_do_not_weaken_them():
    found = settings("box.cloche", printed() + DANGEROUS)
    found.setdefault("pubkeyacceptedalgorithms", found.get("pubkeyacceptedkeytypes"))  # as ssh before 8.5 calls it
    equal({name: found[name] for name in SAFE}, SAFE)
    with open("keys/client/key.pub") as file:
        equal(file.read().split()[0], OUR_KIND)
    equal(settings("box.cloche", printed("--user", "app"))["user"], "app")
    equal(settings("other", printed() + DANGEROUS)["forwardagent"], "yes")  # they hold elsewhere


def test_paths():
    place = os.path.abspath(ODD)
    found = settings("box.cloche", printed("--socket", ODD, "--keys", ODD))
    equal(found["identityfile"].replace("%%", "%"), f"{place}/client/key")
    command = found["proxycommand"].replace("'%h'", "box").replace("%%", "%")
    equal(subprocess.run(["sh", "-c", "printf '%s\\n' " + command.removeprefix(f"'{CLI}' ")], capture_output=True, text=True, timeout=HANG).stdout.splitlines(),
          ["ssh-proxy", "--keys", place, "--socket", place, "box"])
    for name in ('a"b', "a\\b", "a\nb", "${HOME}", "a\tb"):
        bad_input("ssh-config", "--keys", name, says="the path of the keys cannot be written")
        bad_input("ssh-config", *KEYS, "--socket", name, says="the path of the daemon's socket cannot be written")


def test_a_place_that_others_can_write_to():
    """They could put a link to a private key there, which would be sent into the sandbox."""
    for mode in (0o777, 0o770):
        os.makedirs("shared", exist_ok=True)
        os.chmod("shared", mode)
        for command in (["ssh-config"], ["ssh-proxy", "box"]):
            bad_input(*command, "--keys", "shared", says="others can write to it")
    equal(os.listdir("shared"), [])
    os.chmod("shared", 0o755)
    equal(cli("ssh-config", "--keys", "shared").code, 0)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_files():
    done = cli("ssh-config", *KEYS, "--write", "below/config")
    equal((done.code, done.stdout), (0, b""), done)
    assert done.stderr.endswith(f'\nInclude "{os.path.abspath("below/config")}"\n'.encode()), done
    equal([mode("below"), mode("below/config"), mode("keys/client"), mode("keys/client/key")], [0o700, 0o600, 0o700, 0o600])
    with open("below/config") as file:
        first = file.read()
    equal(first, printed())
    equal(cli("ssh-config", *KEYS, "--user", "app", "--write", "below/config").code, 0)  # its own file is replaced
    equal(settings("x.cloche", open("below/config").read())["user"], "app")
    write_file("mine", "Host *\n")
    os.symlink("below/config", "link")
    for path in ("mine", "link", "below"):
        done = cli("ssh-config", *KEYS, "--write", path)
        equal(done.code, 2, done)
    equal((open("mine").read(), os.readlink("link"), sorted(os.listdir("below"))), ("Host *\n", "below/config", ["config"]))
    write_file("keys/client/key.pub", "")
    equal(cli("ssh-config", *KEYS).code, 0)  # the key is read when ssh connects
    os.environ["PATH"] = os.path.dirname(CLI)
    bad_input("ssh-config", "--keys", "others", says="ssh-keygen is missing: install openssh-client")
    equal(os.listdir("others"), [])
