/* cloche ssh-proxy: the ProxyCommand of ssh(1). It starts an sshd in a sandbox, for one
 * connection, which is our standard input and output. Runs in: the CLI, as its user; the sshd is
 * a program of the sandbox, whose code may do with it as it likes. */
#include "cli/options/options.h"
#include "cli/sandbox/follow.h"
#include "keys.h"

#include <string.h>

/* sshd reads keys and settings from files. /dev/shm is in every box, and never saved.
 * StrictModes would check directories of the sandbox for users that are all one here. */
static const char settings[] = "AuthorizedKeysFile /dev/shm/.cloche-ssh/client\n"
                               "HostKey /dev/shm/.cloche-ssh/host\n"
                               "StrictModes no\n"
                               "PidFile none\n"
                               "LogLevel FATAL\n" /* lesser lines would go to ssh's terminal */
                               "PasswordAuthentication no\n"
                               "KbdInteractiveAuthentication no\n"
                               "AllowAgentForwarding no\n"
                               "X11Forwarding no\n"
                               "PermitTunnel no\n"
                               "GatewayPorts no\n"
                               "UseDNS no\n"
                               "PrintMotd no\n"
                               "PrintLastLog no\n"
                               "AcceptEnv LANG LC_* GIT_PROTOCOL COLORTERM\n"
                               "Subsystem sftp internal-sftp\n"
                               /* a proxy that was killed leaves its sshd for a minute */
                               "ClientAliveInterval 15\n"
                               "ClientAliveCountMax 3\n";

/* A directory that another user of the sandbox made would give that user what root's sshd loads.
 * Only the first SetEnv of a file counts. Programs of ssh get the environment that programs of the
 * sandbox have, but for variables that sshd sets itself. */
static const char script[] =
        "mask=$(umask)\n"
        "umask 077\n"
        "place=/dev/shm/.cloche-ssh\n"
        "put() { printf \"$2\" \"$3\" >\"$place/$1.$$\" && mv -f \"$place/$1.$$\" \"$place/$1\"; }\n"
        "if ! sshd=$(PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; type -P sshd); then\n"
        "        echo 'cloche: there is no sshd in this sandbox: install openssh-server in its image or, if it '\\\n"
        "'has none, on the host of the daemon' >&2\n"
        "        exit 127\n"
        "fi\n"
        "mkdir -p -m 755 \"$place\" 2>/dev/null\n"
        "if ! [ -d \"$place\" ] || [ -h \"$place\" ] || ! [ -O \"$place\" ]; then\n"
        "        rm -rf \"$place\" && mkdir -m 755 \"$place\" || exit\n"
        "fi\n"
        "variables=\n"
        "for name in $(compgen -e); do\n"
        "        case $name in\n"
        "        CLOCHE_SSH_* | HOME | LOGNAME | OLDPWD | PWD | SHELL | SHLVL | TERM | USER | _) continue ;;\n"
        "        esac\n"
        "        value=${!name}\n"
        "        case $value in *$'\\n'*) continue ;; esac\n"
        "        value=${value//\\\\/\\\\\\\\}\n"
        "        variables+=\" \\\"$name=${value//\\\"/\\\\\\\"}\\\"\"\n"
        "done\n"
        "put host '%s\\n' \"$CLOCHE_SSH_HOST\" && (umask 022; put client '%s\\n' \"$CLOCHE_SSH_CLIENT\") &&\n"
        "        put settings '%s\\n' \"$CLOCHE_SSH_SETTINGS${variables:+SetEnv$variables}\" || exit\n"
        "if [ \"$CLOCHE_SSH_CHROOT\" ]; then\n"
        "        put chroot.so %b \"$CLOCHE_SSH_CHROOT\" && mkdir -p -m 755 /run/sshd || exit\n"
        "        export LD_PRELOAD=$place/chroot.so\n"
        "fi\n"
        "unset \"${!CLOCHE_SSH_@}\"\n"
        "umask \"$mask\"\n"
        "exec \"$sshd\" -i -e -f \"$place/settings\"\n";

/* For root, see box/init/chroot.c; as printf %b of a shell takes it. */
static const char chroot_library[] =
#include "chroot-text.inc"
        ;

/* The command is short, since cloche ps prints it. */
static json_t *start_params(const char *sandbox, int is_root, const struct ssh_keys *keys)
{
        return json_pack("{s:s, s:s, s:b, s:b, s:{s:s, s:s, s:s, s:s, s:s}}", "sandbox", sandbox, "command",
                         "exec bash --norc --noprofile -c \"$CLOCHE_SSH_SCRIPT\" # ssh", "stdin", 1, "paced", 1, "env",
                         "CLOCHE_SSH_SCRIPT", script, "CLOCHE_SSH_SETTINGS", settings, "CLOCHE_SSH_HOST",
                         keys->host_key, "CLOCHE_SSH_CLIENT", keys->client_key, "CLOCHE_SSH_CHROOT",
                         is_root ? chroot_library : "");
}

static int follow_sshd(struct daemon_client *client, const char *sandbox, const json_t *started)
{
        struct follow f = {
                .client = client,
                .sandbox = sandbox,
                .process = sandbox_text(started, "process"),
                .passes_input = 1,
                .ends_input = 1,
                .is_error_plain = 1,
        };
        json_t *ended = NULL;
        int code = follow_request(&f, "process.follow",
                                  json_pack("{s:s, s:s}", "sandbox", sandbox, "process", f.process), &ended);

        if (code == 0)
                code = (int)json_integer_value(json_object_get(ended, "exitCode"));
        /* Not by itself (autoCleanup): one that ends at once would be gone before it is
         * followed. */
        if (ended)
                (void)sandbox_request(client, "process.cleanup",
                                      json_pack("{s:s, s:s}", "sandbox", sandbox, "process", f.process), NULL);
        json_decref(ended);
        return code;
}

static int proxy(struct cli_request *request)
{
        char name[SSH_NAME_MAX + 1], place[SSH_PATH_BYTES];
        struct daemon_client client;
        struct ssh_keys keys;
        json_t *sandbox = NULL, *started = NULL;
        int code = ssh_keys_name(request->positional[0], name);

        if (code == 0)
                code = ssh_keys_place(request->ssh.keys, place);
        if (code == 0)
                code = sandbox_open(request, &client);
        if (code)
                return code;
        code = sandbox_request(&client, "sandbox.get", json_pack("{s:s}", "sandbox", name), &sandbox);
        if (code == 0)
                code = ssh_keys_read(place, name, &keys);
        if (code == 0)
                sandbox_print_lost(&client, request, name);
        if (code == 0)
                code = sandbox_request(&client, "process.start",
                                       start_params(name, json_is_true(json_object_get(sandbox, "root")), &keys),
                                       &started);
        if (code == 0)
                code = follow_sshd(&client, name, started);
        json_decref(started);
        json_decref(sandbox);
        daemon_close(&client);
        return code;
}

const struct cli_handler command_ssh_proxy = {
        .run = proxy,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
};
