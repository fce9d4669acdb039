/* Runs in: the engine, cloched, the CLI and cloche-files. */
#include "value.h"

#include "base/array.h"
#include "base/err.h"
#include "base/utf8.h"
#include "base64.h"
#include "frame.h"
#include "json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIGINT_DIGITS_MAX (1u << 20)
#define SAFE_INTEGER_MAX INT64_C(9007199254740991)
#define TEXT_BYTES_MAX (256u << 20)
#define PATH_BYTES_MAX 116
#define NAME_BYTES_MAX 40
#define CLASS_BYTES_MAX 64
#define INDEX_MAX UINT32_C(4294967294) /* the greatest key that a JavaScript object sorts as a number */

struct range {
        uint64_t at, size;
};

/* An open class form: it contains nothing that a reference could name. */
struct carrier {
        size_t number;
        const struct carrier *outer;
};

/* One pass over a tree: the position, and the attachments and references seen so far. */
struct walk {
        enum value_form form;
        enum cloche_code code; /* error code of refusals */
        char path[PATH_BYTES_MAX + sizeof("…")];
        size_t path_size;
        int depth;
        size_t opened; /* containers, as references number them */
        const struct carrier *carriers;
        unsigned referring : 1, disordered : 1;
        const unsigned char *attachments; /* of a frame */
        uint64_t attachments_size;
        size_t attached;      /* number of attachments seen */
        uint64_t named_size;  /* their bytes together */
        struct range *ranges; /* of a frame: the nonempty ones */
        size_t range_count, range_room;
        struct cloche_err *e;
};

static int refuse(struct walk *w, const char *what)
{
        return err_set(w->e, w->code, "$%s: %s", w->path, what);
}

/* A caller who writes JSON by hand may have intended an ordinary key. */
static int refuse_tag(struct walk *w, const char *what)
{
        const char *way_out =
                w->form == VALUE_TEXT ? "; a key \"$\" of your own: {\"$\":\"object\",\"v\":[[\"$\",VALUE]]}" : "";

        return err_set(w->e, w->code, "$%s: %s%s", w->path, what, way_out);
}

static int no_memory(struct walk *w)
{
        return err_os(w->e, CLOCHE_E_RESOURCE, ENOMEM, "convert a value");
}

/* Called for each container as it opens: the agents count them in the same way. */
static int open_container(struct walk *w)
{
        if (w->depth > VALUE_DEPTH_MAX)
                return err_set(w->e, w->code, "$%s: nested deeper than %d: send it as text, or as a flat list", w->path,
                               VALUE_DEPTH_MAX);
        w->opened++;
        return 0;
}

/* Make an untrusted name fit for printing: cut between characters, without control characters. */
static const char *printable(const char *name, char ret[NAME_BYTES_MAX + 1])
{
        size_t size = utf8_cut(name, strnlen(name, NAME_BYTES_MAX + 1), NAME_BYTES_MAX);

        for (size_t i = 0; i < size; i++)
                ret[i] = (unsigned char)name[i] < ' ' || name[i] == 0x7f ? '?' : name[i];
        ret[size] = '\0';
        return ret;
}

/* Paths are for people: a long one is cut behind a step. Returns the size to restore. */
static size_t enter(struct walk *w, const char *step)
{
        size_t before = w->path_size, size = strlen(step);

        if (before + size <= PATH_BYTES_MAX) {
                memcpy(w->path + before, step, size + 1);
                w->path_size = before + size;
        } else if (before <= PATH_BYTES_MAX) {
                strcpy(w->path + before, "…");
                w->path_size = sizeof(w->path) - 1; /* no step fits behind it */
        }
        return before;
}

static void leave(struct walk *w, size_t before)
{
        w->path_size = before;
        w->path[before] = '\0';
}

static int is_identifier(const char *key)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_$0123456789";

        return *key && !strchr("0123456789", *key) && !key[strspn(key, letters)];
}

static int convert(struct walk *w, const json_t *value, json_t **ret);
static int convert_leaf(struct walk *w, const json_t *value, json_t **ret);
static int convert_members(struct walk *w, const json_t *value, json_t **ret);

static int convert_key(struct walk *w, const json_t *value, const char *key, json_t **ret)
{
        char name[NAME_BYTES_MAX + 1], step[NAME_BYTES_MAX + 8];
        size_t before;
        int r;

        printable(key, name);
        if (is_identifier(key))
                snprintf(step, sizeof(step), ".%s", name);
        else
                snprintf(step, sizeof(step), "[\"%s\"]", name);
        before = enter(w, step);
        r = convert(w, value, ret);
        leave(w, before);
        return r;
}

static int convert_index(struct walk *w, const json_t *value, size_t index, json_t **ret)
{
        char step[32];
        size_t before;
        int r;

        snprintf(step, sizeof(step), "[%zu]", index);
        before = enter(w, step);
        r = convert(w, value, ret);

        leave(w, before);
        return r;
}

static int convert_array(struct walk *w, const json_t *value, json_t **ret)
{
        json_t *array = json_array(), *item;

        for (size_t i = 0; array && i < json_array_size(value); i++) {
                int r = convert_index(w, json_array_get(value, i), i, &item);

                if (r < 0 || json_array_append_new(array, item) < 0) {
                        json_decref(array);
                        return r < 0 ? r : no_memory(w);
                }
        }
        *ret = array;
        return array ? 0 : no_memory(w);
}

/* -- tagged forms --------------------------------------------------------------------------------------------- */

static int compare_ranges(const void *a, const void *b)
{
        const struct range *x = a, *y = b;

        return x->at < y->at ? -1 : x->at > y->at;
}

static const char shared_bytes[] = "two values share bytes of the attachments";

static int count_attachment(struct walk *w)
{
        return w->attached++ < VALUE_ATTACHMENTS_MAX
                       ? 0
                       : refuse(w, "more than 65536 values of bytes: join them, or pass them as files");
}

static int count_bytes(struct walk *w, uint64_t size)
{
        w->named_size += size;
        return w->named_size <= FRAME_BYTES_MAX ? 0 : -ENOBUFS;
}

static int note_range(struct walk *w, uint64_t at, uint64_t size)
{
        w->named_size += size;
        /* More bytes named than sent: checked before the bytes are copied repeatedly. */
        if (w->named_size > w->attachments_size)
                return refuse(w, shared_bytes);
        if (size == 0)
                return 0;
        if (ARRAY_GROW(w->ranges, w->range_count, w->range_room) < 0)
                return no_memory(w);
        w->ranges[w->range_count++] = (struct range){at, size};
        return 0;
}

static int check_overlap(struct walk *w)
{
        if (w->range_count > 1)
                qsort(w->ranges, w->range_count, sizeof(w->ranges[0]), compare_ranges);
        for (size_t i = 1; i < w->range_count; i++)
                if (w->ranges[i - 1].at + w->ranges[i - 1].size > w->ranges[i].at)
                        return refuse(w, shared_bytes);
        return 0;
}

static const struct {
        const char *name;
        unsigned size;
} element_types[] = {
        {"i8", 1},  {"u8", 1},  {"u8c", 1}, {"i16", 2}, {"u16", 2}, {"i32", 4},
        {"u32", 4}, {"i64", 8}, {"u64", 8}, {"f32", 4}, {"f64", 8},
};

/* A string may hold NUL, so all of it is compared. */
static int is_text(const json_t *value, const char *text)
{
        return json_is_string(value) && json_string_length(value) == strlen(text) &&
               memcmp(json_string_value(value), text, strlen(text)) == 0;
}

static unsigned element_size(const json_t *type)
{
        for (size_t i = 0; i < sizeof(element_types) / sizeof(element_types[0]); i++)
                if (is_text(type, element_types[i].name))
                        return element_types[i].size;
        return 0;
}

static int keep_bytes(struct walk *w, json_t *made, const void *bytes, uint64_t size)
{
        json_t *held = json_stringn_nocheck(size > 0 ? bytes : "", size);

        return json_object_set_new(made, VALUE_HELD_BYTES, held) < 0 ? no_memory(w) : 0;
}

static int bytes_from_text(struct walk *w, const json_t *value, json_t *made, uint64_t *ret_size)
{
        _cleanup_buf_ struct buf bytes = BUF_INIT(FRAME_BYTES_MAX);
        const json_t *text = json_object_get(value, "b64");
        int r;

        if (!json_is_string(text))
                return refuse(w, "\"b64\" must be a string");
        r = count_attachment(w);
        if (r < 0)
                return r;
        r = base64_decode(&bytes, json_string_value(text), json_string_length(text));
        if (r == -EINVAL)
                return refuse(w, "\"b64\" is not base64");
        if (r == -ENOMEM)
                return no_memory(w);
        if (r == 0)
                r = count_bytes(w, bytes.size);
        if (r < 0)
                return err_set(w->e, CLOCHE_E_TOO_LARGE,
                               "$%s: the bytes of all values together are too many: pass some as files", w->path);
        *ret_size = bytes.size;
        return keep_bytes(w, made, bytes.data, bytes.size);
}

static int bytes_from_frame(struct walk *w, const json_t *value, json_t *made, uint64_t *ret_size)
{
        const json_t *at = json_object_get(value, "at"), *n = json_object_get(value, "n");
        uint64_t offset, size;
        int r;

        if (!json_is_integer(at) || !json_is_integer(n) || json_integer_value(at) < 0 || json_integer_value(n) < 0)
                return refuse(w, "\"at\" and \"n\" must be integers from 0");
        offset = (uint64_t)json_integer_value(at);
        size = (uint64_t)json_integer_value(n);
        if (offset > w->attachments_size || size > w->attachments_size - offset)
                return refuse(w, "the range is outside the attachments");
        r = count_attachment(w);
        if (r == 0)
                r = note_range(w, offset, size);
        if (r < 0)
                return r;
        *ret_size = size;
        return w->attachments ? keep_bytes(w, made, w->attachments + offset, size) : 0;
}

static int convert_bytes(struct walk *w, const json_t *value, json_t *made)
{
        json_t *type = json_object_get(value, "t");
        const json_t *tag = json_object_get(value, "$");
        int typed = is_text(tag, "array");
        unsigned size = typed ? element_size(type) : is_text(tag, "utf16") ? 2 : 1;
        uint64_t have = 0;
        int r;

        if (!size)
                return refuse(w, "\"t\" must be one of i8 u8 u8c i16 u16 i32 u32 i64 u64 f32 f64");
        if (json_object_size(value) != (w->form == VALUE_TEXT ? 2u : 3u) + (unsigned)typed)
                return refuse_tag(w, w->form == VALUE_TEXT ? "bytes have \"b64\" and no other key"
                                                           : "bytes have \"at\", \"n\" and no other key");
        r = w->form == VALUE_TEXT ? bytes_from_text(w, value, made, &have) : bytes_from_frame(w, value, made, &have);
        if (r < 0)
                return r;
        if (have % size)
                return refuse(w, "the bytes are no whole number of elements");
        if (!typed && size == 2 && have > TEXT_BYTES_MAX)
                return refuse(w, "a string of more than 256 MiB: pass it as a file");
        if (typed && json_object_set(made, "t", type) < 0)
                return no_memory(w);
        return 0;
}

static int convert_number(struct walk *w, const json_t *v, json_t **ret)
{
        static const char *const names[] = {"NaN", "Infinity", "-Infinity", "-0"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (is_text(v, names[i])) {
                        *ret = json_incref((json_t *)v);
                        return 0;
                }
        return refuse(w, "\"v\" of a number must be NaN, Infinity, -Infinity or -0");
}

static int convert_bigint(struct walk *w, const json_t *v, json_t **ret)
{
        const char *text = json_string_value(v);
        size_t size = json_string_length(v), digits;

        if (text && *text == '-') {
                text++;
                size--;
        }
        digits = text ? strspn(text, "0123456789") : 0;
        if (!text || digits != size || digits == 0 || digits > BIGINT_DIGITS_MAX ||
            (text[0] == '0' && json_string_length(v) > 1))
                return refuse(w, "\"v\" of a bigint must be decimal digits without leading zeros, at most 2^20");
        *ret = json_incref((json_t *)v);
        return 0;
}

static int two_digits(const char **at, int least, int most)
{
        const char *p = *at;
        int value;

        if (p[0] < '0' || p[0] > '9' || p[1] < '0' || p[1] > '9')
                return 0;
        value = (p[0] - '0') * 10 + p[1] - '0';
        *at += 2;
        return value >= least && value <= most;
}

static int one_of(const char **at, const char *set)
{
        return **at && strchr(set, **at) ? ((*at)++, 1) : 0;
}

static int is_day(const char **at)
{
        static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
        const char *begin = *at;
        int year, month, leap;

        if (!two_digits(at, 0, 99) || !two_digits(at, 0, 99) || !one_of(at, "-") || !two_digits(at, 1, 12) ||
            !one_of(at, "-"))
                return 0;
        year = (begin[0] - '0') * 1000 + (begin[1] - '0') * 100 + (begin[2] - '0') * 10 + begin[3] - '0';
        month = (begin[5] - '0') * 10 + begin[6] - '0';
        leap = month == 2 && ((year % 4 == 0 && year % 100 != 0) || year % 400 == 0);
        return year > 0 && two_digits(at, 1, days[month - 1] + leap);
}

/* RFC 3339, the offset optional, a day alone allowed. */
static int is_date(const char *at)
{
        if (!is_day(&at))
                return 0;
        if (!*at)
                return 1;
        if (!one_of(&at, "T") || !two_digits(&at, 0, 23) || !one_of(&at, ":") || !two_digits(&at, 0, 59) ||
            !one_of(&at, ":") || !two_digits(&at, 0, 59))
                return 0;
        if (one_of(&at, ".")) {
                size_t digits = strspn(at, "0123456789");

                if (digits < 1 || digits > 9)
                        return 0;
                at += digits;
        }
        if (one_of(&at, "Z"))
                return !*at;
        if (one_of(&at, "+-"))
                return two_digits(&at, 0, 23) && one_of(&at, ":") && two_digits(&at, 0, 59) && !*at;
        return !*at;
}

static int convert_date(struct walk *w, const json_t *v, json_t **ret)
{
        if (!json_is_null(v) && (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v) ||
                                 !is_date(json_string_value(v))))
                return refuse(w, "\"v\" of a date must be an RFC 3339 date or time, or null");
        *ret = json_incref((json_t *)v);
        return 0;
}

static int convert_set(struct walk *w, const json_t *v, json_t **ret)
{
        return json_is_array(v) ? convert_array(w, v, ret) : refuse(w, "\"v\" of a set must be an array");
}

/* A string that is not Unicode: its UTF-16 has a lone surrogate. */
static int is_utf16(const json_t *value)
{
        return is_text(json_object_get(value, "$"), "utf16");
}

/* The pairs are not containers of the value. A string key may appear only once: no language could
 * hold both. */
static int convert_pair(struct walk *w, const json_t *pair, size_t index, json_t *seen, json_t **ret)
{
        const json_t *key = json_array_get(pair, 0);
        const char *text = json_string_value(key);
        size_t size = json_string_length(key), before;
        char step[32];
        int r;

        snprintf(step, sizeof(step), "[%zu]", index);
        before = enter(w, step);
        if (text && json_object_getn(seen, text, size))
                r = refuse(w, "this key is there twice");
        else if (text && json_object_setn_new_nocheck(seen, text, size, json_true()) < 0)
                r = no_memory(w);
        else
                r = convert_array(w, pair, ret);
        leave(w, before);
        return r;
}

static int convert_pairs(struct walk *w, const json_t *v, json_t *seen, json_t *made)
{
        json_t *pair;

        for (size_t i = 0; i < json_array_size(v); i++) {
                int r = convert_pair(w, json_array_get(v, i), i, seen, &pair);

                if (r < 0 || json_array_append_new(made, pair) < 0)
                        return r < 0 ? r : no_memory(w);
        }
        return 0;
}

static int convert_map(struct walk *w, const json_t *v, json_t **ret)
{
        json_t *seen, *made;
        int r;

        for (size_t i = 0; i < json_array_size(v); i++)
                if (json_array_size(json_array_get(v, i)) != 2)
                        return refuse(w, "\"v\" of a map must be an array of pairs");
        if (!json_is_array(v))
                return refuse(w, "\"v\" of a map must be an array of pairs");
        seen = json_object();
        made = json_array();
        r = seen && made ? convert_pairs(w, v, seen, made) : no_memory(w);
        json_decref(seen);
        if (r == 0)
                *ret = made;
        else
                json_decref(made);
        return r;
}

static int convert_escaped(struct walk *w, const json_t *v, json_t **ret)
{
        for (size_t i = 0; i < json_array_size(v); i++) {
                const json_t *pair = json_array_get(v, i);

                if (json_array_size(pair) == 2 && !json_is_string(json_array_get(pair, 0)) &&
                    !is_utf16(json_array_get(pair, 0)))
                        return refuse(w, "keys of an object must be strings");
        }
        return convert_map(w, v, ret);
}

/* The fields of an error: an object in either form, but not a container. */
static int convert_fields(struct walk *w, const json_t *fields, json_t **ret)
{
        const json_t *tag = json_object_get(fields, "$"), *v = json_object_get(fields, "v");
        json_t *pairs;
        int r;

        if (!json_is_object(fields) || (tag && (!is_text(tag, "object") || !v || json_object_size(fields) != 2)))
                return refuse(w, "\"fields\" of an error must be an object");
        if (!tag)
                return convert_members(w, fields, ret);
        r = convert_escaped(w, v, &pairs);
        if (r == 0)
                *ret = json_pack("{s:s, s:o}", "$", "object", "v", pairs);
        return r < 0 || *ret ? r : no_memory(w);
}

static int convert_error(struct walk *w, const json_t *v, json_t **ret)
{
        static const char *const names[] = {"name", "message", "stack"};
        const json_t *fields = json_object_get(v, "fields");
        json_t *made = json_object(), *item;
        size_t known = 0;
        int r = made ? 0 : no_memory(w);

        for (size_t i = 0; r == 0 && i < 3; i++) {
                const json_t *text = json_object_get(v, names[i]);

                known += text != NULL;
                if (!json_is_string(text) && !is_utf16(text) && (text || i < 2))
                        r = refuse(w, "an error has strings as \"name\", \"message\" and perhaps \"stack\"");
                else if (text && (r = convert(w, text, &item)) == 0 && json_object_set_new(made, names[i], item) < 0)
                        r = no_memory(w);
        }
        if (r == 0 && json_object_size(v) != known + (fields != NULL))
                r = refuse(w, "an error has \"name\", \"message\", \"stack\", \"fields\" and nothing else");
        if (r == 0 && fields && (r = convert_fields(w, fields, &item)) == 0 &&
            json_object_set_new(made, "fields", item) < 0)
                r = no_memory(w);
        if (r == 0)
                *ret = made;
        else
                json_decref(made);
        return r;
}

static int convert_ref(struct walk *w, const json_t *value, json_t *made)
{
        json_t *n = json_object_get(value, "n");

        if (json_object_size(value) != 2 || !json_is_integer(n))
                return refuse_tag(w, "a reference has the integer \"n\" and no other key");
        if (json_integer_value(n) < 0 || (uint64_t)json_integer_value(n) >= w->opened)
                return refuse(w, "a reference to what is not opened before it");
        for (const struct carrier *c = w->carriers; c; c = c->outer)
                if ((uint64_t)json_integer_value(n) == c->number)
                        return refuse(w, "a reference to the class it is in");
        w->referring = 1;
        if (w->disordered)
                return refuse(w, "a reference in a value with objects whose keys are not in JavaScript's order");
        return json_object_set(made, "n", n) < 0 ? no_memory(w) : 0;
}

static int is_flags(const json_t *flags)
{
        const char *text = json_string_value(flags);

        if (!text || strspn(text, "dgimsuvy") != json_string_length(flags))
                return 0;
        for (const char *at = text; *at; at++)
                if (strchr(at + 1, *at))
                        return 0;
        return 1;
}

static int convert_regexp(struct walk *w, const json_t *value, json_t *made)
{
        json_t *source = json_object_get(value, "source"), *flags = json_object_get(value, "flags"), *copy;
        int r;

        if (json_object_size(value) != 3 || !json_is_string(source) || !is_flags(flags))
                return refuse(w, "a regexp has the strings \"source\" and \"flags\" (of dgimsuvy, each once) and no "
                                 "other key");
        r = convert_leaf(w, source, &copy);
        if (r < 0)
                return r;
        return json_object_set_new(made, "source", copy) < 0 || json_object_set(made, "flags", flags) < 0 ? no_memory(w)
                                                                                                          : 0;
}

static int is_class(const json_t *name)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        size_t size = json_string_length(name);

        return size >= 1 && size <= CLASS_BYTES_MAX && strspn(json_string_value(name), letters) == size;
}

static int convert_class(struct walk *w, const json_t *value, json_t *made)
{
        json_t *name = json_object_get(value, "t"), *v = json_object_get(value, "v"), *carried;
        struct carrier here = {w->opened, w->carriers};
        int r = open_container(w);

        if (r < 0)
                return r;
        if (json_object_size(value) != 3 || !v || !is_class(name))
                return refuse_tag(w, "a class has \"t\", 1 to 64 letters, \"v\" and no other key");
        w->carriers = &here;
        r = convert(w, v, &carried);
        w->carriers = here.outer;
        if (r < 0)
                return r;
        return json_object_set_new(made, "v", carried) < 0 || json_object_set(made, "t", name) < 0 ? no_memory(w) : 0;
}

static const struct {
        const char *name;
        int (*convert)(struct walk *w, const json_t *v, json_t **ret);
        int is_container;
} tags[] = {
        {"number", convert_number, 0},  {"bigint", convert_bigint, 0}, {"date", convert_date, 0},
        {"set", convert_set, 1},        {"map", convert_map, 1},       {"error", convert_error, 1},
        {"object", convert_escaped, 1},
};

static int convert_v(struct walk *w, const json_t *value, const json_t *tag, json_t *made)
{
        char name[NAME_BYTES_MAX + 1], text[NAME_BYTES_MAX + 32];

        for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
                json_t *v;
                int r;

                if (!is_text(tag, tags[i].name))
                        continue;
                if (json_object_size(value) != 2 || !json_object_get(value, "v"))
                        return refuse_tag(w, "this tag has \"v\" and no other key");
                r = tags[i].is_container ? open_container(w) : 0;
                if (r < 0)
                        return r;
                r = tags[i].convert(w, json_object_get(value, "v"), &v);
                if (r < 0)
                        return r;
                return json_object_set_new(made, "v", v) < 0 ? no_memory(w) : 0;
        }
        snprintf(text, sizeof(text), "there is no tag \"%s\"", printable(json_string_value(tag), name));
        return refuse_tag(w, text);
}

static int convert_tagged(struct walk *w, const json_t *value, json_t **ret)
{
        json_t *tag = json_object_get(value, "$");
        json_t *made = json_object();
        int r;

        if (!json_is_string(tag))
                r = refuse_tag(w, "\"$\" must name a tag");
        else if (!made || json_object_set(made, "$", tag) < 0)
                r = no_memory(w);
        else if (is_text(tag, "bytes") || is_text(tag, "buffer") || is_text(tag, "array") || is_text(tag, "utf16"))
                r = convert_bytes(w, value, made);
        else if (is_text(tag, "ref"))
                r = convert_ref(w, value, made);
        else if (is_text(tag, "regexp"))
                r = convert_regexp(w, value, made);
        else if (is_text(tag, "class"))
                r = convert_class(w, value, made);
        else if (is_text(tag, "undefined") || is_text(tag, "hole"))
                r = json_object_size(value) == 1 ? 0 : refuse_tag(w, "undefined and a hole have no other key");
        else
                r = convert_v(w, value, tag, made);
        if (r < 0) {
                json_decref(made);
                return r;
        }
        *ret = made;
        return 0;
}

/* -- everything ----------------------------------------------------------------------------------------------- */

/* Return the number of a key that JavaScript sorts as a number, or -1. */
static int64_t index_of(const char *key)
{
        size_t size;
        uint64_t number;

        if (*key < '0' || *key > '9') /* nearly always true */
                return -1;
        size = strspn(key, "0123456789");
        if (key[size] || size > 10 || (key[0] == '0' && size > 1))
                return -1;
        number = strtoull(key, NULL, 10);
        return number <= INDEX_MAX ? (int64_t)number : -1;
}

/* JavaScript reads indices first, in ascending order: with another order it would number containers
 * differently. */
static int check_order(struct walk *w, const char *key, int64_t *last)
{
        int64_t index = index_of(key);

        w->disordered |= index >= 0 && index < *last;
        *last = index >= 0 ? index : INT64_MAX;
        if (w->disordered && w->referring)
                return refuse(w, "an object in a value with references must have its keys in JavaScript's order");
        return 0;
}

static int convert_members(struct walk *w, const json_t *value, json_t **ret)
{
        json_t *object = json_object(), *item, *member;
        int64_t last = -1;
        const char *key;

        json_object_foreach ((json_t *)value, key, member) {
                int r = check_order(w, key, &last);

                if (r == 0)
                        r = convert_key(w, member, key, &item);
                if (r < 0 || json_object_set_new_nocheck(object, key, item) < 0) {
                        json_decref(object);
                        return r < 0 ? r : no_memory(w);
                }
        }
        *ret = object;
        return object ? 0 : no_memory(w);
}

static int convert_object(struct walk *w, const json_t *value, json_t **ret)
{
        int r;

        if (json_object_get(value, "$"))
                return convert_tagged(w, value, ret);
        r = open_container(w);
        return r < 0 ? r : convert_members(w, value, ret);
}

static int convert_leaf(struct walk *w, const json_t *value, json_t **ret)
{
        if (json_is_integer(value) &&
            (json_integer_value(value) > SAFE_INTEGER_MAX || json_integer_value(value) < -SAFE_INTEGER_MAX))
                return refuse(w, "an integer outside -(2^53-1) to 2^53-1 must be a bigint");
        if (json_string_length(value) > TEXT_BYTES_MAX)
                return refuse(w, "a string of more than 256 MiB: pass it as a file");
        *ret = json_incref((json_t *)value);
        return 0;
}

static int convert(struct walk *w, const json_t *value, json_t **ret)
{
        int r;

        w->depth++;
        if (json_is_array(value)) {
                r = open_container(w);
                if (r == 0)
                        r = convert_array(w, value, ret);
        } else if (json_is_object(value)) {
                r = convert_object(w, value, ret);
        } else {
                r = convert_leaf(w, value, ret);
        }
        w->depth--;
        return r;
}

/* -- the forms ------------------------------------------------------------------------------------------------ */

static int read_whole(struct walk *w, const json_t *value, json_t **ret)
{
        json_t *made = NULL;
        int r = convert(w, value, &made);

        if (r == 0)
                r = check_overlap(w);
        if (r == 0)
                *ret = made;
        else
                json_decref(made);
        free(w->ranges);
        return r;
}

int value_read(const json_t *value, enum value_form form, const void *attachments, size_t attachments_size,
               json_t **ret, struct cloche_err *e)
{
        struct walk w = {
                .form = form,
                .code = form == VALUE_TEXT ? CLOCHE_E_INVALID_JSON : CLOCHE_E_PROTOCOL,
                .attachments = attachments ? attachments : (const unsigned char *)"",
                .attachments_size = attachments_size,
                .e = e,
        };

        return read_whole(&w, value, ret);
}

int value_check(const json_t *value, size_t attachments_size, struct cloche_err *e)
{
        struct walk w = {.form = VALUE_FRAME, .code = CLOCHE_E_PROTOCOL, .attachments_size = attachments_size, .e = e};
        json_t *copy = NULL;
        int r = read_whole(&w, value, &copy);

        json_decref(copy);
        return r;
}

struct writing {
        enum value_form form;
        struct buf *attachments;
        int error; /* -ENOMEM, -ENOBUFS, -EINVAL */
};

static json_t *write_any(struct writing *w, const json_t *held);

static int write_place(json_t *made, size_t at, size_t size)
{
        return json_object_set_new(made, "at", json_integer((json_int_t)at)) < 0
                       ? -ENOMEM
                       : json_object_set_new(made, "n", json_integer((json_int_t)size));
}

static int write_held(struct writing *w, json_t *made, const json_t *bytes)
{
        _cleanup_buf_ struct buf text = BUF_INIT((size_t)2 << 30);
        const char *data = json_string_value(bytes);
        size_t size = json_string_length(bytes), at = w->form == VALUE_FRAME ? w->attachments->size : 0;
        int r = w->form == VALUE_FRAME ? buf_append(w->attachments, data, size) : base64_encode(&text, data, size);

        if (r < 0)
                return r;
        if (w->form == VALUE_FRAME)
                return write_place(made, at, size);
        return json_object_set_new(made, "b64", json_stringn_nocheck(text.data ? text.data : "", text.size));
}

static int write_text(struct writing *w, json_t *made, json_t *text)
{
        size_t at = w->form == VALUE_FRAME ? w->attachments->size : 0;
        int r;

        if (w->form == VALUE_TEXT)
                return json_object_set(made, "b64", text);
        r = base64_decode(w->attachments, json_string_value(text), json_string_length(text));
        return r < 0 ? r : write_place(made, at, w->attachments->size - at);
}

/* An object with a key "$" is a tag, so a user's key "$" is written in the escaped form. */
static int write_member(struct writing *w, json_t *made, int is_tag, const char *key, size_t key_size, json_t *member)
{
        if (is_tag && strcmp(key, VALUE_HELD_BYTES) == 0)
                return write_held(w, made, member);
        if (is_tag && strcmp(key, "b64") == 0)
                return write_text(w, made, member);
        return json_object_setn_new_nocheck(made, key, key_size, write_any(w, member));
}

static json_t *write_object(struct writing *w, const json_t *held)
{
        int is_tag = json_object_get(held, "$") != NULL, r = 0;
        json_t *made = json_object(), *member;
        const char *key;
        size_t size;

        if (!made)
                r = -ENOMEM;
        json_object_keylen_foreach ((json_t *)held, key, size, member)
                if (r == 0)
                        r = write_member(w, made, is_tag, key, size, member);
        if (r == 0)
                return made;
        if (!w->error)
                w->error = r == -ENOBUFS || r == -EINVAL ? r : -ENOMEM;
        json_decref(made);
        return NULL;
}

static json_t *write_array(struct writing *w, const json_t *held)
{
        json_t *made = json_array();

        for (size_t i = 0; made && i < json_array_size(held); i++)
                if (json_array_append_new(made, write_any(w, json_array_get(held, i))) < 0) {
                        json_decref(made);
                        made = NULL;
                }
        if (!made && !w->error)
                w->error = -ENOMEM;
        return made;
}

static json_t *write_any(struct writing *w, const json_t *held)
{
        if (w->error)
                return NULL;
        if (json_is_object(held))
                return write_object(w, held);
        return json_is_array(held) ? write_array(w, held) : json_incref((json_t *)held);
}

int value_write(const json_t *held, enum value_form form, struct buf *attachments, json_t **ret, struct cloche_err *e)
{
        struct writing w = {.form = form, .attachments = attachments};
        size_t before = attachments ? attachments->size : 0;
        json_t *made = write_any(&w, held);

        if (made) {
                *ret = made;
                return 0;
        }
        if (attachments)
                attachments->size = before;
        if (w.error == -ENOBUFS)
                return err_set(e, CLOCHE_E_TOO_LARGE,
                               "the bytes of all values together are too many: pass some as files");
        if (w.error == -EINVAL)
                return err_set(e, CLOCHE_E_PROTOCOL, "bytes among the values are not base64");
        return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "convert a value");
}

static int convert_form(const json_t *value, enum value_form from, const void *attachments, size_t attachments_size,
                        struct buf *out, json_t **ret, struct cloche_err *e)
{
        json_t *held = NULL;
        int r = value_read(value, from, attachments, attachments_size, &held, e);

        if (r == 0)
                r = value_write(held, from == VALUE_TEXT ? VALUE_FRAME : VALUE_TEXT, out, ret, e);
        json_decref(held);
        return r;
}

int value_text_to_frame(const json_t *value, struct buf *attachments, json_t **ret, struct cloche_err *e)
{
        return convert_form(value, VALUE_TEXT, NULL, 0, attachments, ret, e);
}

int value_frame_to_text(const json_t *value, const void *attachments, size_t attachments_size, json_t **ret,
                        struct cloche_err *e)
{
        return convert_form(value, VALUE_FRAME, attachments, attachments_size, NULL, ret, e);
}

char *value_dump(const json_t *held, size_t flags)
{
        json_t *text_form = NULL;
        char *text =
                value_write(held, VALUE_TEXT, NULL, &text_form, NULL) < 0 ? NULL : json_dump_text(text_form, flags);

        json_decref(text_form);
        return text;
}

/* -- errors --------------------------------------------------------------------------------------------------- */

json_t *value_failure_read(const json_t *failure, enum value_form form, const void *attachments,
                           size_t attachments_size)
{
        static const char *const values[] = {"exact", "fields"};
        json_t *made = json_copy((json_t *)failure);

        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
                const json_t *member = json_object_get(made, values[i]);
                json_t *held = NULL;
                int r = member ? value_read(member, form, attachments, attachments_size, &held, NULL) : 0;

                if (r < 0 || (member && json_object_set_new(made, values[i], held) < 0))
                        json_object_del(made, values[i]);
        }
        return made;
}
