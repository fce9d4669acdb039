/* Runs in: cloche-files, within a box, with its user's rights. */
#include "names.h"

#include "base/array.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Limit of directories that precede `after` in order because they lead to it. */
#define LEADING_MAX 4096

static int compare(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct names *names)
{
        if (names->count)
                qsort(names->items, names->count, sizeof(names->items[0]), compare);
}

/* The text of an item lies behind its facts. */
struct named {
        struct names_facts facts;
        char text[];
};

static struct named *named_of(char *item)
{
        return (struct named *)(item - offsetof(struct named, text));
}

struct names_facts names_facts(const char *item)
{
        return named_of((char *)item)->facts;
}

static void cut(struct names *names, size_t count)
{
        while (names->count > count)
                free(named_of(names->items[--names->count]));
}

void names_done(struct names *names)
{
        cut(names, 0);
        free(names->items);
        *names = (struct names){0};
}

static int add(struct names *names, const struct dirent *entry, const char *ending)
{
        size_t size = strlen(entry->d_name), ending_size = strlen(ending);
        struct named *named;

        if (ARRAY_GROW(names->items, names->count, names->room) < 0)
                return -ENOMEM;
        named = malloc(sizeof(*named) + size + ending_size + 1);
        if (!named)
                return -ENOMEM;
        named->facts = (struct names_facts){entry->d_ino, entry->d_type == DT_UNKNOWN ? 0 : DTTOIF(entry->d_type)};
        memcpy(named->text, entry->d_name, size);
        memcpy(named->text + size, ending, ending_size + 1);
        names->items[names->count++] = named->text;
        return 0;
}

static int is_directory(int dir_fd, const struct dirent *entry)
{
        struct stat status;

        if (entry->d_type != DT_UNKNOWN)
                return entry->d_type == DT_DIR;
        return fstatat(dir_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

/* Compare a name with `after`: the part of it below this directory, if it is below. */
static int is_behind(const struct names_wanted *wanted, const char *name, const char *ending, int leads_count)
{
        size_t prefix = strlen(wanted->prefix), size = strlen(name);
        int order = strncmp(wanted->prefix, wanted->after, prefix);
        const char *rest;

        if (order != 0)
                return order > 0;
        rest = wanted->after + prefix;
        order = strncmp(name, rest, size);
        if (order != 0)
                return order > 0;
        rest += size;
        if (leads_count && *rest == '/')
                return 1;
        return strcmp(ending, rest) > 0;
}

static int take(int dir_fd, const struct dirent *entry, const struct names_wanted *wanted, struct names *names)
{
        int r = 0;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            (wanted->skips_hidden && entry->d_name[0] == '.'))
                return 0;
        if (!wanted->after || is_behind(wanted, entry->d_name, "", 0))
                r = add(names, entry, "");
        if (r == 0 && wanted->with_descents && is_directory(dir_fd, entry) &&
            (!wanted->after || is_behind(wanted, entry->d_name, "/", 1)))
                r = add(names, entry, "/");
        return r;
}

int names_read(int dir_fd, const struct names_wanted *wanted, struct names *ret)
{
        size_t enough = wanted->limit ? wanted->limit * 2 + LEADING_MAX : 0;
        struct names names = {0};
        struct dirent *entry;
        int fds_get = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *dir = fds_get < 0 ? NULL : fdopendir(fds_get);

        if (!dir) {
                r = -errno;
                if (fds_get >= 0)
                        close(fds_get);
                return r;
        }
        while (r == 0 && (errno = 0, entry = readdir(dir))) {
                r = take(dir_fd, entry, wanted, &names);
                /* The greatest names cannot be among the requested ones. */
                if (enough && names.count >= enough * 2) {
                        sort(&names);
                        cut(&names, enough);
                }
        }
        if (r == 0)
                r = -errno;
        closedir(dir);
        sort(&names);
        if (r == 0)
                *ret = names;
        else
                names_done(&names);
        return r;
}
