/* cloche ssh-config: print or write entries of ssh_config(5) for sandboxes. Runs in: the CLI, as
 * its user. */
#include "cli/options/options.h"
#include "cli/run/xdg.h"
#include "entry.h"
#include "keys.h"

#include "base/fd.h"
#include "user/xdg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define USER "cloche" /* that of boxes whose image names none (jail/user.h) */
#define ROOT "root"

/* -- the file --------------------------------------------------------------------------------------------------- */

/* A file that we did not write may be the user's own configuration. */
static int check_file(const char *path)
{
        char begin[sizeof(ENTRY_MARK)] = "";
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        ssize_t n;

        if (fd < 0 && errno == ENOENT)
                return 0;
        n = fd < 0 ? -1 : read(fd, begin, strlen(ENTRY_MARK));
        if (n < 0 && errno != ELOOP)
                return cli_bad("--write: '%s': %s", path, strerror(errno));
        return n >= 0 && strcmp(begin, ENTRY_MARK) == 0
                       ? 0
                       : cli_bad("--write: '%s' is there and not written by this command: name another file, and "
                                 "Include it",
                                 path);
}

static int write_file(const char *path, const char *text, size_t size)
{
        char made[SSH_PATH_BYTES];
        int fd = -EBADF, r = xdg_make_parents(path), is_written;

        if (r == 0 && snprintf(made, sizeof(made), "%s.XXXXXX", path) >= (int)sizeof(made))
                r = -ENAMETOOLONG;
        if (r == 0 && (fd = mkostemp(made, O_CLOEXEC)) < 0)
                r = -errno;
        if (r < 0)
                return cli_bad("--write: '%s': %s", path, strerror(-r));
        is_written = write(fd, text, size) == (ssize_t)size && rename(made, path) == 0;
        r = errno;
        fd_close(&fd);
        if (is_written)
                return 0;
        (void)unlink(made);
        return cli_bad("--write: '%s': %s", path, strerror(r));
}

static int put_text(const struct cli_request *request, const char *text, size_t size)
{
        const char *file = request->ssh.file;
        char path[SSH_PATH_BYTES];
        int code;

        if (!file) {
                fwrite(text, 1, size, stdout);
                return 0;
        }
        code = cli_xdg_make_absolute(file, path, sizeof(path));
        if (code == 0)
                code = entry_check_path("--write", path);
        if (code == 0)
                code = check_file(file);
        if (code == 0)
                code = write_file(file, text, size);
        if (code == 0)
                fprintf(stderr,
                        "cloche: %s is written; it is in force once this line is at the top of ~/.ssh/config:\n"
                        "Include \"%s\"\n",
                        file, path);
        return code;
}

/* -- entries ---------------------------------------------------------------------------------------------------- */

struct paths {
        char program[SSH_PATH_BYTES], place[SSH_PATH_BYTES], socket[SSH_PATH_BYTES];
};

static int find_paths(struct cli_request *request, struct paths *paths)
{
        const char *socket = request->sandbox.socket ? request->sandbox.socket : getenv("CLOCHE_SOCKET");
        ssize_t size = readlink("/proc/self/exe", paths->program, sizeof(paths->program) - 1);
        int code = size < 0 ? cli_bad("cannot find this program: %s", strerror(errno)) : 0;

        if (code == 0)
                code = ssh_keys_place(request->ssh.keys, paths->place);
        if (code == 0)
                code = entry_check_path("cloche", paths->program);
        if (code == 0)
                code = entry_check_path("the keys", paths->place);
        if (code || !socket || !*socket)
                return code;
        code = cli_xdg_make_absolute(socket, paths->socket, sizeof(paths->socket));
        return code ? code : entry_check_path("the daemon's socket", paths->socket);
}

static int print_sandbox(const struct cli_request *request, struct daemon_client *client, struct entry entry,
                         const char *word, FILE *out)
{
        char name[SSH_NAME_MAX + 1];
        json_t *sandbox = NULL;
        int code = ssh_keys_name(word, name);

        if (code == 0)
                code = sandbox_request(client, "sandbox.get", json_pack("{s:s}", "sandbox", name), &sandbox);
        if (code == 0) {
                entry.name = name;
                if (!request->ssh.user && json_is_true(json_object_get(sandbox, "root")))
                        entry.user = ROOT;
                entry_print(out, &entry);
        }
        json_decref(sandbox);
        return code;
}

static int print_sandboxes(struct cli_request *request, const struct entry *entry, FILE *out)
{
        struct daemon_client client;
        int code = sandbox_open(request, &client);

        if (code)
                return code;
        for (int i = 0; code == 0 && i < request->positional_count; i++)
                code = print_sandbox(request, &client, *entry, request->positional[i], out);
        daemon_close(&client);
        return code;
}

static int config(struct cli_request *request)
{
        struct paths paths = {0};
        struct entry entry = {
                .user = request->ssh.user ? request->ssh.user : USER,
                .program = paths.program,
                .place = paths.place,
        };
        char *text = NULL;
        size_t size;
        FILE *out;
        int code = find_paths(request, &paths);

        if (code == 0 && request->ssh.user)
                code = entry_check_user(request->ssh.user);
        if (code)
                return code;
        entry.socket = *paths.socket ? paths.socket : NULL;
        out = open_memstream(&text, &size);
        if (!out)
                abort(); /* out of memory */
        fputs(ENTRY_MARK, out);
        if (request->positional_count)
                code = print_sandboxes(request, &entry, out);
        else
                entry_print(out, &entry);
        fclose(out);
        if (code == 0)
                code = ssh_keys_make_client(paths.place);
        if (code == 0)
                code = put_text(request, text, size);
        free(text);
        return code;
}

const struct cli_handler command_ssh_config = {
        .run = config,
        .positional_max = CLI_WORDS_MAX,
};
