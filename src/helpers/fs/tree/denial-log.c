/* Count denials and warnings, bounded, and notify of new ones.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "denial-log.h"

#include "base/clock.h"
#include "wire/base64.h"

#include <stdlib.h>
#include <string.h>

#define NOTIFY_EVERY_NS 10000000u  /* a hundred per second */
#define NOTIFY_AHEAD_NS 500000000u /* fifty at once */
#define PATH_BYTES_MAX (4u << 20)

/* NULL: no room. */
static char *keep_path(struct denial_log *log, const char *path, size_t count, size_t max)
{
        size_t size = strlen(path);
        char *copy = count < max && size <= PATH_BYTES_MAX - log->path_bytes ? strdup(path) : NULL;

        log->path_bytes += copy ? size : 0;
        return copy;
}

int denial_log_init(struct denial_log *log, size_t denials, size_t warnings)
{
        *log = (struct denial_log){.denial_max = denials, .warning_max = warnings};
        log->denials = calloc(denials + 1, sizeof(*log->denials));
        log->warnings = calloc(warnings + 1, sizeof(*log->warnings));
        return log->denials && log->warnings ? 0 : -1;
}

void denial_log_done(struct denial_log *log)
{
        for (size_t i = 0; i < log->denial_count; i++)
                free(log->denials[i].path);
        for (size_t i = 0; i < log->warning_count; i++)
                free(log->warnings[i].path);
        free(log->denials);
        free(log->warnings);
        *log = (struct denial_log){0};
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

static struct denial *find(struct denial_log *log, uint64_t hash, const char *path, enum rules_action action,
                           const char *rule)
{
        for (size_t i = 0; i < log->denial_count; i++) {
                struct denial *d = &log->denials[i];

                if (d->hash == hash && d->action == action && d->rule == rule && strcmp(d->path, path) == 0)
                        return d;
        }
        return NULL;
}

/* Notify the first denial of its kind and then each doubling, so that a guest cannot flood the
 * socket with denials. */
static void notify(struct denial_log *log, const struct denial *denial)
{
        uint64_t now = clock_now_ns();

        if (!log->on_denial || (denial->count & (denial->count - 1)))
                return;
        if (log->notified_ns < now)
                log->notified_ns = now;
        if (log->notified_ns - now > NOTIFY_AHEAD_NS)
                return;
        log->notified_ns += NOTIFY_EVERY_NS;
        log->on_denial(log->argument, denial);
}

void denial_log_deny(struct denial_log *log, const char *path, enum rules_action action, const char *rule)
{
        uint64_t hash = hash_of(path, action);
        struct denial *denial = find(log, hash, path, action, rule);

        if (!denial) {
                char *copy = keep_path(log, path, log->denial_count, log->denial_max);

                if (!copy) {
                        log->denials_dropped++;
                        return;
                }
                denial = &log->denials[log->denial_count++];
                *denial = (struct denial){.path = copy,
                                          .action = action,
                                          .rule = rule,
                                          .hash = hash,
                                          .first_ms = wall_ms()};
        }
        denial->count++;
        denial->last_ms = wall_ms();
        notify(log, denial);
}

void denial_log_warn(struct denial_log *log, const char *path, const char *message)
{
        char *copy;

        for (size_t i = 0; i < log->warning_count; i++)
                if (log->warnings[i].message == message && strcmp(log->warnings[i].path, path) == 0)
                        return;
        copy = keep_path(log, path, log->warning_count, log->warning_max);
        if (!copy) {
                log->warnings_dropped++;
                return;
        }
        log->warnings[log->warning_count++] = (struct warning){copy, message};
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

json_t *denial_log_denial_json(const struct denial *d)
{
        return json_pack("{s:o, s:s, s:s, s:I, s:I, s:I}", "path", path_to_json(d->path), "operation",
                         rules_action_name(d->action), "rule", d->rule, "count", (json_int_t)d->count, "timestamp",
                         (json_int_t)d->first_ms, "last", (json_int_t)d->last_ms);
}

json_t *denial_log_denials_json(const struct denial_log *log)
{
        json_t *list = json_array();

        for (size_t i = 0; i < log->denial_count; i++)
                json_array_append_new(list, denial_log_denial_json(&log->denials[i]));
        return list;
}

json_t *denial_log_warnings_json(const struct denial_log *log)
{
        json_t *list = json_array();

        for (size_t i = 0; i < log->warning_count; i++)
                json_array_append_new(list, json_pack("{s:o, s:s}", "path", path_to_json(log->warnings[i].path),
                                                      "message", log->warnings[i].message));
        return list;
}
