/* Write kernelspecs. Runs in: the CLI, as its user. */
#include "kernelspec.h"

#include "base/fd.h"
#include "cli/command/cli.h"
#include "cli/run/xdg.h"
#include "jupyter/jupyter.h"
#include "wire/json.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PROGRAM "cloche-kernel"
#define PATH_BYTES (2 * PATH_MAX)

/* -- the program --------------------------------------------------------------------------------------------------- */

static int is_found_by_name(const struct stat *program)
{
        const char *path = getenv("PATH");
        char file[PATH_BYTES];
        struct stat st;

        for (size_t length; path && *path; path += length + (path[length] == ':')) {
                length = strcspn(path, ":");
                snprintf(file, sizeof(file), "%.*s/" PROGRAM, (int)length, path);
                if (path[0] == '/' && access(file, X_OK) == 0 && stat(file, &st) == 0)
                        return st.st_dev == program->st_dev && st.st_ino == program->st_ino;
        }
        return 0;
}

/* The one that belongs to this program: by name where that finds it. */
static int find_program(char ret[PATH_BYTES])
{
        char own[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
        struct stat st;
        char *slash;

        own[n < 0 ? 0 : n] = '\0';
        slash = strrchr(own, '/');
        snprintf(ret, PATH_BYTES, "%.*s/" PROGRAM, slash ? (int)(slash - own) : 0, own);
        if (stat(ret, &st) < 0)
                return cli_bad("there is no %s: it is installed beside cloche", ret);
        if (is_found_by_name(&st))
                strcpy(ret, PROGRAM);
        return 0;
}

/* -- the file ------------------------------------------------------------------------------------------------------ */

static json_t *make(const struct kernelspec *spec, const struct jupyter_language *language, const char *program)
{
        json_t *argv = json_pack("[s, s, s, s, s]", program, "-f", "{connection_file}", "--language", language->name);

        if (spec->sandbox) {
                json_array_append_new(argv, json_string("--sandbox"));
                json_array_append_new(argv, json_string(spec->sandbox));
        }
        if (spec->socket) {
                json_array_append_new(argv, json_string("--socket"));
                json_array_append_new(argv, json_string(spec->socket));
        }
        if (spec->is_forkable)
                json_array_append_new(argv, json_string("--forkable"));
        return json_pack("{s:o, s:o, s:s, s:s, s:{s:b}}", "argv", argv, "display_name",
                         spec->sandbox ? json_sprintf("%s (Cloche, %s)", language->display, spec->sandbox)
                                       : json_sprintf("%s (Cloche)", language->display),
                         "language", language->jupyter, "interrupt_mode", "message", "metadata", "debugger", 0);
}

static int find_directory(const struct kernelspec *spec, char ret[PATH_BYTES])
{
        const char *data = getenv("JUPYTER_DATA_DIR");
        char shared[XDG_PATH_BYTES];
        int code, size;

        if (spec->prefix) {
                size = snprintf(ret, PATH_BYTES, "%s/share/jupyter/kernels", spec->prefix);
        } else if (data && data[0] == '/') {
                size = snprintf(ret, PATH_BYTES, "%s/kernels", data);
        } else {
                code = cli_xdg_find("XDG_DATA_HOME", ".local/share", "jupyter/kernels", "kernelspecs", shared,
                                    sizeof(shared));
                if (code)
                        return code;
                size = snprintf(ret, PATH_BYTES, "%s", shared);
        }
        return size < PATH_MAX - 300 ? 0 : cli_bad("the directory of kernelspecs is too long");
}

/* Names with further words are those of kernels of one sandbox. */
static int add_name(const struct kernelspec *spec, char directory[PATH_BYTES])
{
        size_t size = strlen(directory);
        int more = snprintf(directory + size, PATH_BYTES - size, "/cloche-%s%s%s", spec->language,
                            spec->sandbox ? "-" : "", spec->sandbox ? spec->sandbox : "");

        return more < 300 && (!spec->sandbox || !strchr(spec->sandbox, '/'))
                       ? 0
                       : cli_bad("'%s' is no name of a sandbox", spec->sandbox);
}

static int write_text(const char *path, const char *text)
{
        char new[PATH_BYTES + 8];
        int r;

        snprintf(new, sizeof(new), "%s.new", path);
        {
                _cleanup_fd_ int fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

                r = fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
                if (r == 0 && fd_write_full(fd, "\n", 1) < 0)
                        r = -errno;
        }
        if (r == 0 && rename(new, path) < 0)
                r = -errno;
        return r < 0 ? cli_bad("cannot write %s: %s", path, strerror(-r)) : 0;
}

int kernelspec_write(const struct kernelspec *spec)
{
        char program[PATH_BYTES], path[PATH_BYTES + 16];
        json_t *object;
        char *text;
        int code = find_program(program);

        if (code == 0)
                code = find_directory(spec, path);
        if (code == 0)
                code = add_name(spec, path);
        if (code == 0)
                code = spec->prefix ? cli_xdg_make_shared_directories(path) : cli_xdg_make_directories(path);
        if (code)
                return code;
        strcat(path, "/kernel.json");
        object = make(spec, jupyter_language_find(spec->language), program);
        text = json_dump_text(object, JSON_INDENT(1));
        code = text ? write_text(path, text) : cli_bad("out of memory");
        if (code == 0)
                printf("%s\n", path);
        free(text);
        json_decref(object);
        return code;
}
