/* Secrets of the API's clients, by name: their values go into headers that the network of a
 * sandbox sets, and into no answer. A file of the state directory keeps them. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "vault.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "e2b-secrets.json"
#define FILE_BYTES_MAX (8u << 20)
#define SECRETS_MAX 1000
#define NAME_BYTES_MAX 128
#define VALUE_BYTES_MAX 8192 /* of a header, which has other words too */
#define METADATA_MAX 32
#define METADATA_BYTES_MAX 8192
#define PAGE_MAX 100

/* -- the file ---------------------------------------------------------------------------------------------------- */

/* An array of {id, name, value, version, metadata, createdAt, updatedAt}. A file that cannot be
 * read is no empty one: the next change would end it. NULL: e says why. */
static json_t *all_of(const struct daemon *d, struct cloche_err *e)
{
        int r;

        if (d->e2b->secrets)
                return d->e2b->secrets;
        if (sandboxes_state_fd(d->sandboxes) < 0) {
                err_set(e, CLOCHE_E_STATE,
                        "secrets are kept in the daemon's state directory, and it has none: start it with --state-dir");
                return NULL;
        }
        r = sandboxes_state_read(d->sandboxes, FILE_NAME, FILE_BYTES_MAX, &d->e2b->secrets);
        if (r == -ENOENT)
                d->e2b->secrets = json_array();
        else if (r < 0)
                err_os(e, CLOCHE_E_RESOURCE, -r, "read " FILE_NAME " of the state directory");
        return d->e2b->secrets;
}

static json_t *find(json_t *all, const char *name)
{
        json_t *one;
        size_t i;

        json_array_foreach (all, i, one)
                if (strcmp(e2b_text(one, "name"), name) == 0 || strcmp(e2b_text(one, "id"), name) == 0)
                        return one;
        return NULL;
}

/* The file is written first, so that memory never has more than it. after: stolen. */
static int keep(struct daemon *d, json_t *after, struct cloche_err *e)
{
        char *text = json_dump_text(after, JSON_INDENT(1));
        int r = text ? sandboxes_state_write(d->sandboxes, FILE_NAME, text) : -ENOMEM;

        free(text);
        if (r < 0) {
                json_decref(after);
                return err_os(e, CLOCHE_E_RESOURCE, -r, "write " FILE_NAME " of the state directory");
        }
        json_decref(d->e2b->secrets);
        d->e2b->secrets = after;
        return 0;
}

/* -- requests ---------------------------------------------------------------------------------------------------- */

static json_t *describe(const json_t *one)
{
        return json_pack("{s:O, s:O, s:O, s:O, s:O, s:O}", "secretID", json_object_get(one, "id"), "name",
                         json_object_get(one, "name"), "currentVersion", json_object_get(one, "version"), "metadata",
                         json_object_get(one, "metadata"), "createdAt", json_object_get(one, "createdAt"), "updatedAt",
                         json_object_get(one, "updatedAt"));
}

static void fail(struct e2b_request *q, const struct cloche_err *e)
{
        e2b_fail(q, &(struct door_reply){.e = e});
}

/* Parts of placeholders, and of one line. */
static int is_name(const char *name)
{
        if (!name || !*name || strlen(name) > NAME_BYTES_MAX)
                return 0;
        for (const char *at = name; *at; at++)
                if ((unsigned char)*at < ' ' || *at == 0x7f || *at == '{' || *at == '}')
                        return 0;
        return 1;
}

static int is_metadata(const json_t *metadata)
{
        size_t bytes = 0;
        const char *name;
        json_t *value;

        if (!metadata)
                return 1;
        json_object_foreach ((json_t *)(uintptr_t)metadata, name, value) {
                if (!json_is_string(value))
                        return 0;
                bytes += strlen(name) + json_string_length(value);
        }
        return json_is_object(metadata) && json_object_size(metadata) <= METADATA_MAX && bytes <= METADATA_BYTES_MAX;
}

static int is_value(const json_t *value)
{
        const char *text = json_string_value(value);

        if (!text || !*text || strlen(text) != json_string_length(value) || strlen(text) > VALUE_BYTES_MAX)
                return 0;
        for (; *text; text++)
                if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
                        return 0;
        return 1;
}

/* True, or the request is refused. The message has no part of the value. */
static int check(struct e2b_request *q)
{
        if (!is_value(json_object_get(q->body, "value")))
                e2b_refuse(q, 400, "invalid_argument", "'value' must be 1 to %d visible characters of ASCII and blanks",
                           VALUE_BYTES_MAX);
        else if (!is_metadata(json_object_get(q->body, "metadata")))
                e2b_refuse(q, 400, "invalid_argument",
                           "'metadata' must be an object of at most %d texts, together at most %d bytes", METADATA_MAX,
                           METADATA_BYTES_MAX);
        else
                return 1;
        return 0;
}

void e2b_on_secret_create(struct e2b_request *q)
{
        struct cloche_err e = {0};
        json_t *all = all_of(q->door.daemon, &e), *metadata = json_object_get(q->body, "metadata"), *after, *one;
        const char *name = e2b_text(q->body, "name");
        char id[E2B_ID_SIZE], now[CLOCK_TEXT_SIZE];

        if (!all) {
                fail(q, &e);
                return;
        }
        if (!is_name(name)) {
                e2b_refuse(q, 400, "invalid_argument",
                           "'name' must be 1 to %d bytes without '{', '}' and control characters", NAME_BYTES_MAX);
                return;
        }
        if (!check(q))
                return;
        if (find(all, name) || json_array_size(all) >= SECRETS_MAX) {
                e2b_refuse(q, 409, "already_exists",
                           find(all, name) ? "there is a secret of this name already" : "there are too many secrets");
                return;
        }
        e2b_random_id(id, sizeof(id));
        clock_text_now(now);
        one = json_pack("{s:s, s:s, s:O, s:i, s:o, s:s, s:s}", "id", id, "name", name, "value",
                        json_object_get(q->body, "value"), "version", 1, "metadata",
                        metadata ? json_incref(metadata) : json_object(), "createdAt", now, "updatedAt", now);
        after = json_copy(all);
        json_array_append(after, one);
        if (keep(q->door.daemon, after, &e) < 0)
                fail(q, &e);
        else
                e2b_answer(q, 201, describe(one));
        json_decref(one);
}

/* NULL: the request was refused. */
static json_t *find_named(struct e2b_request *q)
{
        struct cloche_err e = {0};
        json_t *all = all_of(q->door.daemon, &e), *one = all ? find(all, q->parts[0]) : NULL;

        if (!all)
                fail(q, &e);
        else if (!one)
                e2b_refuse(q, 404, "not_found", "secret '%.120s' not found", q->parts[0]);
        return one;
}

void e2b_on_secret_get(struct e2b_request *q)
{
        const json_t *one = find_named(q);

        if (one)
                e2b_answer(q, 200, describe(one));
}

/* after: the list with another row in the place of one, or without it. */
static json_t *all_but(json_t *all, const json_t *one, json_t *by)
{
        json_t *after = json_array(), *row;
        size_t i;

        json_array_foreach (all, i, row)
                if (row != one)
                        json_array_append(after, row);
                else if (by)
                        json_array_append(after, by);
        return after;
}

void e2b_on_secret_update(struct e2b_request *q)
{
        json_t *one = find_named(q), *changed;
        struct cloche_err e = {0};
        char now[CLOCK_TEXT_SIZE];

        if (!one || !check(q))
                return;
        changed = json_copy(one);
        json_object_set(changed, "value", json_object_get(q->body, "value"));
        if (json_object_get(q->body, "metadata"))
                json_object_set(changed, "metadata", json_object_get(q->body, "metadata"));
        json_object_set_new(changed, "version", json_integer(json_integer_value(json_object_get(one, "version")) + 1));
        json_object_set_new(changed, "updatedAt", json_string(clock_text_now(now)));
        if (keep(q->door.daemon, all_but(q->door.daemon->e2b->secrets, one, changed), &e) < 0)
                fail(q, &e);
        else
                e2b_answer(q, 200, describe(changed));
        json_decref(changed);
}

void e2b_on_secret_delete(struct e2b_request *q)
{
        const json_t *one = find_named(q);
        struct cloche_err e = {0};

        if (!one)
                return;
        if (keep(q->door.daemon, all_but(q->door.daemon->e2b->secrets, one, NULL), &e) < 0)
                fail(q, &e);
        else
                e2b_answer_empty(q);
}

void e2b_on_secret_list(struct e2b_request *q)
{
        struct cloche_err e = {0};
        const json_t *all = all_of(q->door.daemon, &e);
        char *limit = e2b_query(q, "limit"), *after = e2b_query(q, "nextToken");
        size_t most = limit ? strtoul(limit, NULL, 10) : PAGE_MAX, from = after ? strtoul(after, NULL, 10) : 0;
        char next[24];
        json_t *page;

        free(limit);
        free(after);
        if (!all) {
                fail(q, &e);
                return;
        }
        if (most < 1 || most > PAGE_MAX) {
                e2b_refuse(q, 400, "invalid_argument", "'limit' must be 1 to %d", PAGE_MAX);
                return;
        }
        page = json_array();
        for (size_t i = from; i < json_array_size(all) && json_array_size(page) < most; i++)
                json_array_append_new(page, describe(json_array_get(all, i)));
        snprintf(next, sizeof(next), "%zu", from + most);
        if (from + most < json_array_size(all))
                http_add_header(q->request, "x-next-token", next);
        e2b_answer(q, 200, page);
}

/* -- placeholders ------------------------------------------------------------------------------------------------ */

/* ${e2b.secrets.NAME} stands for the value. */
json_t *e2b_secrets_fill(const struct daemon *d, const char *text, struct cloche_err *e)
{
        static const char begin[] = "${e2b.", kind[] = "secrets.";
        _cleanup_buf_ struct buf out = BUF_INIT(1u << 20);

        while (text) {
                const char *at = strstr(text, begin), *name = at ? at + sizeof(begin) - 1 : NULL,
                           *end = at ? strchr(at, '}') : NULL;
                json_t *all, *one = NULL;
                char *copy;

                if (buf_append(&out, text, at ? (size_t)(at - text) : strlen(text)) < 0)
                        break;
                if (!at)
                        return json_stringn(out.data ? out.data : "", out.size);
                if (!end || strncmp(name, kind, sizeof(kind) - 1) != 0) {
                        err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                "'%.60s': only ${e2b.secrets.NAME} is filled in here (docs/e2b.md)", at);
                        return NULL;
                }
                all = all_of(d, e);
                name += sizeof(kind) - 1;
                copy = all ? strndup(name, (size_t)(end - name)) : NULL;
                one = copy ? find(all, copy) : NULL;
                if (copy && !one)
                        err_set(e, CLOCHE_E_INVALID_ARGUMENT, "there is no secret '%.120s'", copy);
                free(copy);
                if (!one)
                        return NULL;
                if (buf_append(&out, e2b_text(one, "value"), strlen(e2b_text(one, "value"))) < 0)
                        break;
                text = end + 1;
        }
        err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "fill in a secret");
        return NULL;
}
