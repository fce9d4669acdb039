/* Runs in: the agents in C, within a box, with the rights of the user's code. */
#include "agent-internal.h"
#include "resolve.h"

#include "base/err.h"
#include "wire/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int invalid(struct cloche_err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int invalid(struct cloche_err *e, const char *format, ...)
{
        va_list ap;

        err_set(e, CLOCHE_E_INVALID_ARGUMENT, "params");
        va_start(ap, format);
        vsnprintf(e->msg + 6, sizeof(e->msg) - 6, format, ap);
        va_end(ap);
        return -1;
}

static int is_plain_text(const json_t *value)
{
        return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

static int is_text_or_null(const json_t *value)
{
        return !value || json_is_null(value) || is_plain_text(value);
}

static int is_object_or_null(const json_t *value)
{
        return !value || json_is_null(value) || json_is_object(value);
}

static int is_texts(const json_t *array)
{
        for (size_t i = 0; i < json_array_size(array); i++)
                if (!json_is_string(json_array_get(array, i)))
                        return 0;
        return json_is_array(array);
}

static int is_texts_or_null(const json_t *value)
{
        return !value || json_is_null(value) || is_texts(value);
}

/* Positions must ascend; those of args are checked where args is at hand. */
static int is_holes(const json_t *value)
{
        json_int_t last = -1;

        for (size_t i = 0; i < json_array_size(value); i++) {
                const json_t *position = json_array_get(value, i);

                if (!json_is_integer(position) || json_integer_value(position) <= last)
                        return 0;
                last = json_integer_value(position);
        }
        return !value || json_is_null(value) || json_is_array(value);
}

static int is_array_or_absent(const json_t *value)
{
        return !value || json_is_array(value);
}

static int is_object_or_absent(const json_t *value)
{
        return !value || json_is_object(value);
}

static int is_code(const json_t *value)
{
        return json_is_string(value);
}

static int is_size(const json_t *value)
{
        return !value || (json_is_integer(value) && json_integer_value(value) >= 0);
}

#define OF_CALL (1 << METHOD_CALL)
#define OF_PREPARE (1 << METHOD_PREPARE)
#define OF_RUN (1 << METHOD_RUN)
#define OF_BUILD (1 << METHOD_BUILD)
#define OF_ALL (OF_CALL | OF_PREPARE | OF_RUN | OF_BUILD)

static const struct {
        const char *name;
        int methods;
        int (*is_good)(const json_t *value);
        const char *what;
} shapes[] = {
        {"code", OF_ALL, is_code, "a string"},
        {"filename", OF_ALL, is_text_or_null, "a string without NUL"},
        {"function", OF_CALL | OF_PREPARE | OF_BUILD, is_text_or_null, "null or a string without NUL"},
        {"args", OF_CALL, is_array_or_absent, "an array"},
        {"holes", OF_CALL, is_holes, "an array of ascending positions"},
        {"kwargs", OF_CALL, is_object_or_absent, "an object"},
        {"order", OF_CALL, is_texts_or_null, "null or an array of strings"},
        {"build", OF_CALL | OF_PREPARE | OF_BUILD, is_object_or_null, "null or an object"},
        {"artifact", OF_BUILD, is_object_or_null, "null or bytes"},
        {"resultBytes", OF_CALL, is_size, "an integer from 0"},
        {"argv", OF_RUN, is_texts, "an array of strings"},
        {"globals", OF_ALL, is_object_or_absent, "an object"},
        {"imports", OF_ALL, is_object_or_absent, "an object"},
};

static int check_shapes(enum method method, const json_t *params, struct cloche_err *e)
{
        if (!json_is_object(params))
                return invalid(e, " must be an object");
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
                if ((shapes[i].methods & 1 << method) && !shapes[i].is_good(json_object_get(params, shapes[i].name)))
                        return invalid(e, ".%s must be %s", shapes[i].name, shapes[i].what);
        return 0;
}

int request_value(const json_t *value, size_t attachments_size, json_t **ret, struct cloche_err *e)
{
        int r = value_check(value, attachments_size, e);

        return r < 0 ? r : resolve_references((json_t *)value, ret, e);
}

/* kwargs with a key "$" are sent as pairs. */
static json_t *plain_object(json_t *value)
{
        const json_t *pairs = json_object_get(value, "v");
        json_t *plain;

        if (!json_object_get(value, "$"))
                return value;
        plain = json_object();
        for (size_t i = 0; i < json_array_size(pairs); i++) {
                const json_t *pair = json_array_get(pairs, i), *key = json_array_get(pair, 0);

                if (!is_plain_text(key) ||
                    json_object_set(plain, json_string_value(key), json_array_get(pair, 1)) < 0) {
                        json_decref(plain);
                        plain = NULL;
                        break;
                }
        }
        json_decref(value);
        return plain;
}

/* Take a member that is a value of the host, into held->owned. */
static json_t *take_value(struct held_request *held, const json_t *params, const char *name, json_t *otherwise,
                          struct cloche_err *e)
{
        const json_t *value = json_object_get(params, name);
        json_t *made = NULL;
        char why[sizeof(e->msg)];

        if (!value) {
                made = otherwise;
        } else if (request_value(value, held->request.attachments_size, &made, e) < 0) {
                snprintf(why, sizeof(why), "%s", e->msg);
                invalid(e, ".%s: %.200s", name, why);
                json_decref(otherwise);
                return NULL;
        } else {
                json_decref(otherwise);
        }
        return made && json_object_set_new(held->owned, name, made) == 0 ? made : NULL;
}

static int read_arguments(struct held_request *held, const json_t *params, struct cloche_err *e)
{
        struct agent_request *q = &held->request;
        json_t *kwargs;

        q->args = take_value(held, params, "args", json_array(), e);
        if (!q->args)
                return -1;
        kwargs = take_value(held, params, "kwargs", json_object(), e);
        if (!kwargs)
                return -1;
        kwargs = plain_object(json_incref(kwargs));
        if (!kwargs || json_object_set_new(held->owned, "kwargs", kwargs) < 0)
                return invalid(e, ".kwargs: a name with NUL in it");
        q->kwargs = kwargs;
        q->holes = json_object_get(params, "holes");
        if (!json_is_array(q->holes)) {
                json_object_set_new(held->owned, "holes", json_array());
                q->holes = json_object_get(held->owned, "holes");
        }
        for (size_t i = 0; i < json_array_size(q->holes); i++)
                if (json_integer_value(json_array_get(q->holes, i)) >= (json_int_t)json_array_size(q->args))
                        return invalid(e, ".holes names a position outside args");
        return 0;
}

static const json_t *or_null(const json_t *value)
{
        return json_is_null(value) ? NULL : value;
}

static const json_t *object_of(struct held_request *held, const json_t *params, const char *name)
{
        const json_t *value = json_object_get(params, name);

        if (value)
                return value;
        json_object_set_new(held->owned, name, json_object());
        return json_object_get(held->owned, name);
}

int request_read(enum method method, const json_t *params, const struct frame *frame, struct held_request *ret,
                 struct cloche_err *e)
{
        struct agent_request *q = &ret->request;
        const json_t *code;

        *ret = (struct held_request){.owned = json_object()};
        if (!ret->owned)
                return invalid(e, ": no memory");
        if (check_shapes(method, params, e) < 0)
                return -1;
        code = json_object_get(params, "code");
        q->code = json_string_value(code);
        q->code_size = json_string_length(code);
        q->filename = json_string_value(json_object_get(params, "filename"));
        if (!q->filename)
                q->filename = "main";
        q->attachments = frame->attachments;
        q->attachments_size = frame->attachments_size;
        q->globals = object_of(ret, params, "globals");
        q->imports = object_of(ret, params, "imports");
        q->build = or_null(json_object_get(params, "build"));
        q->argv = json_object_get(params, "argv");
        q->function = json_string_value(json_object_get(params, "function"));
        q->artifact = or_null(json_object_get(params, "artifact"));
        if (q->artifact && value_check(q->artifact, q->attachments_size, e) < 0)
                return -1;
        if (q->artifact && (!agent_tag(q->artifact) || strcmp(agent_tag(q->artifact), "bytes") != 0))
                return invalid(e, ".artifact must be null or bytes");
        if (method != METHOD_CALL)
                return 0;
        q->order = or_null(json_object_get(params, "order"));
        q->result_bytes = (size_t)json_integer_value(json_object_get(params, "resultBytes"));
        return read_arguments(ret, params, e);
}

void agent_request_done(struct held_request *held)
{
        json_decref(held->owned);
        *held = (struct held_request){0};
}

/* -- for handlers --------------------------------------------------------------------------------------------- */

const char *agent_tag(const json_t *value)
{
        return json_string_value(json_object_get(value, "$"));
}

int agent_bytes(const struct agent_request *request, const json_t *value, const unsigned char **ret_data,
                size_t *ret_size)
{
        const char *tag = agent_tag(value);

        if (!tag || (strcmp(tag, "bytes") != 0 && strcmp(tag, "buffer") != 0 && strcmp(tag, "array") != 0))
                return 0;
        *ret_data = request->attachments + json_integer_value(json_object_get(value, "at"));
        *ret_size = (size_t)json_integer_value(json_object_get(value, "n"));
        return 1;
}

json_t *agent_value(const struct agent_request *request, const json_t *value, char *ret_why, size_t why_size)
{
        struct cloche_err e;
        json_t *made = NULL;

        if (request_value(value, request->attachments_size, &made, &e) == 0)
                return made;
        snprintf(ret_why, why_size, "%s", e.msg);
        return NULL;
}

int agent_is_hole(const struct agent_request *request, size_t position)
{
        for (size_t i = 0; i < json_array_size(request->holes); i++)
                if (json_integer_value(json_array_get(request->holes, i)) == (json_int_t)position)
                        return 1;
        return 0;
}
