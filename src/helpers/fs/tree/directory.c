/* Cache descriptors of the host's directories.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "directory.h"

#include "base/clock.h"
#include "base/fd.h"
#include "node.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>

void directories_init(struct directories *directories, const struct lower *lower, uint64_t keep_ns, char *path)
{
        *directories = (struct directories){.lower = lower, .keep_ns = keep_ns, .path = path};
        for (size_t i = 0; i < DIRECTORIES_KEPT; i++)
                directories->kept[i].fd = -EBADF;
}

/* The node remembers its slot; another node may have taken it since. */
static struct kept *place_of(struct directories *directories, struct node *node)
{
        struct kept *kept = &directories->kept[node->kept];

        if (kept->node == node)
                return kept;
        node->kept = (unsigned short)(++directories->hand % DIRECTORIES_KEPT);
        kept = &directories->kept[node->kept];
        kept->node = node;
        fd_close(&kept->fd);
        return kept;
}

static struct kept *find_kept(struct directories *directories, const struct node *node, uint64_t now)
{
        struct kept *kept = &directories->kept[node->kept];

        return kept->node == node && kept->fd >= 0 && now < kept->until_ns ? kept : NULL;
}

/* Open from the parent's descriptor if it is cached, and keep the parent's expiry: the time counts
 * from the last lookup from the root. */
int directory_find(struct directories *directories, struct node *node)
{
        uint64_t now = directories->keep_ns ? clock_now_ns() : 0, until = now + directories->keep_ns;
        struct kept *kept = find_kept(directories, node, now), *above;
        const char *path;
        int fd;

        if (kept)
                return kept->fd;
        above = node->lower_parent ? find_kept(directories, node->lower_parent, now) : NULL;
        if (above) {
                fd = lower_open_in(above->fd, node->lower_name, O_PATH | O_DIRECTORY);
                until = above->until_ns;
        } else {
                path = node_lower_path(node, directories->path);
                fd = path ? lower_open(directories->lower, path, O_PATH | O_DIRECTORY) : -ENAMETOOLONG;
        }
        kept = place_of(directories, node);
        fd_close(&kept->fd);
        kept->fd = fd;
        kept->until_ns = until;
        return fd;
}

int directory_stat(struct directories *directories, struct node *directory, const char *name, struct stat *ret)
{
        int fd = directory_find(directories, directory);

        return fd < 0 ? fd : lower_stat_in(fd, name, ret);
}

/* Change the case of one ASCII letter; false: it has none. Every file system that folds case
 * folds these. */
static bool respell(const char *name, char ret[NODE_NAME_MAX + 1])
{
        size_t i = 0;

        while (name[i] && !isalpha((unsigned char)name[i]))
                i++;
        if (!name[i] || strlen(name) > NODE_NAME_MAX)
                return false;
        strcpy(ret, name);
        ret[i] ^= 0x20;
        return true;
}

/* Digits and symbols have no case; some file systems drop a trailing dot or space. */
static bool has_one_spelling(const char *name)
{
        size_t size = strlen(name);

        for (size_t i = 0; i < size; i++)
                if ((unsigned char)name[i] >= 0x80)
                        return false;
        return size > 0 && name[size - 1] != '.' && name[size - 1] != ' ';
}

/* Judge a directory once, by looking up another spelling of the first name that has one. */
static enum folding judge_folding(struct directories *directories, struct node *directory, const char *name,
                                  const struct stat *st)
{
        char other[NODE_NAME_MAX + 1];
        struct stat found;

        if (directory->folding != FOLDING_UNKNOWN)
                return directory->folding;
        if (!respell(name, other))
                return has_one_spelling(name) ? FOLDING_NONE : FOLDING_SUSPECTED; /* a later name may decide */
        directory->folding = FOLDING_NONE;
        if (directory_stat(directories, directory, other, &found) == 0 && found.st_dev == st->st_dev &&
            found.st_ino == st->st_ino)
                directory->folding = FOLDING_SUSPECTED;
        return directory->folding;
}

static int is_name(void *argument, const char *name, unsigned char kind)
{
        (void)kind;
        return strcmp(name, argument) == 0;
}

bool directory_spells(struct directories *directories, struct node *directory, const char *name, const struct stat *st)
{
        _cleanup_fd_ int fd = -EBADF;

        if (judge_folding(directories, directory, name, st) == FOLDING_NONE)
                return true;
        fd = directory_find(directories, directory);
        if (fd >= 0)
                fd = lower_open_in(fd, "", O_RDONLY | O_DIRECTORY);
        return fd >= 0 && lower_each(fd, is_name, (void *)(uintptr_t)name) > 0;
}

int directory_open_file(struct directories *directories, struct node *directory, const char *name, struct stat *ret)
{
        int fd = directory_find(directories, directory);

        return fd < 0 ? fd : lower_open_file_in(fd, name, ret);
}

int directory_read_link(struct directories *directories, struct node *directory, const char *name, char *ret, int size)
{
        int fd = directory_find(directories, directory);

        return fd < 0 ? fd : lower_read_link_in(fd, name, ret, size);
}
