/* Runs in: the agents in C, within a box, with the rights of the user's code. */
#include "agent-internal.h"

#include "base/err.h"
#include "wire/json.h"
#include "wire/rpc.h"
#include "wire/value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREW (-32000)
#define SAFE_INTEGER_MAX INT64_C(9007199254740991)

/* -- making values -------------------------------------------------------------------------------------------- */

json_t *agent_real(double value)
{
        const char *name = isnan(value) ? "NaN" : isinf(value) ? (value > 0 ? "Infinity" : "-Infinity") : "-0";

        if (isfinite(value) && (value != 0 || !signbit(value)))
                return json_real(value);
        return json_pack("{s:s, s:s}", "$", "number", "v", name);
}

json_t *agent_unsigned(uint64_t value)
{
        char digits[32];

        if (value <= (uint64_t)SAFE_INTEGER_MAX)
                return json_integer((json_int_t)value);
        snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
        return json_pack("{s:s, s:s}", "$", "bigint", "v", digits);
}

json_t *agent_integer(int64_t value)
{
        char digits[32];

        if (value >= -SAFE_INTEGER_MAX && value <= SAFE_INTEGER_MAX)
                return json_integer(value);
        snprintf(digits, sizeof(digits), "%lld", (long long)value);
        return json_pack("{s:s, s:s}", "$", "bigint", "v", digits);
}

json_t *agent_text(const char *text, size_t size)
{
        return json_valid_text(text, size);
}

static json_t *attach(struct agent_reply *reply, const char *tag, const char *type, const void *data, size_t size)
{
        size_t at = reply->attachments.size;

        if (buf_append(&reply->attachments, data, size) < 0) {
                reply->is_too_large = 1;
                return NULL;
        }
        return json_pack("{s:s, s:s*, s:I, s:I}", "$", tag, "t", type, "at", (json_int_t)at, "n", (json_int_t)size);
}

json_t *agent_attach(struct agent_reply *reply, const void *data, size_t size)
{
        return attach(reply, "bytes", NULL, data, size);
}

json_t *agent_attach_array(struct agent_reply *reply, const char *type, const void *data, size_t size)
{
        return attach(reply, "array", type, data, size);
}

int agent_reply_text_form(struct agent_reply *reply, json_t *text_form, char *ret_why, size_t why_size)
{
        struct cloche_err e;
        int r = value_text_to_frame(text_form, &reply->attachments, &reply->value, &e);

        reply->is_too_large |= r == -CLOCHE_E_TOO_LARGE;
        if (r < 0)
                snprintf(ret_why, why_size, "%s", e.msg);
        return r < 0 ? -1 : 0;
}

/* -- errors --------------------------------------------------------------------------------------------------- */

static void throw_error(struct agent_reply *reply, const char *type, const char *message, const char *stack)
{
        json_decref(reply->error);
        reply->error = json_pack("{s:o, s:o, s:o}", "type", agent_text(type, strlen(type)), "message",
                                 agent_text(message, strlen(message)), "stack", agent_text(stack, strlen(stack)));
}

int agent_throw(struct agent_reply *reply, const char *type, const char *stack, const char *format, ...)
{
        char *message = NULL;
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&message, format, ap) < 0)
                message = NULL;
        va_end(ap);
        throw_error(reply, type, message ? message : "no memory for the message", stack ? stack : "");
        free(message);
        return -1;
}

/* -- answers -------------------------------------------------------------------------------------------------- */

static int append_piece(const char *data, size_t size, void *out)
{
        return buf_append(out, data, size) < 0 ? -1 : 0;
}

static int append_json(struct buf *out, const json_t *value)
{
        return json_dump_callback(value, append_piece, out, JSON_COMPACT | JSON_ENCODE_ANY);
}

static int append_text(struct buf *out, const char *text)
{
        return buf_append(out, text, strlen(text));
}

static int build_error(const json_t *id, json_t *data, struct buf *out)
{
        const char *message = json_string_value(json_object_get(data, "message"));
        struct cloche_err e;

        return rpc_error(json_incref((json_t *)id), THREW, message ? message : "no memory", data, out, &e) < 0 ? -1 : 0;
}

/* Write the value's text, at most as much as there is room for. -1: over the limit. */
static int write_value(struct agent_reply *reply, struct buf *ret)
{
        json_t *value = reply->value;

        *ret = BUF_INIT(reply->result_bytes - reply->attachments.size);
        return value ? append_json(ret, value) : buf_append(ret, "null", 4);
}

static int build_result(const json_t *id, const struct agent_reply *reply, const struct buf *value, struct buf *out)
{
        _cleanup_buf_ struct buf text = BUF_INIT(FRAME_JSON_BYTES_MAX);
        const char *source = reply->signature_source ? reply->signature_source : "convention";
        struct cloche_err e;

        if (append_text(&text, "{\"jsonrpc\":\"2.0\",\"id\":") < 0 || append_json(&text, id) < 0 ||
            append_text(&text, reply->is_build ? ",\"result\":{\"artifact\":" : ",\"result\":{\"value\":") < 0 ||
            buf_append(&text, value->data, value->size) < 0 ||
            (!reply->is_build && (append_text(&text, ",\"signatureSource\":\"") < 0 || append_text(&text, source) < 0 ||
                                  append_text(&text, "\"") < 0)) ||
            append_text(&text, "}}") < 0)
                return -1;
        return frame_build(out, text.data, text.size, reply->attachments.data, reply->attachments.size, &e) < 0 ? -1
                                                                                                                : 0;
}

int reply_build(const json_t *id, struct agent_reply *reply, const struct agent_language *language, struct buf *out)
{
        _cleanup_buf_ struct buf value = BUF_INIT(0);
        struct cloche_err e;

        if (!reply->error && reply->value && value_check(reply->value, reply->attachments.size, &e) < 0)
                agent_throw(reply, language->refused ? language->refused : "TypeError", NULL, "%s", e.msg);
        if (reply->is_too_large || (!reply->error && write_value(reply, &value) < 0))
                agent_throw(reply, language->too_large ? language->too_large : "ValueError", NULL,
                            "the result is over the limit of %zu bytes (resultBytes)", reply->result_bytes);
        if (!reply->error)
                return build_result(id, reply, &value, out);
        if (reply->signature_source)
                json_object_set_new(reply->error, "signatureSource", json_string(reply->signature_source));
        return build_error(id, json_incref(reply->error), out);
}

void reply_done(struct agent_reply *reply)
{
        json_decref(reply->value);
        json_decref(reply->error);
        buf_done(&reply->attachments);
        *reply = (struct agent_reply){0};
}
