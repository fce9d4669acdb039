/* cloche diff: show unwritten changes of mounted directories.
 *
 * The data was written by a guest: it is read without privilege, and every byte is escaped for the
 * terminal.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "cli/output/outcome.h"
#include "cli/output/print.h"
#include "cli/run/host-files.h"
#include "cli/run/session.h"

#include "base/fd.h"
#include "engine/box/files.h"
#include "engine/mounts/changeset.h"
#include "wire/value.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define TEXT_BYTES_MAX (32 << 20) /* diff(1) holds both in memory */

struct view {
        struct outcome_mounts mounts;
        const cloche_changeset *set;
        struct privileged_helper *host;
        int code;
};

/* -- summary -------------------------------------------------------------------------------------------------- */

static const char *type_of(const json_t *change)
{
        const char *type = json_string_value(json_object_get(change, "type"));

        return type ? type : "?";
}

static char letter_of(const json_t *change)
{
        static const struct {
                const char *type;
                char letter;
        } rows[] = {{"created", 'A'}, {"modified", 'M'}, {"deleted", 'D'}, {"renamed", 'R'}};

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (strcmp(rows[i].type, type_of(change)) == 0)
                        return rows[i].letter;
        return '?';
}

static void print_full_path(FILE *out, const char *source, const char *below)
{
        print_name(out, source);
        fputc('/', out);
        print_name(out, below);
}

static void print_json_path(FILE *out, const char *source, const json_t *below)
{
        char *bytes = output_path_bytes(below);

        print_full_path(out, source, bytes);
        free(bytes);
}

static int is_kind(const json_t *change, const char *kind)
{
        const char *own = json_string_value(json_object_get(change, "kind"));

        return own && strcmp(own, kind) == 0;
}

static void print_line(const char *source, const json_t *change)
{
        const json_t *from = json_object_get(change, "from"), *target = json_object_get(change, "target");

        printf("%c  ", letter_of(change));
        if (from) {
                print_json_path(stdout, source, from);
                fputs(" -> ", stdout);
        }
        print_json_path(stdout, source, json_object_get(change, "path"));
        if (is_kind(change, "directory"))
                putchar('/');
        if (target && letter_of(change) != 'D') {
                fputs(" -> ", stdout);
                print_path(stdout, target);
        }
        if (json_is_false(json_object_get(change, "content")))
                printf(" (mode %04o, times)", (unsigned)json_integer_value(json_object_get(change, "mode")) & 07777);
        putchar('\n');
}

/* -- the host's files ----------------------------------------------------------------------------------------- */

/* An entry renamed itself or with a directory above it is at its old path on the host; the longest
 * new path decides. */
static char *host_path(const struct changeset_row *row, const char *path)
{
        char *best = strdup(path), *whole = NULL;
        size_t best_size = 0, k;
        json_t *change;

        json_array_foreach (row->changes, k, change) {
                char *to = output_path_bytes(json_object_get(change, "path")),
                     *from = output_path_bytes(json_object_get(change, "from"));
                size_t size = to ? strlen(to) : 0;

                if (from && size > best_size && strncmp(path, to, size) == 0 &&
                    (path[size] == '/' || path[size] == '\0') && asprintf(&whole, "%s%s", from, path + size) >= 0) {
                        free(best);
                        best = whole;
                        best_size = size;
                }
                free(to);
                free(from);
        }
        return best;
}

/* O_RDONLY descriptor; -ENOENT if no old file is expected; or the reason why it cannot be shown. */
static int open_old(const struct view *view, const struct changeset_row *row, size_t mount, const json_t *change,
                    const char *path)
{
        char *old = letter_of(change) == 'M' ? host_path(row, path) : strdup(path);
        int fd = old ? host_files_open(view->host, mount, old) : -ENOMEM;

        free(old);
        return fd;
}

/* -- diff(1) -------------------------------------------------------------------------------------------------- */

static char *label(char before, const char *source, const char *path, int is_there)
{
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        if (!out)
                return NULL;
        if (is_there) {
                fprintf(out, "%c", before);
                print_full_path(out, source, path);
        } else {
                fputs("/dev/null", out);
        }
        fclose(out);
        return text;
}

static int is_too_large(int fd)
{
        struct stat st;

        return fd >= 0 && (fstat(fd, &st) < 0 || st.st_size > TEXT_BYTES_MAX);
}

/* Runs in the child. The old file is standard input, since this user could not open it again. */
static _Noreturn void become_diff(const char *const *labels, int old_fd, int new_fd, int out_fd)
{
        char new_name[32];
        int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        new_fd = fcntl(new_fd >= 0 ? new_fd : null_fd, F_DUPFD, 3); /* without close-on-exec */
        snprintf(new_name, sizeof(new_name), "/dev/fd/%d", new_fd);
        if (new_fd >= 0 && dup2(out_fd, STDOUT_FILENO) >= 0 &&
            dup2(old_fd >= 0 ? old_fd : null_fd, STDIN_FILENO) >= 0) {
                setenv("LC_ALL", "C", 1);
                execlp("diff", "diff", "-u", "--label", labels[0], "--label", labels[1], "--", "-", new_name,
                       (char *)NULL);
        }
        _exit(127);
}

static void copy_escaped(int fd)
{
        FILE *in = fdopen(fd, "r");
        char *line = NULL;
        size_t room = 0;
        ssize_t size;

        while (in && (size = getline(&line, &room, in)) > 0)
                print_bytes(stdout, line, (size_t)size, PRINT_TEXT);
        free(line);
        if (in)
                fclose(in);
        else
                close(fd);
}

static int run_diff(const char *const *labels, int old_fd, int new_fd)
{
        int fds[2], status = 0;
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return cli_bad("cannot make a pipe: %s", strerror(errno));
        fflush(stdout);
        pid = fork();
        if (pid == 0)
                become_diff(labels, old_fd, new_fd, fds[1]);
        close(fds[1]);
        copy_escaped(fds[0]);
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return cli_bad("cannot run diff(1): %s", strerror(errno));
        if (WIFEXITED(status) && WEXITSTATUS(status) < 2)
                return 0;
        return cli_bad("diff(1) %s",
                       WIFEXITED(status) && WEXITSTATUS(status) == 127 ? "cannot be run: install diffutils" : "failed");
}

static int compare(const char *source, const char *path, int old_fd, int new_fd)
{
        char *labels[] = {label('-', source, path, old_fd >= 0), label('+', source, path, new_fd >= 0)};
        int bad = 0;

        if (!labels[0] || !labels[1])
                bad = cli_bad("out of memory");
        else if (is_too_large(old_fd) || is_too_large(new_fd))
                printf("(more than %d MiB: not compared)\n", TEXT_BYTES_MAX >> 20);
        else
                bad = run_diff((const char *const[]){labels[0] + (old_fd >= 0), labels[1] + (new_fd >= 0)}, old_fd,
                               new_fd);
        free(labels[0]);
        free(labels[1]);
        return bad;
}

/* -- unified -------------------------------------------------------------------------------------------------- */

static void print_unreadable(int error)
{
        printf("(the host's cannot be read: %s)\n", strerror(-error));
}

static int show_contents(const struct view *view, size_t mount, const json_t *change)
{
        const struct changeset_row *row = &view->set->rows[mount];
        char *path = output_path_bytes(json_object_get(change, "path"));
        _cleanup_fd_ int new_fd = changeset_open_contents(row, change);
        _cleanup_fd_ int old_fd = -EBADF;
        int bad = 0;

        if (!path || (new_fd < 0 && letter_of(change) != 'D')) {
                free(path);
                return 0; /* nothing was written: the summary line suffices */
        }
        old_fd = open_old(view, row, mount, change, path);
        if (old_fd == -ENOENT || old_fd == -ENOTDIR || old_fd >= 0)
                bad = compare(view->mounts.sources[mount], path, old_fd, new_fd);
        else
                print_unreadable(old_fd);
        free(path);
        return bad;
}

static void print_change(struct view *view, size_t mount, const json_t *change, int is_unified)
{
        print_line(view->mounts.sources[mount], change);
        if (is_unified && is_kind(change, "file") && letter_of(change) != 'R' && show_contents(view, mount, change))
                view->code = 1;
}

static void print_set(struct view *view, int is_unified)
{
        const json_t *change;
        size_t k;

        for (size_t i = 0; i < view->set->count; i++)
                json_array_foreach (view->set->rows[i].changes, k, change)
                        if (!json_is_true(json_object_get(change, "virtual")))
                                print_change(view, i, change, is_unified);
}

/* -- the command ---------------------------------------------------------------------------------------------- */

static void print_json(const struct changes_kept *kept, const cloche_changeset *set)
{
        json_t *whole = json_pack("{s:s, s:[], s:[], s:[]}", "changeset", kept->name, "created", "modified", "deleted");
        uint64_t left = FILES_CONTENTS_TOTAL_MAX;
        char *text = NULL;

        if (whole && changeset_describe(set, 0, &left, json_object_get(whole, "created"),
                                        json_object_get(whole, "modified"), json_object_get(whole, "deleted")) == 0)
                text = value_dump(whole, JSON_COMPACT | JSON_ENSURE_ASCII);
        printf("%s\n", text ? text : "{}");
        free(text);
        json_decref(whole);
}

/* The list was written without privilege, so the directories are taken from the user's own file. */
static int check_mounts(const struct changes_kept *kept, const cloche_changeset *set)
{
        int is_same = set->count == kept->mount_count;

        for (size_t i = 0; is_same && i < set->count; i++)
                is_same = strcmp(set->rows[i].source, kept->sources[i]) == 0;
        return is_same ? 0 : cli_bad("the changes '%s' are damaged: cloche changes drop %s", kept->name, kept->name);
}

static int show(const struct cli_request *request, const struct changes_kept *kept, struct privileged_helper *host)
{
        cloche_changeset *set = NULL;
        struct cloche_err e = {0};
        struct view view = {.mounts = {kept->targets, (const char *const *)kept->roots, kept->mount_count},
                            .host = host};
        int code = session_drop_privilege(&e) < 0 || cloche_changeset_load(NULL, kept->set_fd, &set, &e) < 0
                           ? cli_fail(&e)
                           : 0;

        if (code == 0)
                code = check_mounts(kept, set);
        view.set = set;
        if (code == 0 && request->json)
                print_json(kept, set);
        else if (code == 0)
                print_set(&view, request->unified);
        cloche_changeset_free(set);
        return code ? code : view.code;
}

static int run(struct cli_request *request)
{
        struct changes_kept kept;
        struct host_files files;
        struct privileged_helper host = {0};
        int code;

        if (request->json && request->unified)
                return cli_bad("-u and --json exclude each other");
        code = changes_open(request->positional[0], &kept);
        files = (struct host_files){(const char *const *)kept.roots, kept.mount_count};
        if (code == 0 && request->unified)
                code = host_files_prepare(&host, &files);
        if (code == 0)
                code = show(request, &kept, &host);
        privileged_helper_cancel(&host);
        changes_close(&kept);
        return code;
}

const struct cli_handler command_diff = {
        .run = run,
        .positional_max = 1,
};
