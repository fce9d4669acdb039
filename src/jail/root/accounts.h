/* The accounts of a box with a root of its own. */
#ifndef CLOCHE_JAIL_ROOT_ACCOUNTS_H
#define CLOCHE_JAIL_ROOT_ACCOUNTS_H

#include <string.h>

#define JAIL_ACCOUNTS 2

/* The files, and the row that each has behind those of its image (root.c). Its password is no x:
 * su(1) would look for it in /etc/shadow, which is the image's. */
static const struct {
        const char *path, *row;
} jail_accounts[JAIL_ACCOUNTS] = {
        {"etc/passwd", "user:*:1000:1000:user:/home/user:/bin/sh\n"},
        {"etc/group", "user:x:1000:\n"},
};

static inline int jail_path_is_account(const char *path)
{
        return strcmp(path, jail_accounts[0].path) == 0 || strcmp(path, jail_accounts[1].path) == 0;
}

#endif
