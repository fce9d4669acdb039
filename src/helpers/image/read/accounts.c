/* Find users and groups of an image. Runs in: cloche-image, as its user, confined to
 * the store and the source. */
#include "accounts.h"

#include <string.h>

#define FIELDS_MAX 7

struct field {
        const char *text;
        size_t size;
};

/* Split a line at its colons. Return the number of fields; 0: there are more than FIELDS_MAX. */
static size_t split(const char *line, size_t size, struct field ret[FIELDS_MAX])
{
        size_t count = 0;

        for (const char *end = line + size; count < FIELDS_MAX; count++) {
                const char *colon = memchr(line, ':', (size_t)(end - line));

                ret[count] = (struct field){line, (size_t)((colon ? colon : end) - line)};
                if (!colon)
                        return count + 1;
                line = colon + 1;
        }
        return 0;
}

/* Return the next line; *at is moved behind it. NULL: the end. */
static const char *next_line(const char *text, size_t size, size_t *at, size_t *ret_size)
{
        const char *line, *end;

        if (*at >= size) /* text may be NULL */
                return NULL;
        line = text + *at;
        end = memchr(line, '\n', size - *at);
        *ret_size = end ? (size_t)(end - line) : size - *at;
        *at += *ret_size + 1;
        return line;
}

bool account_read_id(const char *text, size_t size, uint32_t *ret)
{
        uint64_t number = 0;

        if (size == 0 || size > 10)
                return false;
        for (size_t i = 0; i < size; i++) {
                if (text[i] < '0' || text[i] > '9')
                        return false;
                number = number * 10 + (uint64_t)(text[i] - '0');
        }
        *ret = (uint32_t)number;
        return number < UINT32_MAX;
}

static bool copy(const struct field *field, char *ret, size_t size)
{
        if (field->size >= size || memchr(field->text, '\0', field->size))
                return false;
        memcpy(ret, field->text, field->size);
        ret[field->size] = '\0';
        return true;
}

static bool read_account(const struct field fields[FIELDS_MAX], struct account *ret)
{
        return copy(&fields[0], ret->name, sizeof(ret->name)) &&
               account_read_id(fields[2].text, fields[2].size, &ret->uid) &&
               account_read_id(fields[3].text, fields[3].size, &ret->gid) &&
               copy(&fields[5], ret->home, sizeof(ret->home));
}

bool account_find(const char *text, size_t size, const char *name, uint32_t uid, struct account *ret)
{
        struct field fields[FIELDS_MAX];
        size_t at = 0, line_size;

        for (const char *line; (line = next_line(text, size, &at, &line_size));) {
                struct account account;

                if (split(line, line_size, fields) < 7 || !read_account(fields, &account) ||
                    (name ? strcmp(account.name, name) != 0 : account.uid != uid))
                        continue;
                *ret = account;
                return true;
        }
        return false;
}

bool account_find_group(const char *text, size_t size, const char *name, uint32_t *ret)
{
        struct field fields[FIELDS_MAX];
        size_t at = 0, line_size;

        for (const char *line; (line = next_line(text, size, &at, &line_size));)
                if (split(line, line_size, fields) >= 3 && fields[0].size == strlen(name) &&
                    memcmp(fields[0].text, name, fields[0].size) == 0 &&
                    account_read_id(fields[2].text, fields[2].size, ret))
                        return true;
        return false;
}
