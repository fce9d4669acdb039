#include "denial-log.h"

#include "base/clock.h"
#include "wire/base64.h"

#include <stdlib.h>
#include <string.h>

#define TELL_EVERY_NS 10000000u  /* a hundred per second */
#define TELL_AHEAD_NS 500000000u /* fifty at once */
#define PATH_BYTES_MAX (4u << 20)

/* NULL: no room. */
static char *keep_path(struct ledger *ledger, const char *path, size_t count, size_t max)
{
        size_t size = strlen(path);
        char *copy = count < max && size <= PATH_BYTES_MAX - ledger->path_bytes ? strdup(path) : NULL;

        ledger->path_bytes += copy ? size : 0;
        return copy;
}

int ledger_init(struct ledger *ledger, size_t denials, size_t warnings)
{
        *ledger = (struct ledger){.denial_max = denials, .warning_max = warnings};
        ledger->denials = calloc(denials + 1, sizeof(*ledger->denials));
        ledger->warnings = calloc(warnings + 1, sizeof(*ledger->warnings));
        return ledger->denials && ledger->warnings ? 0 : -1;
}

void ledger_done(struct ledger *ledger)
{
        for (size_t i = 0; i < ledger->denial_count; i++)
                free(ledger->denials[i].path);
        for (size_t i = 0; i < ledger->warning_count; i++)
                free(ledger->warnings[i].path);
        free(ledger->denials);
        free(ledger->warnings);
        *ledger = (struct ledger){0};
}

static uint64_t hash_of(const char *path, enum rules_action action)
{
        uint64_t hash = 0xcbf29ce484222325u ^ (uint64_t)action;

        for (; *path; path++)
                hash = (hash ^ (unsigned char)*path) * 0x100000001b3u;
        return hash;
}

static int64_t wall_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct denial *find(struct ledger *ledger, uint64_t hash, const char *path, enum rules_action action,
                           const char *rule)
{
        for (size_t i = 0; i < ledger->denial_count; i++) {
                struct denial *d = &ledger->denials[i];

                if (d->hash == hash && d->action == action && d->rule == rule && strcmp(d->path, path) == 0)
                        return d;
        }
        return NULL;
}

/* Notify the first denial of its kind and then each doubling, so that a guest cannot flood the
 * socket with denials. */
static void tell(struct ledger *ledger, const struct denial *denial)
{
        uint64_t now = clock_now_ns();

        if (!ledger->tell || (denial->count & (denial->count - 1)))
                return;
        if (ledger->told_ns < now)
                ledger->told_ns = now;
        if (ledger->told_ns - now > TELL_AHEAD_NS)
                return;
        ledger->told_ns += TELL_EVERY_NS;
        ledger->tell(ledger->argument, denial);
}

void ledger_deny(struct ledger *ledger, const char *path, enum rules_action action, const char *rule)
{
        uint64_t hash = hash_of(path, action);
        struct denial *denial = find(ledger, hash, path, action, rule);

        if (!denial) {
                char *copy = keep_path(ledger, path, ledger->denial_count, ledger->denial_max);

                if (!copy) {
                        ledger->denials_dropped++;
                        return;
                }
                denial = &ledger->denials[ledger->denial_count++];
                *denial = (struct denial){.path = copy,
                                          .action = action,
                                          .rule = rule,
                                          .hash = hash,
                                          .first_ms = wall_ms()};
        }
        denial->count++;
        denial->last_ms = wall_ms();
        tell(ledger, denial);
}

void ledger_warn(struct ledger *ledger, const char *path, const char *message)
{
        char *copy;

        for (size_t i = 0; i < ledger->warning_count; i++)
                if (ledger->warnings[i].message == message && strcmp(ledger->warnings[i].path, path) == 0)
                        return;
        copy = keep_path(ledger, path, ledger->warning_count, ledger->warning_max);
        if (!copy) {
                ledger->warnings_dropped++;
                return;
        }
        ledger->warnings[ledger->warning_count++] = (struct warning){copy, message};
}

/* -- as JSON -------------------------------------------------------------------------------------------------- */

json_t *path_to_json(const char *path)
{
        json_t *text = json_string(path); /* NULL if it is not UTF-8 */
        _cleanup_buf_ struct buf encoded = BUF_INIT(4u << 20);

        if (text || base64_encode(&encoded, path, strlen(path)) < 0)
                return text;
        return json_pack("{s:s, s:s%}", "$", "bytes", "b64", encoded.data ? encoded.data : "", encoded.size);
}

char *path_from_json(const json_t *value)
{
        const json_t *encoded = json_object_get(value, "b64");
        _cleanup_buf_ struct buf bytes = BUF_INIT(1u << 20);
        const char *tag = json_string_value(json_object_get(value, "$"));

        if (json_is_string(value))
                return strlen(json_string_value(value)) == json_string_length(value) ? strdup(json_string_value(value))
                                                                                     : NULL;
        if (!tag || strcmp(tag, "bytes") != 0 || !json_is_string(encoded))
                return NULL;
        if (base64_decode(&bytes, json_string_value(encoded), json_string_length(encoded)) < 0 ||
            (bytes.size && memchr(bytes.data, '\0', bytes.size)))
                return NULL;
        return strndup(bytes.data ? bytes.data : "", bytes.size);
}

json_t *ledger_denial_json(const struct denial *d)
{
        return json_pack("{s:o, s:s, s:s, s:I, s:I, s:I}", "path", path_to_json(d->path), "operation",
                         rules_action_name(d->action), "rule", d->rule, "count", (json_int_t)d->count, "timestamp",
                         (json_int_t)d->first_ms, "last", (json_int_t)d->last_ms);
}

json_t *ledger_denials_json(const struct ledger *ledger)
{
        json_t *list = json_array();

        for (size_t i = 0; i < ledger->denial_count; i++)
                json_array_append_new(list, ledger_denial_json(&ledger->denials[i]));
        return list;
}

json_t *ledger_warnings_json(const struct ledger *ledger)
{
        json_t *list = json_array();

        for (size_t i = 0; i < ledger->warning_count; i++)
                json_array_append_new(list, json_pack("{s:o, s:s}", "path", path_to_json(ledger->warnings[i].path),
                                                      "message", ledger->warnings[i].message));
        return list;
}
