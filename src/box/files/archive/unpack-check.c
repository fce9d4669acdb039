/* Runs in: cloche-files, within a box, with its user's rights. Archives come from anyone. */
#include "pack.h"
#include "unpack.h"

#include "base/err.h"
#include "base/fd.h"
#include "box/files/request.h"
#include "box/files/tree/path-set.h"
#include "jail/root/plan.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

int unpack_open_below(int top_fd, const char *path)
{
        struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                               .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
        int fd = (int)syscall(SYS_openat2, top_fd, *path ? path : ".", &how, sizeof(how));

        return fd < 0 ? -errno : fd;
}

static int refuse(const struct member *m, struct cloche_err *e, const char *why)
{
        return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the member %.120s %s", m->path, why);
}

/* -- a member on its own -------------------------------------------------------------------------------------- */

static int read_kind(struct member *m, struct cloche_err *e)
{
        mode_t type = archive_entry_filetype(m->entry);

        if (archive_entry_hardlink(m->entry))
                m->kind = MEMBER_HARD_LINK;
        else if (type == AE_IFREG || type == AE_IFDIR)
                m->kind = type == AE_IFDIR ? MEMBER_DIRECTORY : MEMBER_FILE;
        else if (type == AE_IFLNK)
                m->kind = MEMBER_LINK;
        else if (m->is_own && type == AE_IFCHR && archive_entry_rdev(m->entry) == 0)
                m->kind = MEMBER_GONE;
        else
                return refuse(m, e, "is a device, pipe or socket");
        if (!*m->path && m->kind != MEMBER_DIRECTORY)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "a member that is no directory has no name");
        return 0;
}

/* The rest of a path in the layers; NULL: it is none. */
static char *below_changes(char *path)
{
        size_t size = strlen(JAIL_CHANGES "/");

        return strncmp(path, JAIL_CHANGES "/", size) == 0 && path[size] ? path + size : NULL;
}

static int read_change(struct member *m, struct cloche_err *e)
{
        char *path = m->is_own ? below_changes(m->path) : NULL, *link;
        const char *name;
        const void *value;
        size_t size;

        m->is_change = path != NULL;
        if (!path)
                return m->kind == MEMBER_GONE ? refuse(m, e, "is a device, pipe or socket") : 0;
        memmove(m->path, path, strlen(path) + 1);
        if (m->kind == MEMBER_HARD_LINK) {
                link = below_changes(m->link_path);
                if (!link)
                        return refuse(m, e, "is a hard link out of a layer");
                memmove(m->link_path, link, strlen(link) + 1);
        }
        archive_entry_xattr_reset(m->entry);
        while (archive_entry_xattr_next(m->entry, &name, &value, &size) == ARCHIVE_OK)
                m->is_opaque |= strcmp(name, PACK_OPAQUE) == 0;
        return 0;
}

static int read_member(struct archive_entry *entry, struct member *m, struct cloche_err *e)
{
        const char *given = archive_entry_pathname(entry);
        int r;

        m->entry = entry;
        m->link = NULL;
        m->is_change = m->is_opaque = 0;
        if (!given)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "a member has no name that could be read");
        r = member_path(given, m->path, e);
        if (r == 0)
                r = read_kind(m, e);
        if (r < 0)
                return r;
        if (m->kind == MEMBER_HARD_LINK) {
                m->link = m->link_path;
                r = member_path(archive_entry_hardlink(entry), m->link_path, e);
                return r < 0 ? err_wrap(e, "the hard link %.60s", m->path) : 0;
        }
        if (m->kind == MEMBER_LINK) {
                m->link = archive_entry_symlink(entry);
                if (!m->link || !*m->link)
                        return refuse(m, e, "is a link to nothing");
                return m->is_own || m->keeps_links ? 0 : member_check_link(m->path, m->link, e);
        }
        return 0;
}

int unpack_member(struct archive_entry *entry, struct member *m, struct cloche_err *e)
{
        int r = read_member(entry, m, e);

        return r < 0 ? r : read_change(m, e);
}

/* -- a member among the others -------------------------------------------------------------------------------- */

struct check {
        int top_fd;
        struct path_set files, links, parents; /* parents: directories by their members */
        uint64_t members, bytes, bytes_max;
        char looked_at[MEMBER_PATH_MAX + 1]; /* the last existing directory checked */
};

static int note(struct path_set *set, const char *path, size_t size, struct cloche_err *e)
{
        return path_set_add(set, path, size) < 0 ? request_no_memory(e) : 0;
}

/* No link may stand on the way: neither one of the archive, in any order, nor an existing one. */
static int check_way(struct check *c, const struct member *m, struct cloche_err *e)
{
        size_t last = 0;
        int fd;

        for (const char *at = m->path; (at = strchr(at, '/')); at++) {
                last = (size_t)(at - m->path);
                if (path_set_has(&c->links, m->path, last))
                        return refuse(m, e, "is below a link of the archive");
                if (path_set_has(&c->files, m->path, last))
                        return refuse(m, e, "is below a file of the archive");
                if (note(&c->parents, m->path, last, e) < 0)
                        return -CLOCHE_E_RESOURCE;
        }
        if (m->kind != MEMBER_DIRECTORY && path_set_has(&c->parents, m->path, strlen(m->path)))
                return refuse(m, e,
                              m->kind == MEMBER_LINK ? "is a link, and a directory too"
                                                     : "is a file, and a directory too");
        if (c->top_fd < 0 || (strncmp(c->looked_at, m->path, last) == 0 && c->looked_at[last] == '\0'))
                return 0;
        memcpy(c->looked_at, m->path, last);
        c->looked_at[last] = '\0';
        fd = unpack_open_below(c->top_fd, c->looked_at);
        if (fd >= 0)
                close(fd);
        return fd == -ELOOP || fd == -EXDEV ? refuse(m, e, "is below a link that is there already") : 0;
}

static int check_member(struct check *c, const struct member *m, struct cloche_err *e)
{
        size_t size = strlen(m->path);
        int r = check_way(c, m, e);

        if (r < 0)
                return r;
        if (++c->members > UNPACK_MEMBERS_MAX)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the archive has more than %d members", UNPACK_MEMBERS_MAX);
        if (m->kind == MEMBER_HARD_LINK && !path_set_has(&c->files, m->link, strlen(m->link)))
                return refuse(m, e, "is a hard link to no file before it in the archive");
        if (m->kind == MEMBER_DIRECTORY &&
            (path_set_has(&c->links, m->path, size) || path_set_has(&c->files, m->path, size)))
                return refuse(m, e, "is a directory, and a file or link too");
        return note(m->kind == MEMBER_LINK        ? &c->links
                    : m->kind == MEMBER_DIRECTORY ? &c->parents
                                                  : &c->files,
                    m->path, size, e);
}

/* Unpack all contents, so that damage at the end is found before anything is written. */
static int check_contents(struct check *c, struct archive *archive, const char *path, struct cloche_err *e)
{
        const void *data;
        size_t size;
        int64_t at;
        int r;

        while ((r = archive_piece(archive, path, &data, &size, &at, e)) > 0) {
                c->bytes += size;
                if (c->bytes > c->bytes_max)
                        return err_set(e, CLOCHE_E_BAD_ARCHIVE,
                                       "unpacked %s has more than %llu bytes: %d times its own size beyond %llu MiB",
                                       path, (unsigned long long)c->bytes_max, UNPACK_RATIO_MAX,
                                       (unsigned long long)(UNPACK_FREE_BYTES >> 20));
        }
        return r;
}

static int check_all(struct check *c, struct archive *archive, const char *path, int keeps_links, struct cloche_err *e)
{
        static struct member m;
        struct archive_entry *entry;
        int r;

        m.keeps_links = keeps_links;

        while ((r = archive_next(archive, path, &entry, e)) > 0) {
                r = unpack_member(entry, &m, e);
                if (r == 0)
                        r = check_member(c, &m, e);
                if (r == 0 && m.kind == MEMBER_FILE)
                        r = check_contents(c, archive, path, e);
                if (r < 0)
                        break;
        }
        return r;
}

int unpack_check(int archive_fd, const char *path, int top_fd, const struct unpack_options *options,
                 struct cloche_err *e)
{
        static struct check c;
        _cleanup_archive_ struct archive *archive = NULL;
        struct stat status;
        int r;

        if (fstat(archive_fd, &status) < 0)
                return files_os(e, errno, "look at %s", path);
        c = (struct check){.top_fd = top_fd,
                           .bytes_max = UNPACK_FREE_BYTES + UNPACK_RATIO_MAX * (uint64_t)status.st_size};
        r = archive_open(archive_fd, path, &archive, e);
        if (r == 0)
                r = check_all(&c, archive, path, options->keeps_links, e);
        /* Allowance for headers and padding. */
        if (r == 0)
                r = archive_check_sum(archive, archive_fd, path, c.bytes + c.members * 16384 + UNPACK_FREE_BYTES, e);
        path_set_done(&c.files);
        path_set_done(&c.links);
        path_set_done(&c.parents);
        return r;
}
