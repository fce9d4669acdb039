/* The tables of operations (spec/daemon.def, spec/sandbox.def): find an operation and validate its
 * parameters. Pure. */
#ifndef CLOCHE_DAEMON_HTTP_OPERATION_H
#define CLOCHE_DAEMON_HTTP_OPERATION_H

#include "field.h"

#include <stddef.h>

enum operation_symbol {
#define DAEMON_OPERATION(symbol, method, verb, path, success, ...) OPERATION_##symbol,
#define DAEMON_FIELD(name, type, required, optional, doc)
#include <cloche/daemon.def>
#undef DAEMON_OPERATION
#undef DAEMON_FIELD
#define SANDBOX_OPERATION(symbol, method, verb, path, success, kind, ...) OPERATION_SANDBOX_##symbol,
#define SANDBOX_FIELD(symbol, name, type, need, doc)
#include <cloche/sandbox.def>
#undef SANDBOX_OPERATION
#undef SANDBOX_FIELD
        OPERATION_COUNT
};

struct operation {
        enum operation_symbol symbol;
        const char *method, *verb, *path;
        unsigned success;
        int is_sandbox; /* from sandbox.def: its parameters are in frame form */
        int is_stream;  /* sends events, if the transport can carry them */
        int names_sandbox;
};

struct operation_field {
        const char *name;
        enum field_type type;
        int is_required;
};

const struct operation *operation_at(enum operation_symbol symbol);
/* NULL: not found. */
const struct operation *operation_by_method(const char *method);

/* Find by verb and path; parameters in the path are added to *ret_params, a new object or NULL.
 * NULL: no such path, or *ret_allowed lists its verbs. */
const struct operation *operation_by_path(const char *verb, const char *path, json_t **ret_params, char *ret_allowed,
                                          size_t size);

/* params: an object, NULL for none; in text form, for operations of sandboxes in frame form. */
int operation_check(const struct operation *operation, const json_t *params, struct cloche_err *e);
/* Convert query parameters from text to their fields' types. Changes *params in place. */
int operation_read_query(const struct operation *operation, json_t *params, struct cloche_err *e);

/* True if the parameters are a JSON object in the body; otherwise they are in path and query. */
int operation_has_json(const struct operation *operation);

#endif
