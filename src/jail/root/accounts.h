/* The accounts of a box with a root of its own. */
#ifndef CLOCHE_JAIL_ROOT_ACCOUNTS_H
#define CLOCHE_JAIL_ROOT_ACCOUNTS_H

#include <string.h>

/* The files of accounts in a box with a root of its own: those of its image or, if it has none,
 * these rows, and behind them one more (root.c). Its password is no x: su(1) would look
 * for it in /etc/shadow, which is the image's. */
#define JAIL_ACCOUNTS 2
static const struct {
        const char *path, *own, *row;
} jail_accounts[JAIL_ACCOUNTS] = {
        {"etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
         "user:*:1000:1000:user:/home/user:/bin/sh\n"},
        {"etc/group", "root:x:0:\nnogroup:x:65534:\n", "user:x:1000:\n"},
};

/* Directories of /home that each box with a root of its own has. */
#define JAIL_HOME_NAMES 2
static const char *const jail_homes[JAIL_HOME_NAMES] = {"cloche", "user"};

static inline int jail_path_is_home(const char *path)
{
        int is_home = 0;

        for (int i = 0; i < JAIL_HOME_NAMES; i++)
                is_home |= strncmp(path, "home/", 5) == 0 && strcmp(path + 5, jail_homes[i]) == 0;
        return is_home;
}

static inline int jail_path_is_account(const char *path)
{
        return strcmp(path, jail_accounts[0].path) == 0 || strcmp(path, jail_accounts[1].path) == 0;
}

#endif
