/* Runs in: cloche-files, within a box, with its user's rights. */
#include "request.h"

#include "base/clock.h"
#include "base/err.h"
#include "box/files/tree/path.h"
#include "wire/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES_MAX (64u << 10)

int request_no_memory(struct cloche_err *e)
{
        return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "work on a request");
}

const char *request_text(const struct files_request *q, const char *name)
{
        return json_string_value(json_object_get(q->params, name));
}

uint64_t request_count(const struct files_request *q, const char *name, uint64_t absent)
{
        const json_t *value = json_object_get(q->params, name);

        return value ? (uint64_t)json_integer_value(value) : absent;
}

int request_is_true(const struct files_request *q, const char *name, int absent)
{
        const json_t *value = json_object_get(q->params, name);

        return value ? json_is_true(value) : absent;
}

int request_mode(const struct files_request *q, const char *name, mode_t absent, mode_t *ret, struct cloche_err *e)
{
        uint64_t mode = request_count(q, name, absent);

        if (json_object_get(q->params, name) && mode > 07777)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "\"%s\" is %llu, expected permission bits: 0 to 4095 (07777)", name,
                               (unsigned long long)mode);
        *ret = (mode_t)mode;
        return 0;
}

int request_path(const struct files_request *q, const char *name, char **ret, struct cloche_err *e)
{
        int r = path_absolute(q->directory, request_text(q, name), ret, e);

        return r < 0 ? err_wrap(e, "\"%s\"", name) : 0;
}

json_t *request_text_or_bytes(struct files_request *q, const void *data, size_t size)
{
        /* A NUL needs six characters, and long texts cost far more to encode and parse than
         * bytes. */
        json_t *text = size > TEXT_BYTES_MAX || memchr(size ? data : "a", '\0', size) ? NULL : json_stringn(data, size);
        size_t at = q->attached.size;

        if (text)
                return text;
        if (buf_append(&q->attached, data, size) < 0)
                return NULL;
        return json_attachment(at, size);
}

json_t *request_time(const struct timespec *time)
{
        char text[CLOCK_TEXT_SIZE];

        return clock_write_utc(text, *time) < 0 ? json_null() : json_string(text);
}

int request_answer(struct files_request *q, json_t *result, struct cloche_err *e)
{
        if (!result)
                return request_no_memory(e);
        json_decref(q->result);
        q->result = result;
        return 0;
}

static const struct {
        int os_errno;
        enum cloche_code code;
} codes[] = {
        {ENOENT, CLOCHE_E_FILE_NOT_FOUND},
        {EEXIST, CLOCHE_E_FILE_EXISTS},
        {ENOTEMPTY, CLOCHE_E_FILE_EXISTS},
        {ENOTDIR, CLOCHE_E_FILE_KIND},
        {EISDIR, CLOCHE_E_FILE_KIND},
        {ELOOP, CLOCHE_E_FILE_KIND},
        {ENXIO, CLOCHE_E_FILE_KIND},
        {ENODEV, CLOCHE_E_FILE_KIND},
        {ESPIPE, CLOCHE_E_FILE_KIND},
        {EACCES, CLOCHE_E_FILE_DENIED},
        {EPERM, CLOCHE_E_FILE_DENIED},
        {EROFS, CLOCHE_E_FILE_DENIED},
        {EBUSY, CLOCHE_E_FILE_DENIED},
        {ETXTBSY, CLOCHE_E_FILE_DENIED},
        {ENOSPC, CLOCHE_E_DISK_FULL},
        {EDQUOT, CLOCHE_E_DISK_FULL},
        {EFBIG, CLOCHE_E_TOO_LARGE},
        {EOVERFLOW, CLOCHE_E_TOO_LARGE},
        {ENAMETOOLONG, CLOCHE_E_INVALID_ARGUMENT},
        {EINVAL, CLOCHE_E_INVALID_ARGUMENT},
        {EOPNOTSUPP, CLOCHE_E_INVALID_ARGUMENT},
};

int files_os(struct cloche_err *e, int os_errno, const char *format, ...)
{
        enum cloche_code code = CLOCHE_E_RESOURCE;
        char text[sizeof(e->msg)];
        va_list ap;

        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
                if (codes[i].os_errno == os_errno)
                        code = codes[i].code;
        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        return err_os(e, code, os_errno, "%s", text);
}
