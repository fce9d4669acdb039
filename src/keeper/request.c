#include "request.h"

#include "base/err.h"

#include <stddef.h>
#include <string.h>

/* Bounds of what the kernel is asked for; the engine's own ranges (spec/limits.def) are narrower or equal. */
static const struct {
        const char *name;
        size_t offset;
        uint64_t min, max;
} limit_rows[] = {
#define CLOCHE_LIMIT(field, json, unit, def, min, max, doc) ROW_##field(min, max)
#define ROW(field, min, max) {#field, offsetof(struct keeper_box_limits, field), min, max},
#define ROW_wall_ms(min, max)
#define ROW_output_bytes(min, max)
#define ROW_result_bytes(min, max)
#define ROW_bridge_calls(min, max)
#define ROW_bridge_bytes(min, max)
#define ROW_cpu_ms(min, max) ROW(cpu_ms, min, max)
#define ROW_memory_bytes(min, max) ROW(memory_bytes, min, max)
#define ROW_pids(min, max) ROW(pids, min, max)
#define ROW_cpu_percent(min, max) ROW(cpu_percent, min, max)
#define ROW_disk_bytes(min, max) ROW(disk_bytes, min, max)
#define ROW_disk_inodes(min, max) ROW(disk_inodes, min, max)
#define ROW_file_bytes(min, max) ROW(file_bytes, min, max)
#define ROW_open_files(min, max) ROW(open_files, min, max)
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
};

static int check_path(const char *path, const char *name, struct cloche_err *e)
{
        if (!memchr(path, '\0', KEEPER_PATH_MAX))
                return err_set(e, CLOCHE_E_PROTOCOL, "%s is not terminated", name);
        if (path[0] && path[0] != '/')
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s must be an absolute path, not '%.100s'", name, path);
        return 0;
}

static int check_limits(const struct keeper_box_limits *limits, struct cloche_err *e)
{
        for (size_t i = 0; i < sizeof(limit_rows) / sizeof(limit_rows[0]); i++) {
                uint64_t value;

                memcpy(&value, (const char *)limits + limit_rows[i].offset, sizeof(value));
                if (value != UINT64_MAX && (value < limit_rows[i].min || value > limit_rows[i].max))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s is %llu, expected %llu to %llu or none",
                                       limit_rows[i].name, (unsigned long long)value,
                                       (unsigned long long)limit_rows[i].min, (unsigned long long)limit_rows[i].max);
        }
        return 0;
}

int request_check(const struct keeper_request *request, size_t size, struct cloche_err *e)
{
        size_t expected = KEEPER_REQUEST_HEAD;
        int r;

        if (size >= KEEPER_REQUEST_HEAD && request->op >= KEEPER_OP_COUNT)
                return err_set(e, CLOCHE_E_PROTOCOL, "there is no request %u", request->op);
        if (size >= KEEPER_REQUEST_HEAD && (request->op == KEEPER_BOX_MAKE || request->op == KEEPER_BOX_LIMIT))
                expected = sizeof(*request);
        if (size != expected)
                return err_set(e, CLOCHE_E_PROTOCOL, "a request has %zu bytes, not %zu", size, expected);
        if (request->op == KEEPER_BOX_LIMIT)
                return check_limits(&request->spec.limits, e);
        if (request->op != KEEPER_BOX_MAKE)
                return 0;
        if (request->spec.is_template > 1)
                return err_set(e, CLOCHE_E_PROTOCOL, "is_template is %u", request->spec.is_template);
        r = check_path(request->spec.image, "image", e);
        if (r == 0)
                r = check_path(request->spec.runtime_dir, "runtime_dir", e);
        if (r == 0 && request->spec.parent != KEEPER_NO_BOX && (request->spec.image[0] || request->spec.runtime_dir[0]))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a box beneath a template has its image and runtime");
        if (r == 0)
                r = check_limits(&request->spec.limits, e);
        return r;
}
