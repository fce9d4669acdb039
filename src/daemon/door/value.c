/* Values of the core for answers, and paths with parts. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "door.h"

#include "wire/base64.h"
#include "wire/json.h"

#include <string.h>

json_t *door_put(json_t *object, const char *name, json_t *value)
{
        if (value)
                json_object_set_new(object, name, value);
        return object;
}

int door_bytes(const json_t *value, const struct buf *attachments, const char **ret, size_t *ret_size)
{
        const json_t *from = json_object_get(value, "at"), *length = json_object_get(value, "n");
        json_int_t at = json_integer_value(from), size = json_integer_value(length);

        if (json_is_string(value)) {
                *ret = json_string_value(value);
                *ret_size = json_string_length(value);
                return 1;
        }
        if (!json_is_integer(from) || !json_is_integer(length) || !attachments || at < 0 || size < 0 ||
            (uint64_t)at + (uint64_t)size > attachments->size)
                return 0;
        *ret = size > 0 ? attachments->data + at : "";
        *ret_size = (size_t)size;
        return 1;
}

json_t *door_string(const json_t *value, const struct buf *attachments)
{
        const char *bytes;
        size_t size;

        return door_bytes(value, attachments, &bytes, &size) ? json_valid_text(bytes, size) : json_string("");
}

json_t *door_base64(const void *bytes, size_t size)
{
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);

        if (base64_encode(&text, bytes, size) < 0)
                return NULL;
        return json_stringn_nocheck(text.data ? text.data : "", text.size);
}

int door_matches(const char *pattern, const char *path, struct door_part parts[DOOR_PARTS])
{
        size_t n = 0;

        for (size_t i = 0; i < DOOR_PARTS; i++)
                parts[i] = (struct door_part){0};
        while (*pattern) {
                if (*pattern != '{') {
                        if (*pattern++ != *path++)
                                return 0;
                        continue;
                }
                parts[n] = (struct door_part){path,
                                              strncmp(pattern, "{rest}", 6) == 0 ? strlen(path) : strcspn(path, "/")};
                if (parts[n].size == 0)
                        return 0;
                path += parts[n++].size;
                pattern = strchr(pattern, '}') + 1;
        }
        return *path == '\0';
}
