/* Print entries of ssh_config(5). Runs in: the CLI, as its user. */
#include "entry.h"

#include "cli/command/cli.h"
#include "keys.h"

#include <string.h>

#define USER_MAX 32
#define USER_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789_-"

/* The sshd of a sandbox is its code's, so it gets nothing that it could use: no agent, no
 * display, no password, no other key, no command here. The first value that ssh finds holds.
 * sntrup costs 0.08 s a connection, and nobody listens between here and the sandbox; mlkem (9.9)
 * costs nothing, and without either ssh 10.1 prints a warning. Options of GSSAPI are an error
 * where ssh is built without it: PreferredAuthentications has none. Each IdentityFile of the user's
 * configuration counts too, and the sandbox would see whose client it is: only keys of our kind
 * are offered, by the name of the option that ssh before 8.5 has as well. */
static const char fixed[] = "    IdentitiesOnly yes\n"
                            "    IdentityAgent none\n"
                            "    PubkeyAcceptedKeyTypes ecdsa-sha2-nistp521\n"
                            "    CertificateFile none\n"
                            "    AddKeysToAgent no\n"
                            "    GlobalKnownHostsFile /dev/null\n"
                            "    StrictHostKeyChecking yes\n"
                            "    HostKeyAlgorithms ssh-ed25519\n"
                            "    KexAlgorithms -sntrup*\n"
                            "    UpdateHostKeys no\n"
                            "    CheckHostIP no\n"
                            "    VerifyHostKeyDNS no\n"
                            "    CanonicalizeHostname no\n"
                            "    PreferredAuthentications publickey\n"
                            "    PasswordAuthentication no\n"
                            "    KbdInteractiveAuthentication no\n"
                            "    HostbasedAuthentication no\n"
                            "    ForwardAgent no\n"
                            "    ForwardX11 no\n"
                            "    ForwardX11Trusted no\n"
                            "    Tunnel no\n"
                            "    GatewayPorts no\n"
                            "    PermitLocalCommand no\n"
                            "    ProxyUseFdpass no\n";

/* -- quotes ---------------------------------------------------------------------------------------------------- */

/* ssh_config(5) takes a backslash for an escape in some versions and not in others, and expands ${
 * in paths. */
int entry_check_path(const char *subject, const char *path)
{
        for (const char *at = path; *at; at++)
                if ((unsigned char)*at < ' ' || *at == 127 || *at == '"' || *at == '\\' || strncmp(at, "${", 2) == 0)
                        return cli_bad("the path of %s cannot be written to a configuration of ssh: expected one "
                                       "without quotes (\"), backslashes, ${ and control characters",
                                       subject);
        return 0;
}

int entry_check_user(const char *user)
{
        size_t size = strlen(user);

        return size > 0 && size <= USER_MAX && user[0] != '-' && strspn(user, USER_CHARACTERS) == size
                       ? 0
                       : cli_bad("--user: expected 1 to %d letters a-z, digits, '_' and '-', not '-' first", USER_MAX);
}

/* % begins a token. */
static void print_percent(FILE *out, char character)
{
        fputs(character == '%' ? "%%" : (char[]){character, '\0'}, out);
}

/* For ssh. */
static void print_path(FILE *out, const char *option, const char *path, const char *below)
{
        fprintf(out, "    %s \"", option);
        for (; *path; path++)
                print_percent(out, *path);
        fprintf(out, "%s\"\n", below);
}

/* For the user's shell, to which ssh gives the command. */
static void print_word(FILE *out, const char *word)
{
        fputs(" '", out);
        for (; *word; word++)
                if (*word == '\'')
                        fputs("'\\''", out);
                else
                        print_percent(out, *word);
        fputc('\'', out);
}

/* -- entries --------------------------------------------------------------------------------------------------- */

static void print_command(FILE *out, const struct entry *entry)
{
        fputs("    ProxyCommand", out);
        print_word(out, entry->program);
        fputs(" ssh-proxy --keys", out);
        print_word(out, entry->place);
        if (entry->socket) {
                fputs(" --socket", out);
                print_word(out, entry->socket);
        }
        fprintf(out, " '%s'\n", entry->name ? entry->name : "%h");
}

/* The name in %h may be an attacker's, as in a URL of a git submodule: one with a quote, which
 * would end ours, or with a hyphen first is no host of this entry. */
static void print_host(FILE *out, const struct entry *entry)
{
        if (entry->name)
                fprintf(out,
                        "Host %s %s" SSH_SUFFIX "\n    HostName %s" SSH_SUFFIX "\n    HostKeyAlias %s" SSH_SUFFIX "\n",
                        entry->name, entry->name, entry->name, entry->name);
        else
                fputs("Host *" SSH_SUFFIX " \"!*'*\" !-*\n", out);
}

void entry_print(FILE *out, const struct entry *entry)
{
        char known[SSH_NAME_MAX + 64];

        print_host(out, entry);
        fprintf(out, "    User %s\n", entry->user);
        print_command(out, entry);
        print_path(out, "IdentityFile", entry->place, "/client/key");
        snprintf(known, sizeof(known), "/hosts/%s%s/known_hosts", entry->name ? entry->name : "%h",
                 entry->name ? SSH_SUFFIX : "");
        print_path(out, "UserKnownHostsFile", entry->place, known);
        fputs(fixed, out);
}
