/* The options that add files and directories of the host to a box. Runs in: the
 * command line, as its user. */
#include "cli/run/mounts.h"
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- copies --------------------------------------------------------------------------------------------------- */

/* Takes path. 0, or a line was printed. */
static int add(struct cli_request *r, char *path, enum cloche_file_kind kind, struct cloche_file **ret)
{
        struct cloche_file *file = &r->files[r->run.file_count];

        if (!path)
                return cli_bad("out of memory");
        if (r->run.file_count == CLI_FILES_MAX) {
                free(path);
                return cli_bad("--file: more than %d files and directories (--mount shows a directory of any size)",
                               CLI_FILES_MAX);
        }
        *file = (struct cloche_file){.path = path, .kind = kind, .fd = -1};
        r->run.file_count++;
        *ret = file;
        return 0;
}

static int add_plain(struct cli_request *r, char *path, const char *host_path, int flags)
{
        struct cloche_file *file;
        struct stat st;
        int bad = add(r, path, CLOCHE_FILE_PLAIN, &file);

        if (bad)
                return bad;
        /* O_NONBLOCK: never block on a pipe. */
        file->fd = open(host_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
        if (file->fd < 0 && errno == EMFILE)
                return cli_bad("--file: '%s' exceeds the limit of open files (--mount shows a directory of "
                               "any size)",
                               host_path);
        if (file->fd < 0 || fstat(file->fd, &st) < 0)
                return cli_bad("--file: cannot read '%s': %s", host_path, strerror(errno));
        if (!S_ISREG(st.st_mode))
                return cli_bad("--file: cannot read '%s': not a regular file", host_path);
        file->mode = st.st_mode & 0111 ? 0755 : 0644;
        return 0;
}

static int add_link(struct cli_request *r, char *path, const char *host_path)
{
        char target[PATH_MAX];
        ssize_t n = readlink(host_path, target, sizeof(target) - 1);
        struct cloche_file *file;
        int bad = add(r, path, CLOCHE_FILE_SYMLINK, &file);

        if (bad)
                return bad;
        if (n < 0)
                return cli_bad("--file: cannot read the link '%s': %s", host_path, strerror(errno));
        target[n] = '\0';
        file->data = strdup(target);
        file->size = (size_t)n;
        return file->data ? 0 : cli_bad("out of memory");
}

/* `below`: path below the copied directory, "" for itself. */
static int add_entry(struct cli_request *r, const FTSENT *entry, const char *virtual_path, const char *below)
{
        struct cloche_file *file;
        char *path = NULL;

        if (entry->fts_info == FTS_DP)
                return 0;
        if (asprintf(&path, "%s%s", virtual_path, below) < 0)
                return cli_bad("out of memory");
        switch (entry->fts_info) {
        case FTS_D:
                return add(r, path, CLOCHE_FILE_DIRECTORY, &file);
        case FTS_F:
                return add_plain(r, path, entry->fts_path, O_NOFOLLOW);
        case FTS_SL:
        case FTS_SLNONE:
                return add_link(r, path, entry->fts_path);
        default:
                free(path);
                return cli_bad("--file: cannot read '%s': %s", entry->fts_path,
                               entry->fts_errno ? strerror(entry->fts_errno) : "not a regular file");
        }
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
        return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int add_tree(struct cli_request *r, const char *virtual_path, char *host_path)
{
        char *roots[] = {host_path, NULL};
        FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
        size_t size = strlen(host_path);
        FTSENT *entry;
        int bad = tree ? 0 : cli_bad("--file: cannot read '%s': %s", host_path, strerror(errno));

        while (bad == 0 && (errno = 0, entry = fts_read(tree)))
                bad = add_entry(r, entry, virtual_path, entry->fts_path + size);
        if (bad == 0 && errno)
                bad = cli_bad("--file: cannot read '%s': %s", host_path, strerror(errno));
        if (tree)
                fts_close(tree);
        return bad;
}

/* Without trailing slashes, except "/" itself. */
static char *trimmed(const char *text, size_t size)
{
        while (size > 1 && text[size - 1] == '/')
                size--;
        return strndup(text, size);
}

int options_set_file(struct cli_request *r, const char *v)
{
        const char *equals = strchr(v, '=');
        char *virtual_path, *host_path;
        struct stat st;
        int bad;

        if (!equals || equals == v || !equals[1])
                return cli_bad("--file: '%s' is not VPATH=HOSTPATH", v);
        virtual_path = trimmed(v, (size_t)(equals - v));
        host_path = trimmed(equals + 1, strlen(equals + 1));
        if (!virtual_path || !host_path)
                bad = cli_bad("out of memory");
        else if (stat(host_path, &st) == 0 && S_ISDIR(st.st_mode))
                bad = add_tree(r, virtual_path, host_path);
        else
                bad = add_plain(r, strdup(virtual_path), equals + 1, 0);
        free(virtual_path);
        free(host_path);
        return bad;
}

/* -- mounts --------------------------------------------------------------------------------------------------- */

int options_set_mount(struct cli_request *r, const char *v)
{
        return mounts_add(&r->mounts, v);
}

int options_set_rule(struct cli_request *r, const char *v)
{
        return mounts_add_rule(&r->mounts, v);
}

int options_set_sync(struct cli_request *r, const char *v)
{
        return mounts_set(&r->mounts, "sync", "mode", "--sync", v);
}

int options_set_on_error(struct cli_request *r, const char *v)
{
        return mounts_set(&r->mounts, "sync", "onError", "--on-error", v);
}

int options_set_conflict(struct cli_request *r, const char *v)
{
        return mounts_set(&r->mounts, "sync", "conflict", "--conflict", v);
}

int options_set_links(struct cli_request *r, const char *v)
{
        return mounts_set(&r->mounts, "sync", "links", "--links", v);
}

int options_set_on_denied(struct cli_request *r, const char *v)
{
        return mounts_set(&r->mounts, NULL, "onPermissionDenied", "--on-denied", v);
}
