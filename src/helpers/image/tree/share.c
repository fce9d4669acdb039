/* Links instead of copies. A tree is never written once it is in its place, so names
 * of several trees may be one file. Runs in: cloche-image, as its user, confined to
 * the store and the source. */
#include "share.h"
#include "listing.h"
#include "tree.h"

#include "base/array.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/files/tree/walk.h"
#include "helpers/sync/crash.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PART_BYTES (256u << 10)
#define BESIDE "shared" /* a link on its way: its name in the tree is replaced in one step */

/* A directory of both trees, open as long as paths are in it. */
struct pair {
        char *path; /* owned; NULL: none */
        int own_fd, other_fd;
        struct timespec times[2]; /* of the new tree's, which links change */
        bool has_changed;
};

struct sharing {
        int tree_fd, other_fd, beside_fd;
        struct pair pair;
        struct work *work;
        char parts[2][PART_BYTES];
};

/* -- directories ---------------------------------------------------------------------------------------------- */

static int leave(struct pair *pair, struct cloche_err *e)
{
        int r = 0;

        if (pair->has_changed && futimens(pair->own_fd, pair->times) < 0)
                r = image_tree_failed(errno, pair->path, e);
        fd_close(&pair->own_fd);
        fd_close(&pair->other_fd);
        free(pair->path);
        *pair = (struct pair){.own_fd = -EBADF, .other_fd = -EBADF};
        return r;
}

/* Open the directory of a path in both trees. 0: the other tree is damaged or being removed. */
static int enter(struct sharing *s, const char *path, size_t size, struct cloche_err *e)
{
        struct stat status;
        int r;

        if (s->pair.path && strlen(s->pair.path) == size && memcmp(s->pair.path, path, size) == 0)
                return s->pair.other_fd >= 0;
        r = leave(&s->pair, e);
        if (r < 0)
                return r;
        s->pair.path = strndup(path, size);
        if (!s->pair.path)
                return work_no_memory(e);
        s->pair.own_fd = image_tree_open_below(s->tree_fd, s->pair.path, O_RDONLY);
        if (s->pair.own_fd < 0 || fstat(s->pair.own_fd, &status) < 0)
                return image_tree_failed(s->pair.own_fd < 0 ? -s->pair.own_fd : errno, path, e);
        s->pair.times[0] = status.st_atim;
        s->pair.times[1] = status.st_mtim;
        s->pair.other_fd = image_tree_open_below(s->other_fd, s->pair.path, O_RDONLY);
        return s->pair.other_fd >= 0;
}

/* -- files ---------------------------------------------------------------------------------------------------- */

/* Times are in no listing, and interpreters compare them. */
static bool may_be_one(const struct stat *own, const struct stat *other)
{
        return S_ISREG(own->st_mode) && S_ISREG(other->st_mode) && own->st_size > 0 && own->st_size == other->st_size &&
               own->st_mode == other->st_mode && own->st_uid == other->st_uid && own->st_gid == other->st_gid &&
               own->st_mtim.tv_sec == other->st_mtim.tv_sec && own->st_mtim.tv_nsec == other->st_mtim.tv_nsec &&
               own->st_dev == other->st_dev && own->st_ino != other->st_ino;
}

static ssize_t read_part(int fd, char *part)
{
        size_t size = 0;

        while (size < PART_BYTES) {
                ssize_t n = read(fd, part + size, PART_BYTES - size);

                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n == 0)
                        break;
                size += n > 0 ? (size_t)n : 0;
        }
        return (ssize_t)size;
}

/* The listing tells the bytes at the import; the disk may have lost them since. */
static bool have_same_bytes(struct sharing *s, const char *name)
{
        const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
        _cleanup_fd_ int own_fd = openat(s->pair.own_fd, name, flags), other_fd = openat(s->pair.other_fd, name, flags);
        ssize_t n, m;

        if (own_fd < 0 || other_fd < 0)
                return false;
        do {
                n = read_part(own_fd, s->parts[0]);
                m = read_part(other_fd, s->parts[1]);
                if (n < 0 || n != m || memcmp(s->parts[0], s->parts[1], (size_t)n) != 0)
                        return false;
        } while (n == (ssize_t)PART_BYTES);
        return true;
}

/* A file that cannot be linked stays: EMLINK (65,000 names on ext4), a tree that is being
 * removed, a directory that an ordinary user may not write. */
static int replace(struct sharing *s, const char *name, const char *path, struct cloche_err *e)
{
        if (linkat(s->pair.other_fd, name, s->beside_fd, BESIDE, 0) < 0)
                return errno == EMLINK || errno == ENOENT || errno == EPERM ? 0 : image_tree_failed(errno, path, e);
        crash_point();
        if (renameat(s->beside_fd, BESIDE, s->pair.own_fd, name) < 0) {
                int number = errno;

                unlinkat(s->beside_fd, BESIDE, 0);
                return number == EACCES ? 0 : image_tree_failed(number, path, e);
        }
        s->pair.has_changed = true;
        return 0;
}

static int on_common(void *data, const char *path, struct cloche_err *e)
{
        struct sharing *s = data;
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        struct stat own, other;
        int r = work_go_on(s->work, "sharing", 0, 0, e);

        if (r == 0)
                r = enter(s, path, slash ? (size_t)(slash - path) : 0, e);
        if (r <= 0)
                return r;
        if (fstatat(s->pair.own_fd, name, &own, AT_SYMLINK_NOFOLLOW) < 0)
                return image_tree_failed(errno, path, e);
        if (fstatat(s->pair.other_fd, name, &other, AT_SYMLINK_NOFOLLOW) < 0 || !may_be_one(&own, &other) ||
            !have_same_bytes(s, name))
                return 0;
        return replace(s, name, path, e);
}

/* -- trees ---------------------------------------------------------------------------------------------------- */

static int open_listing(const struct store *store, const char *hex)
{
        char name[STORE_TREE_NAME_SIZE];

        store_tree_name(name, hex, STORE_LISTING);
        return openat(store->trees_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

static int open_tree(const struct store *store, const char *hex)
{
        char name[STORE_TREE_NAME_SIZE];

        store_tree_name(name, hex, "");
        return openat(store->trees_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The other tree is not locked: whether it is removed meanwhile matters to no file that has
 * another name. */
static int share_with(struct sharing *s, const struct store *store, int listing_fd, const char *hex,
                      struct cloche_err *e)
{
        _cleanup_fd_ int other_fd = open_tree(store, hex), other_listing_fd = open_listing(store, hex);
        struct cloche_err lost;
        int r, left;

        if (other_fd < 0 || other_listing_fd < 0)
                return 0;
        s->other_fd = other_fd;
        r = listing_common(listing_fd, other_listing_fd, on_common, s, e);
        left = leave(&s->pair, r < 0 ? &lost : e);
        if (r == -CLOCHE_E_STATE) /* its listing is damaged, which verify reports */
                r = 0;
        return r < 0 ? r : left;
}

struct other {
        char hex[HASH_TEXT_SIZE];
        struct timespec used;
};

static int by_use(const void *a, const void *b)
{
        const struct timespec *one = &((const struct other *)a)->used, *other = &((const struct other *)b)->used;

        return one->tv_sec != other->tv_sec     ? (one->tv_sec < other->tv_sec ? 1 : -1)
               : one->tv_nsec != other->tv_nsec ? (one->tv_nsec < other->tv_nsec ? 1 : -1)
                                                : 0;
}

static int list_others(const struct store *store, const char *but_hex, struct other **ret, size_t *ret_count,
                       struct cloche_err *e)
{
        DIR *dir = store_list(store->trees_fd);
        size_t room = 0;
        int r = 0;

        if (!dir)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "list the trees");
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
                const char *hex = entry->d_name + strlen(STORE_TREE_PREFIX);

                if (strncmp(entry->d_name, STORE_TREE_PREFIX, strlen(STORE_TREE_PREFIX)) != 0 ||
                    !hash_is_text(hex, strlen(hex)) || strcmp(hex, but_hex) == 0)
                        continue;
                if (ARRAY_GROW(*ret, *ret_count, room) < 0) {
                        r = work_no_memory(e);
                        break;
                }
                snprintf((*ret)[*ret_count].hex, HASH_TEXT_SIZE, "%s", hex);
                (*ret)[*ret_count].used = store_tree_used(store, hex);
                ++*ret_count;
        }
        closedir(dir);
        return r;
}

int share_files(const struct store *store, const struct incoming *incoming, const char *hex, struct work *work,
                struct cloche_err *e)
{
        struct sharing *s = malloc(sizeof(*s));
        _cleanup_fd_ int tree_fd = openat(incoming->fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                         listing_fd = openat(incoming->fd, "listing", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        struct other *others = NULL;
        size_t count = 0;
        int r = s ? list_others(store, hex, &others, &count, e) : work_no_memory(e);

        if (r == 0 && (tree_fd < 0 || listing_fd < 0))
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "open the tree");
        if (s) {
                s->tree_fd = tree_fd;
                s->beside_fd = incoming->fd;
                s->work = work;
                s->pair = (struct pair){.own_fd = -EBADF, .other_fd = -EBADF};
        }
        if (count > 0)
                qsort(others, count, sizeof(*others), by_use);
        for (size_t i = 0; r == 0 && i < count && i < SHARE_TREES_MAX; i++)
                r = share_with(s, store, listing_fd, others[i].hex, e);
        free(others);
        free(s);
        return r;
}

/* -- sizes ---------------------------------------------------------------------------------------------------- */

/* A file that has several names, once for each. */
struct linked {
        ino_t inode;
        uint64_t bytes;
        size_t row;
};

struct measuring {
        struct tree_usage *row;
        size_t number;
        struct linked *linked;
        size_t count, room;
};

static int on_entry(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        struct measuring *m = data;
        uint64_t bytes = (uint64_t)entry->status->st_size;

        if (event != WALK_FOUND || !S_ISREG(entry->status->st_mode))
                return WALK_ON;
        if (entry->status->st_nlink == 1) {
                m->row->bytes += bytes;
                m->row->own_bytes += bytes;
                m->row->last_bytes += bytes;
                return WALK_ON;
        }
        if (ARRAY_GROW(m->linked, m->count, m->room) < 0)
                return work_no_memory(e);
        m->linked[m->count++] = (struct linked){entry->status->st_ino, bytes, m->number};
        return WALK_ON;
}

static int by_inode(const void *a, const void *b)
{
        const struct linked *one = a, *other = b;

        if (one->inode != other->inode)
                return one->inode < other->inode ? -1 : 1;
        return one->row < other->row ? -1 : one->row > other->row;
}

/* The names of one file lie together, sorted by their trees. */
static void attribute(const struct measuring *m, struct tree_usage *rows)
{
        for (size_t at = 0, end; at < m->count; at = end) {
                const struct linked *first = &m->linked[at];

                for (end = at; end < m->count && m->linked[end].inode == first->inode; end++)
                        if (end == at || m->linked[end].row != m->linked[end - 1].row)
                                rows[m->linked[end].row].bytes += first->bytes;
                rows[m->linked[end - 1].row].last_bytes += first->bytes;
                if (m->linked[end - 1].row == first->row)
                        rows[first->row].own_bytes += first->bytes;
        }
}

int share_measure(const struct store *store, struct tree_usage *rows, size_t count, struct cloche_err *e)
{
        struct measuring m = {0};
        const struct walk_options walk = {.visit = on_entry, .data = &m};
        int r = 0;

        for (m.number = 0; r == 0 && m.number < count; m.number++) {
                _cleanup_fd_ int fd = open_tree(store, rows[m.number].hex);

                m.row = &rows[m.number];
                m.row->bytes = m.row->own_bytes = m.row->last_bytes = 0;
                if (fd >= 0)
                        r = walk_tree(fd, &walk, e);
        }
        if (m.count > 0)
                qsort(m.linked, m.count, sizeof(*m.linked), by_inode);
        if (r == 0)
                attribute(&m, rows);
        free(m.linked);
        return r;
}
