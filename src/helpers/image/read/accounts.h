/* The files passwd and group of an image (passwd(5), group(5)). Hostile bytes; pure. */
#ifndef CLOCHE_HELPERS_IMAGE_READ_ACCOUNTS_H
#define CLOCHE_HELPERS_IMAGE_READ_ACCOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACCOUNTS_BYTES_MAX (1u << 20)
#define ACCOUNT_NAME_SIZE 65
#define ACCOUNT_HOME_SIZE 256

struct account {
        char name[ACCOUNT_NAME_SIZE], home[ACCOUNT_HOME_SIZE]; /* "": none */
        uint32_t uid, gid;
};

/* Read decimal digits that are the number of a user or group; 4294967295 is none. */
bool account_read_id(const char *text, size_t size, uint32_t *ret);
/* Find the first row of passwd with this name, or name NULL with this uid. text: NULL if size is
 * 0. Rows that are damaged, or too long for struct account, are skipped. */
bool account_find(const char *text, size_t size, const char *name, uint32_t uid, struct account *ret);
/* The same for group, by name. */
bool account_find_group(const char *text, size_t size, const char *name, uint32_t *ret);

#endif
