/* Runs in: every program that sends or receives JSON-RPC. */
#include "rpc.h"

#include "base/err.h"
#include "json.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* message is stolen; NULL: making it failed. */
static int send_message(json_t *message, const void *attachments, size_t attachments_size, struct buf *out,
                        struct cloche_err *e)
{
        char *text = message ? json_dump_text(message, JSON_COMPACT) : NULL;
        int r = text ? frame_build(out, text, strlen(text), attachments, attachments_size, e)
                     : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "write a message");

        free(text);
        json_decref(message);
        return r;
}

int rpc_request(json_t *id, const char *method, json_t *params, const void *attachments, size_t attachments_size,
                struct buf *out, struct cloche_err *e)
{
        return send_message(json_pack("{s:s, s:s, s:o*, s:o}", "jsonrpc", "2.0", "method", method, "params", params,
                                      "id", id),
                            attachments, attachments_size, out, e);
}

int rpc_notify(const char *method, json_t *params, const void *attachments, size_t attachments_size, struct buf *out,
               struct cloche_err *e)
{
        return send_message(json_pack("{s:s, s:s, s:o*}", "jsonrpc", "2.0", "method", method, "params", params),
                            attachments, attachments_size, out, e);
}

int rpc_result(json_t *id, json_t *result, const void *attachments, size_t attachments_size, struct buf *out,
               struct cloche_err *e)
{
        return send_message(json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "id", id, "result", result), attachments,
                            attachments_size, out, e);
}

int rpc_error(json_t *id, int code, const char *message, json_t *data, struct buf *out, struct cloche_err *e)
{
        return rpc_error_with(id, code, message, data, &(struct buf){0}, out, e);
}

int rpc_error_with(json_t *id, int code, const char *message, json_t *data, const struct buf *attachments,
                   struct buf *out, struct cloche_err *e)
{
        return send_message(json_pack("{s:s, s:o, s:{s:i, s:s, s:o*}}", "jsonrpc", "2.0", "id", id ? id : json_null(),
                                      "error", "code", code, "message", message, "data", data),
                            attachments->data, attachments->size, out, e);
}

int rpc_failure(const json_t *id, int number, const struct cloche_err *error, struct buf *out)
{
        json_t *message = json_valid_text(error->msg, strlen(error->msg)),
               *data = json_pack("{s:s, s:s*}", "name", cloche_code_name(error->code), "reason",
                                 error->os_errno == EBUSY ? "busy" : NULL);
        int r = rpc_error(json_incref((json_t *)id), number, message ? json_string_value(message) : "", data, out,
                          NULL);

        json_decref(message);
        return r;
}

void rpc_read_failure(const struct rpc_message *m, enum cloche_code default_code, struct cloche_err *ret)
{
        const char *name = json_string_value(json_object_get(json_object_get(m->error, "data"), "name"));
        enum cloche_code code = default_code;

        for (unsigned i = 1; name && i < CLOCHE_CODE_COUNT; i++)
                if (strcmp(cloche_code_name(i), name) == 0)
                        code = (enum cloche_code)i;
        err_set(ret, code, "%s", m->error_message);
}

static int is_id(const json_t *id)
{
        return json_is_string(id) || json_is_integer(id);
}

static int parse_call(struct rpc_message *m, struct cloche_err *e)
{
        const json_t *method = json_object_get(m->root, "method");

        if (!json_is_string(method) || strlen(json_string_value(method)) != json_string_length(method))
                return err_set(e, CLOCHE_E_PROTOCOL, "\"method\" of a message must be a string without NUL");
        if (json_object_get(m->root, "result") || json_object_get(m->root, "error"))
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "a message with \"method\" must have no \"result\" and no \"error\"");
        m->method = json_string_value(method);
        m->params = json_object_get(m->root, "params");
        if (m->params && !json_is_object(m->params) && !json_is_array(m->params))
                return err_set(e, CLOCHE_E_PROTOCOL, "\"params\" of a message must be an object or an array");
        if (m->id && !is_id(m->id))
                return err_set(e, CLOCHE_E_PROTOCOL, "\"id\" of a request must be a string or an integer");
        m->kind = m->id ? RPC_REQUEST : RPC_NOTIFICATION;
        return 0;
}

static int is_int(const json_t *value)
{
        return json_is_integer(value) && json_integer_value(value) >= INT_MIN && json_integer_value(value) <= INT_MAX;
}

static int parse_answer(struct rpc_message *m, struct cloche_err *e)
{
        const json_t *code, *message;

        m->result = json_object_get(m->root, "result");
        m->error = json_object_get(m->root, "error");
        if (!m->result == !m->error)
                return err_set(e, CLOCHE_E_PROTOCOL, "a message must have one of \"method\", \"result\" and \"error\"");
        if (!is_id(m->id) && !(m->error && json_is_null(m->id)))
                return err_set(e, CLOCHE_E_PROTOCOL, "\"id\" of an answer must be a string or an integer");
        m->kind = m->result ? RPC_RESULT : RPC_ERROR;
        if (m->result)
                return 0;
        code = json_object_get(m->error, "code");
        message = json_object_get(m->error, "message");
        if (!is_int(code) || !json_is_string(message))
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "\"error\" of a message must have an integer \"code\" and a string \"message\"");
        m->error_code = (int)json_integer_value(code);
        m->error_message = json_string_value(message);
        return 0;
}

static int parse(struct rpc_message *m, struct cloche_err *e)
{
        const json_t *version = json_object_get(m->root, "jsonrpc");

        if (!json_is_object(m->root) || json_string_length(version) != 3 ||
            strcmp(json_string_value(version), "2.0") != 0)
                return err_set(e, CLOCHE_E_PROTOCOL, "a message must be an object with \"jsonrpc\": \"2.0\"");
        m->id = json_object_get(m->root, "id");
        return json_object_get(m->root, "method") ? parse_call(m, e) : parse_answer(m, e);
}

int rpc_parse(const struct frame *f, struct rpc_message *ret, struct cloche_err *e)
{
        struct rpc_message m = {0};
        int r = json_load_text(f->json, f->json_size, &m.root, e);

        if (r == -CLOCHE_E_RESOURCE)
                return err_wrap(e, "a message");
        if (r < 0) {
                if (e)
                        e->code = CLOCHE_E_PROTOCOL;
                err_wrap(e, "a message");
                return -CLOCHE_E_PROTOCOL;
        }
        r = parse(&m, e);
        if (r < 0) {
                json_decref(m.root);
                return r;
        }
        *ret = m;
        return 0;
}

void rpc_message_done(struct rpc_message *m)
{
        json_decref(m->root);
        *m = (struct rpc_message){0};
}
