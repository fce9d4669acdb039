/* The one user of a box as code in it sees it: numbers and names. On the host it is a
 * number of the keeper's choice. */
#ifndef CLOCHE_JAIL_USER_H
#define CLOCHE_JAIL_USER_H

#include <stdint.h>
#include <string.h>

#define JAIL_UID 1000 /* of a box that names no user, and its group; a second one in a box with a root of its own */
#define JAIL_NAME "cloche"
#define JAIL_HOMES "/home/"
#define JAIL_HOME JAIL_HOMES JAIL_NAME
#define JAIL_ID_MAX 0x6fffffffu /* above are the host's users of boxes, which templates map unchanged */
#define JAIL_NAME_SIZE 33

struct jail_user {
        uint32_t uid, gid;
        char name[JAIL_NAME_SIZE];
        char home[sizeof(JAIL_HOMES) + JAIL_NAME_SIZE]; /* other than JAIL_HOME: a link to it */
};

static inline struct jail_user jail_user_default(void)
{
        return (struct jail_user){JAIL_UID, JAIL_UID, JAIL_NAME, JAIL_HOME};
}

/* In a box with a root of its own, whose other users it makes itself. */
static inline struct jail_user jail_user_root(void)
{
        return (struct jail_user){0, 0, "root", JAIL_HOME};
}

/* True for a name that is one field of /etc/passwd and one part of a path. */
static inline int jail_user_is_name(const char *name)
{
        size_t size = strnlen(name, JAIL_NAME_SIZE);

        return size > 0 && size < JAIL_NAME_SIZE && name[0] != '.' && name[0] != '-' &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == size;
}

/* True for a directory at the top of /home. */
static inline int jail_user_is_home(const char *home)
{
        return strncmp(home, JAIL_HOMES, sizeof(JAIL_HOMES) - 1) == 0 &&
               jail_user_is_name(home + sizeof(JAIL_HOMES) - 1);
}

/* 0 as a group gives no right: capabilities go by the user. */
static inline int jail_user_has_ids(uint64_t uid, uint64_t gid)
{
        return uid > 0 && uid <= JAIL_ID_MAX && gid <= JAIL_ID_MAX;
}

#endif
