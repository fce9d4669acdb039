/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "listing.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/files/tree/walk.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LINE_BYTES_MAX (4u << 20)
#define FLUSH_BYTES (1u << 20)
#define PART_BYTES (256u << 10)
#define NAMES_BYTES (64u << 10)

/* The lines of the base, in the order of the walk. */
struct known {
        FILE *file; /* NULL: there is no base */
        const struct listing_base *base;
        size_t next;       /* the number of lines that are of no directory, with this one */
        char *line, *path; /* path: in the line, terminated; NULL: it is over */
        size_t room, size, path_size;
        uint64_t bytes;    /* of the contents */
        struct buf wanted; /* an escaped path */
};

struct maker {
        bool keeps_ids;
        struct work *work;
        uint64_t expected;
        int out_fd;
        struct sha256_ctx hash;
        struct buf out; /* lines that are not written yet */
        struct known known;
        struct listing *ret;
        char part[PART_BYTES];
};

/* -- lines ---------------------------------------------------------------------------------------------------- */

static int add(struct maker *m, const char *text, size_t size, struct cloche_err *e)
{
        return buf_append(&m->out, text, size) < 0 ? work_no_memory(e) : 0;
}

static int append_escaped(struct buf *out, const char *text, size_t size, struct cloche_err *e)
{
        char *at = buf_reserve(out, 4 * size);

        if (!at)
                return work_no_memory(e);
        for (size_t i = 0; i < size; i++) {
                unsigned char c = (unsigned char)text[i];

                if (c > ' ' && c < 0x7f && c != '\\') {
                        out->data[out->size++] = (char)c;
                        continue;
                }
                memcpy(out->data + out->size, "\\x", 2);
                out->data[out->size + 2] = "0123456789abcdef"[c >> 4];
                out->data[out->size + 3] = "0123456789abcdef"[c & 15];
                out->size += 4;
        }
        return 0;
}

static int add_escaped(struct maker *m, const char *text, size_t size, struct cloche_err *e)
{
        return append_escaped(&m->out, text, size, e);
}

static int flush(struct maker *m, struct cloche_err *e)
{
        int r = fd_write_full(m->out_fd, m->out.data, m->out.size);

        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "write the tree's listing");
        sha256_update(&m->hash, m->out.size, (const uint8_t *)m->out.data);
        m->out.size = 0;
        return 0;
}

static int failed(struct cloche_err *e, const char *path)
{
        return err_os(e, CLOCHE_E_STATE, errno, "read %.120s of the tree", path);
}

/* -- the base --------------------------------------------------------------------------------------------------- */

/* A line that is damaged ends them: the files that follow are read. */
static void next_known(struct known *known)
{
        ssize_t size = getline(&known->line, &known->room, known->file);
        char *at = known->line;

        known->path = NULL;
        for (int i = 0; size > 0 && at && i < 6; i++) {
                known->bytes = i == 4 && *known->line == 'f' ? strtoull(at, NULL, 10) : known->bytes;
                at = strchr(at, ' ');
                at = at ? at + 1 : NULL;
        }
        if (size <= 0 || !at || known->line[size - 1] != '\n')
                return;
        known->next += *known->line != 'd';
        known->size = (size_t)size - 1;
        known->line[known->size] = '\0';
        known->path = at;
        known->path_size = strcspn(at, " ");
}

/* dup(2) is enough: the position is ours alone. */
static void open_known(struct known *known, const struct listing_base *base)
{
        int fd = base ? dup(base->listing_fd) : -1;

        *known = (struct known){.base = base, .wanted = BUF_INIT(LINE_BYTES_MAX)};
        known->file = fd < 0 ? NULL : fdopen(fd, "r");
        if (!known->file && fd >= 0)
                close(fd);
        if (known->file && fseeko(known->file, 0, SEEK_SET) == 0)
                next_known(known);
}

static void close_known(struct known *known)
{
        if (known->file)
                fclose(known->file);
        free(known->line);
        buf_done(&known->wanted);
}

/* Both trees are in the store, so on one device. */
static bool is_same_file(const struct known *known, const struct walk_entry *entry)
{
        return *known->line != 'd' && known->next <= known->base->count &&
               known->base->inodes[known->next - 1] == entry->status->st_ino;
}

/* Use the line of the base, if its file is this one. 1; 0: it is not. */
static int add_known(struct maker *m, const struct walk_entry *entry, struct cloche_err *e)
{
        struct known *known = &m->known;
        int order = 1, r;

        if (!known->path)
                return 0;
        known->wanted.size = 0;
        r = append_escaped(&known->wanted, entry->path, strlen(entry->path), e);
        if (r == 0 && buf_append(&known->wanted, "", 1) < 0)
                r = work_no_memory(e);
        while (r == 0 && known->path) {
                char end = known->path[known->path_size];

                known->path[known->path_size] = '\0';
                order = listing_compare_paths(known->wanted.data, known->path);
                known->path[known->path_size] = end;
                if (order <= 0)
                        break;
                next_known(known);
        }
        if (r < 0 || order != 0 || !known->path || !is_same_file(known, entry))
                return r;
        m->ret->bytes += *known->line == 'f' ? known->bytes : 0;
        r = add(m, known->line, known->size, e);
        return r < 0 ? r : 1;
}

/* -- contents ------------------------------------------------------------------------------------------------- */

static int hash_contents(struct maker *m, int fd, const char *path, char ret[HASH_TEXT_SIZE], struct cloche_err *e)
{
        struct sha256_ctx hash;
        ssize_t n;

        sha256_init(&hash);
        while ((n = read(fd, m->part, sizeof(m->part))) != 0) {
                int r;

                if (n < 0 && errno != EINTR)
                        return failed(e, path);
                if (n < 0)
                        continue;
                sha256_update(&hash, (size_t)n, (const uint8_t *)m->part);
                m->ret->bytes += (uint64_t)n;
                r = work_go_on(m->work, "checking", m->ret->bytes, m->expected, e);
                if (r < 0)
                        return r;
        }
        hash_finish(&hash, ret);
        return 0;
}

static int compare_names(const void *a, const void *b)
{
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All attributes are listed, so that one that was added is found. */
static int is_listed(const char *name)
{
        return strncmp(name, "user.", 5) == 0 || strncmp(name, "trusted.", 8) == 0 ||
               strcmp(name, "security.capability") == 0;
}

static int add_attribute(struct maker *m, int fd, const char *name, const char *path, struct cloche_err *e)
{
        static char value[XATTR_SIZE_MAX];
        ssize_t size = fgetxattr(fd, name, value, sizeof(value));
        char *at;
        int r;

        if (size < 0)
                return failed(e, path);
        r = add(m, " ", 1, e);
        if (r == 0)
                r = add_escaped(m, name, strlen(name), e);
        if (r == 0)
                r = add(m, "=", 1, e);
        at = r == 0 ? buf_reserve(&m->out, 2 * (size_t)size + 1) : NULL;
        if (!at)
                return r < 0 ? r : work_no_memory(e);
        hex_write(at, value, (size_t)size);
        m->out.size += 2 * (size_t)size;
        return 0;
}

static int add_attributes(struct maker *m, int fd, const char *path, struct cloche_err *e)
{
        static char names[NAMES_BYTES];
        static const char *sorted[NAMES_BYTES / 2];
        ssize_t size = flistxattr(fd, names, sizeof(names));
        size_t count = 0;
        int r = 0;

        if (size < 0)
                return errno == EOPNOTSUPP ? 0 : failed(e, path);
        for (const char *at = names; at < names + size; at += strlen(at) + 1)
                if (is_listed(at))
                        sorted[count++] = at;
        qsort(sorted, count, sizeof(sorted[0]), compare_names);
        for (size_t i = 0; r == 0 && i < count; i++)
                r = add_attribute(m, fd, sorted[i], path, e);
        return r;
}

/* -- entries -------------------------------------------------------------------------------------------------- */

static int add_facts(struct maker *m, char kind, const struct stat *status, const char *size, const char *hash,
                     const char *path, struct cloche_err *e)
{
        uid_t own_uid = geteuid(), uid = status->st_uid;
        gid_t own_gid = getegid(), gid = status->st_gid;
        char facts[64 + HASH_TEXT_SIZE];
        int n, r;

        if (!m->keeps_ids) {
                uid = uid == own_uid ? 0 : uid;
                gid = gid == own_gid ? 0 : gid;
        }
        n = snprintf(facts, sizeof(facts), "%c %o %u %u %s %s ", kind, status->st_mode & 07777, (unsigned)uid,
                     (unsigned)gid, size, hash);
        r = add(m, facts, (size_t)n, e);
        return r == 0 ? add_escaped(m, path, strlen(path), e) : r;
}

static int add_open(struct maker *m, int fd, const char *path, struct cloche_err *e)
{
        char hash[HASH_TEXT_SIZE] = "-", size[24] = "-";
        struct stat status;
        int r = 0;

        if (fstat(fd, &status) < 0)
                return failed(e, path);
        if (S_ISREG(status.st_mode)) {
                snprintf(size, sizeof(size), "%lld", (long long)status.st_size);
                r = hash_contents(m, fd, path, hash, e);
        }
        if (r == 0)
                r = add_facts(m, S_ISREG(status.st_mode) ? 'f' : 'd', &status, size, hash, path, e);
        return r == 0 ? add_attributes(m, fd, path, e) : r;
}

static int add_link(struct maker *m, const struct walk_entry *entry, struct cloche_err *e)
{
        char target[PATH_MAX], text[24];
        ssize_t size = readlinkat(entry->dir_fd, entry->name, target, sizeof(target));
        struct stat status;
        int r;

        if (size < 0 || fstatat(entry->dir_fd, entry->name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return failed(e, entry->path);
        snprintf(text, sizeof(text), "%zd", size);
        r = add_facts(m, 'l', &status, text, "-", entry->path, e);
        if (r == 0)
                r = add(m, " ", 1, e);
        return r == 0 ? add_escaped(m, target, (size_t)size, e) : r;
}

/* Made by others. */
static int add_strange(struct maker *m, const struct walk_entry *entry, struct cloche_err *e)
{
        struct stat status;

        if (fstatat(entry->dir_fd, entry->name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return failed(e, entry->path);
        return add_facts(m, '?', &status, "-", "-", entry->path, e);
}

static int end_line(struct maker *m, struct cloche_err *e)
{
        int r = add(m, "\n", 1, e);

        m->ret->entries++;
        return r == 0 && m->out.size > FLUSH_BYTES ? flush(m, e) : r;
}

static int on_entry(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        struct maker *m = data;
        _cleanup_fd_ int fd = -EBADF;
        mode_t mode = entry->status->st_mode;
        int r;

        if (event != WALK_FOUND)
                return WALK_ON;
        r = S_ISDIR(mode) ? 0 : add_known(m, entry, e);
        if (r != 0)
                return r < 0 ? r : end_line(m, e);
        if (S_ISLNK(mode)) {
                r = add_link(m, entry, e);
        } else if (!S_ISREG(mode) && !S_ISDIR(mode)) {
                r = add_strange(m, entry, e);
        } else {
                fd = openat(entry->dir_fd, entry->name,
                            O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
                                    (S_ISDIR(mode) ? O_DIRECTORY : 0));
                r = fd < 0 ? failed(e, entry->path) : add_open(m, fd, entry->path, e);
        }
        if (r == 0)
                r = work_go_on(m->work, "checking", m->ret->bytes, m->expected, e);
        return r == 0 ? end_line(m, e) : r;
}

int listing_make(int tree_fd, bool keeps_ids, int out_fd, uint64_t bytes_expected, const struct listing_base *base,
                 struct work *work, struct listing *ret, struct cloche_err *e)
{
        struct maker *m = malloc(sizeof(*m));
        const struct walk_options walk = {.visit = on_entry, .data = m, .is_brief = 1};
        int r;

        if (!m)
                return work_no_memory(e);
        *ret = (struct listing){0};
        m->keeps_ids = keeps_ids;
        m->work = work;
        m->expected = bytes_expected;
        m->out_fd = out_fd;
        m->ret = ret;
        m->out = BUF_INIT(FLUSH_BYTES + LINE_BYTES_MAX);
        sha256_init(&m->hash);
        open_known(&m->known, base);
        r = add_open(m, tree_fd, ".", e);
        if (r == 0)
                r = end_line(m, e);
        if (r == 0)
                r = walk_tree(tree_fd, &walk, e);
        if (r == 0)
                r = flush(m, e);
        if (r == 0)
                hash_finish(&m->hash, ret->hex);
        close_known(&m->known);
        buf_done(&m->out);
        free(m);
        return r;
}
