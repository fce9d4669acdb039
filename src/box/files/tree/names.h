/* The names in a directory, sorted by bytes. */
#ifndef CLOCHE_BOX_FILES_TREE_NAMES_H
#define CLOCHE_BOX_FILES_TREE_NAMES_H

#include <stddef.h>
#include <sys/types.h>

struct names {
        char **items; /* a name, or "name/" for the contents of that directory */
        size_t count, room;
};

struct names_wanted {
        unsigned with_descents : 1, skips_hidden : 1;
        const char *prefix; /* path of the directory: "" or ends in a slash */
        const char *after;  /* only paths after this one, and directories that lead to them; NULL: all */
        size_t limit;       /* enough entries; 0: all */
};

/* dir_fd: borrowed. 0 or -errno. */
int names_read(int dir_fd, const struct names_wanted *wanted, struct names *ret);
/* The facts that the directory itself has of an item: readdir(3). */
struct names_facts {
        ino_t inode;
        mode_t kind; /* S_IFMT of it; 0: the file system does not tell */
};
struct names_facts names_facts(const char *item);
void names_done(struct names *names);

#endif
