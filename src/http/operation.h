/* The table of operations (spec/daemon.def): finding one, and checking what it is asked with. Pure. */
#ifndef CLOCHE_HTTP_OPERATION_H
#define CLOCHE_HTTP_OPERATION_H

#include "field.h"

enum operation_symbol {
#define DAEMON_OPERATION(symbol, method, verb, path, success, doc) OPERATION_##symbol,
#define DAEMON_FIELD(name, type, required, optional, doc)
#include <cloche/daemon.def>
#undef DAEMON_OPERATION
#undef DAEMON_FIELD
        OPERATION_COUNT
};

struct operation {
        enum operation_symbol symbol;
        const char *method, *verb, *path;
        unsigned success;
        const char *doc;
};

struct operation_field {
        const char *name;
        enum field_type type;
        uint32_t required, optional; /* bit 1u << operation_symbol */
        const char *doc;
};

const struct operation *operation_at(enum operation_symbol symbol);
/* NULL: there is none. */
const struct operation *operation_by_method(const char *method);

/* By verb and path; what stands in the path is added to *ret_params, a new object or NULL. NULL: no such path, or *ret_allowed
 * names the verbs it has. */
const struct operation *operation_by_path(const char *verb, const char *path, json_t **ret_params, char *ret_allowed, size_t size);

/* params: an object in text form, NULL for none. */
int operation_check(const struct operation *operation, const json_t *params, struct cloche_err *e);

/* The fields of all operations; *ret_count of them. */
const struct operation_field *operation_fields(size_t *ret_count);

#endif
