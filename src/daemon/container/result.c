/* Converts displays of the core to results of the clients: one event with all forms of a value.
 * Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include <string.h>

#define CHART "application/vnd.cloche.chart+json"

/* -- values ---------------------------------------------------------------------------------------------------- */

static json_t *base64_of(const json_t *value, const struct buf *attachments)
{
        const char *bytes;
        size_t size;

        return door_bytes(value, attachments, &bytes, &size) ? door_base64(bytes, size) : json_null();
}

static json_t *plain_of(const json_t *value, const struct buf *attachments);

static json_t *null_of(const json_t *value, const struct buf *attachments)
{
        (void)value;
        (void)attachments;
        return json_null();
}

/* The text of a date or a large integer, or the members of a set or a map. */
static json_t *inside_of(const json_t *value, const struct buf *attachments)
{
        return plain_of(json_object_get(value, "v"), attachments);
}

static json_t *number_of(const json_t *value, const struct buf *attachments)
{
        const char *text = json_string_value(json_object_get(value, "v"));

        (void)attachments;
        return text && strcmp(text, "-0") == 0 ? json_real(-0.0) : json_null(); /* like JSON.stringify */
}

/* An ordinary object with a key that the wire format reserves. */
static json_t *object_of(const json_t *value, const struct buf *attachments)
{
        const json_t *pairs = json_object_get(value, "v");
        json_t *object = json_object();

        for (size_t i = 0; i < json_array_size(pairs); i++) {
                json_t *key = json_array_get(json_array_get(pairs, i), 0);

                if (json_is_string(key) && strlen(json_string_value(key)) == json_string_length(key))
                        door_put(object, json_string_value(key),
                                 plain_of(json_array_get(json_array_get(pairs, i), 1), attachments));
        }
        return object;
}

/* Values that JSON cannot express (spec/values.md), and their conversion. Others are null. */
static const struct {
        const char *tag;
        json_t *(*read)(const json_t *value, const struct buf *attachments);
} tags[] = {
        {"array", base64_of}, {"bigint", inside_of}, {"buffer", base64_of}, {"bytes", base64_of}, {"date", inside_of},
        {"map", inside_of},   {"number", number_of}, {"object", object_of}, {"set", inside_of},
};

static json_t *tagged_of(const char *tag, const json_t *value, const struct buf *attachments)
{
        for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
                if (strcmp(tags[i].tag, tag) == 0)
                        return tags[i].read(value, attachments);
        return null_of(value, attachments);
}

/* Return a new reference. NULL: no value, or out of memory. The depth was checked on receipt. */
static json_t *plain_of(const json_t *value, const struct buf *attachments)
{
        const char *tag = json_string_value(json_object_get(value, "$")), *name;
        json_t *copy, *member;

        if (tag)
                return tagged_of(tag, value, attachments);
        if (json_is_array(value)) {
                copy = json_array();
                for (size_t i = 0; i < json_array_size(value); i++)
                        json_array_append_new(copy, plain_of(json_array_get(value, i), attachments));
                return copy;
        }
        if (!json_is_object(value))
                return json_incref((json_t *)value);
        copy = json_object();
        json_object_foreach ((json_t *)value, name, member)
                door_put(copy, name, plain_of(member, attachments));
        return copy;
}

static int is_bytes(const json_t *value)
{
        const char *tag = json_string_value(json_object_get(value, "$"));

        return tag && strcmp(tag, "bytes") == 0;
}

/* Return a form that is text; a value that is not bytes is kept as it is. */
static json_t *text_of(const json_t *value, const struct buf *attachments)
{
        return is_bytes(value) ? door_string(value, attachments) : plain_of(value, attachments);
}

/* -- charts ---------------------------------------------------------------------------------------------------- */

static json_t *chart_of(const json_t *value, const struct buf *attachments);

/* A superchart has several axes, each of which is a chart. */
static void unfold_superchart(json_t *chart, const struct buf *attachments)
{
        json_t *elements = json_object_get(chart, "elements"), *charts = json_array();
        const char *type = json_string_value(json_object_get(chart, "type"));

        for (size_t i = 0; type && strcmp(type, "superchart") == 0 && i < json_array_size(elements); i++)
                json_array_append_new(charts, chart_of(json_array_get(elements, i), attachments));
        if (json_array_size(charts) > 0)
                json_object_set(chart, "elements", charts);
        json_decref(charts);
}

/* The clients' charts have fewer members: {type, title, data, layout}. A chart of a type unknown to
 * them is put into data as a whole. The depth was checked on receipt. */
static json_t *chart_of(const json_t *value, const struct buf *attachments)
{
        static const char *const types[] = {"line", "bar", "scatter", "pie", "histogram", "heatmap", "superchart"};
        json_t *chart = plain_of(value, attachments), *elements, *described = NULL;
        const char *type = json_string_value(json_object_get(chart, "type"));

        unfold_superchart(chart, attachments);
        elements = json_object_get(chart, "elements");
        for (size_t i = 0; type && elements && i < sizeof(types) / sizeof(types[0]); i++)
                if (strcmp(type, types[i]) == 0)
                        described = json_pack("{s:s, s:O}", "type", type, "data", elements);
        if (!described)
                described = json_pack("{s:s, s:O?}", "type", "unknown", "data", chart);
        door_put(described, "title", json_incref(json_object_get(chart, "title")));
        if (json_object_get(described, "data") == elements && json_is_object(chart)) {
                json_object_del(chart, "type");
                json_object_del(chart, "title");
                json_object_del(chart, "elements");
                json_object_set(described, "layout", chart);
        }
        json_decref(chart);
        return described;
}

/* -- displays -------------------------------------------------------------------------------------------------- */

static const struct {
        const char *mime, *member;
        json_t *(*read)(const json_t *value, const struct buf *attachments);
} forms[] = {
        {"text/plain", "text", text_of},
        {"text/html", "html", text_of},
        {"image/png", "png", plain_of},
        {"image/jpeg", "jpeg", plain_of},
        {"image/svg+xml", "svg", text_of},
        {"application/json", "json", plain_of},
        {"text/latex", "latex", text_of},
        {"text/markdown", "markdown", text_of},
        {"application/javascript", "javascript", text_of},
        {"application/pdf", "pdf", plain_of},
        {CHART, "chart", chart_of},
};

/* Text is dropped if there is another form; beside a table it stays, as in the original image. */
static void drop_text(json_t *event)
{
        static const char *const others[] = {"png", "jpeg", "svg", "json", "latex", "markdown", "javascript"};

        for (size_t i = 0; !json_object_get(event, "html") && i < sizeof(others) / sizeof(others[0]); i++)
                if (json_object_get(event, others[i]))
                        json_object_del(event, "text");
}

/* True if the clients have a member for this type. */
static int put_form(json_t *event, const char *mime, const json_t *value, const struct buf *attachments)
{
        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
                if (strcmp(forms[i].mime, mime) == 0) {
                        door_put(event, forms[i].member, forms[i].read(value, attachments));
                        return 1;
                }
        return 0;
}

json_t *container_code_result(const json_t *display, const struct buf *attachments)
{
        json_t *event = json_pack("{s:s}", "type", "result"), *others = json_object(), *value;
        json_t *metadata = plain_of(json_object_get(display, "metadata"), attachments);
        const char *mime;

        json_object_foreach (json_object_get(display, "data"), mime, value)
                if (!put_form(event, mime, value, attachments))
                        door_put(others, mime, plain_of(value, attachments));
        drop_text(event);
        if (json_object_size(others) > 0)
                json_object_set(event, "data", others);
        json_decref(others);
        return door_put(event, "metadata", metadata ? metadata : json_object());
}
