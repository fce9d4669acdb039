/* Make and read the keys for ssh to sandboxes. Runs in: the CLI, as its user; ssh-keygen does the
 * work. */
#include "keys.h"

#include "cli/command/cli.h"
#include "cli/run/xdg.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789-"
#define CAPITALS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define STATUS_MISSING 127

extern char **environ;

/* -- names and places ------------------------------------------------------------------------------------------ */

int ssh_keys_name(const char *word, char ret[SSH_NAME_MAX + 1])
{
        size_t size = strlen(word), suffix = strlen(SSH_SUFFIX);

        if (size > suffix && strcmp(word + size - suffix, SSH_SUFFIX) == 0)
                size -= suffix;
        if (size == 0 || size > SSH_NAME_MAX || strspn(word, NAME_CHARACTERS CAPITALS) < size || word[0] == '-' ||
            word[size - 1] == '-')
                return cli_bad("the host is no sandbox: expected a name of 1 to %d letters a-z, digits and '-', with "
                               "or without %s",
                               SSH_NAME_MAX, SSH_SUFFIX);
        if (strspn(word, NAME_CHARACTERS) < size)
                return cli_bad("\"%.*s\" has capital letters, which ssh makes small: give the sandbox another name "
                               "(cloche sandbox rename)",
                               (int)size, word);
        snprintf(ret, SSH_NAME_MAX + 1, "%.*s", (int)size, word);
        return 0;
}

/* A key is read and sent into the sandbox: whoever writes here could name any file of ours. */
static int check_place(const char *place)
{
        struct stat about;

        if (stat(place, &about) < 0)
                return errno == ENOENT ? 0 : cli_bad("cannot use '%s': %s", place, strerror(errno));
        return about.st_uid == geteuid() && !(about.st_mode & (S_IWGRP | S_IWOTH))
                       ? 0
                       : cli_bad("'%s' is no place for keys: it is another user's, or others can write to it", place);
}

static int find_place(const char *named, char ret[SSH_PATH_BYTES])
{
        char *full;
        int code;

        if (!named)
                return cli_xdg_find("XDG_DATA_HOME", ".local/share", "cloche/ssh", "keys of ssh", ret, SSH_PATH_BYTES);
        code = cli_xdg_make_directories(named);
        if (code)
                return code;
        full = realpath(named, NULL);
        if (!full)
                return cli_bad("--keys: '%s': %s", named, strerror(errno));
        code = snprintf(ret, SSH_PATH_BYTES, "%s", full) < SSH_PATH_BYTES ? 0 : cli_bad("--keys: the path is too long");
        free(full);
        return code;
}

int ssh_keys_place(const char *named, char ret[SSH_PATH_BYTES])
{
        int code = find_place(named, ret);

        return code ? code : check_place(ret);
}

/* -- making ---------------------------------------------------------------------------------------------------- */

/* Our standard output may be ssh's connection. */
static int run_keygen(const char *path, const char *kind, const char *comment)
{
        const char *argv[] = {"ssh-keygen", "-q", "-t", kind, "-b", "521", "-N", "", "-C", comment, "-f", path, NULL};
        posix_spawn_file_actions_t actions;
        int status = 0, r;
        pid_t pid;

        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
        r = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        if (r == 0 && waitpid(pid, &status, 0) == pid && status == 0)
                return 0;
        if (r == ENOENT || (r == 0 && WIFEXITED(status) && WEXITSTATUS(status) == STATUS_MISSING))
                return cli_bad("ssh-keygen is missing: install openssh-client");
        return cli_bad("ssh-keygen cannot make the key '%s'", path);
}

/* The file has a fixed small size: else it is none of ours. */
static int read_text(const char *place, const char *name, char ret[SSH_KEY_BYTES])
{
        char path[SSH_PATH_BYTES + 32];
        _cleanup_fd_ int fd = -EBADF;
        ssize_t n;

        snprintf(path, sizeof(path), "%s/%s", place, name);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        n = fd < 0 ? -1 : read(fd, ret, SSH_KEY_BYTES);
        if (n < 0)
                return cli_bad("cannot read '%s': %s: remove the directory, and another key is made", path,
                               strerror(errno));
        if (n == 0 || n == SSH_KEY_BYTES || memchr(ret, '\0', (size_t)n))
                return cli_bad("'%s' is no key: remove the directory '%s', and another key is made", path, place);
        ret[n] = '\0';
        return 0;
}

static int write_known_hosts(const char *place, const char *host)
{
        char path[SSH_PATH_BYTES + 32], key[SSH_KEY_BYTES];
        FILE *file;
        int code = read_text(place, "key.pub", key), bad;

        if (code)
                return code;
        snprintf(path, sizeof(path), "%s/known_hosts", place);
        file = fopen(path, "wxe");
        bad = !file || fprintf(file, "%s %s", host, key) < 0;
        if (file)
                bad |= fclose(file) != 0;
        return bad ? cli_bad("cannot write '%s': %s", path, strerror(errno)) : 0;
}

static void remove_place(const char *place)
{
        static const char *const names[] = {"key", "key.pub", "known_hosts"};
        char path[SSH_PATH_BYTES + 32];

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                snprintf(path, sizeof(path), "%s/%s", place, names[i]);
                (void)unlink(path);
        }
        (void)rmdir(place);
}

/* host: of the line in known_hosts; NULL: none. The client's key is of a kind that few people have,
 * so that ssh can be told to offer no others (entry.c). */
static int fill(const char *place, const char *comment, const char *host)
{
        char path[SSH_PATH_BYTES + 32];
        int code;

        snprintf(path, sizeof(path), "%s/key", place);
        code = run_keygen(path, host ? "ed25519" : "ecdsa", comment); /* the bits are of ecdsa only */
        return code == 0 && host ? write_known_hosts(place, host) : code;
}

/* The directory appears with all its files: two connections may begin at once, and the first one's
 * key is that of both. */
static int make(const char *above, const char *name, const char *comment, const char *host)
{
        char place[SSH_PATH_BYTES], made[SSH_PATH_BYTES];
        int code;

        if (snprintf(place, sizeof(place), "%s/%s", above, name) >= (int)sizeof(place) - 32 ||
            snprintf(made, sizeof(made), "%s/.new-XXXXXX", above) >= (int)sizeof(made))
                return cli_bad("the path of the keys of ssh is too long: '%s'", above);
        if (access(place, F_OK) == 0)
                return 0;
        code = cli_xdg_make_directories(above);
        if (code)
                return code;
        if (!mkdtemp(made))
                return cli_bad("cannot make a directory in '%s': %s", above, strerror(errno));
        code = fill(made, comment, host);
        if (code == 0 && rename(made, place) < 0 && errno != EEXIST && errno != ENOTEMPTY)
                code = cli_bad("cannot make '%s': %s", place, strerror(errno));
        remove_place(made);
        return code;
}

int ssh_keys_make_client(const char *place)
{
        return make(place, "client", "cloche", NULL);
}

/* -- reading --------------------------------------------------------------------------------------------------- */

int ssh_keys_read(const char *place, const char *name, struct ssh_keys *ret)
{
        char path[SSH_PATH_BYTES + 32], host[SSH_NAME_MAX + sizeof(SSH_SUFFIX)];
        int code;

        snprintf(host, sizeof(host), "%s" SSH_SUFFIX, name);
        snprintf(path, sizeof(path), "%s/hosts", place);
        code = ssh_keys_make_client(place);
        if (code == 0)
                code = make(path, host, host, host);
        if (code)
                return code;
        snprintf(path, sizeof(path), "%s/hosts/%s", place, host);
        code = read_text(path, "key", ret->host_key);
        snprintf(path, sizeof(path), "%s/client", place);
        return code ? code : read_text(path, "key.pub", ret->client_key);
}
