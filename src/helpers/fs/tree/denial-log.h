/* Denials and warnings of a mount; equal denials are counted. Both bounded. Pure. */
#ifndef CLOCHE_HELPERS_FS_TREE_DENIAL_LOG_H
#define CLOCHE_HELPERS_FS_TREE_DENIAL_LOG_H

#include "helpers/fs/rules/rules.h"

#include <stdbool.h>
#include <stdint.h>

struct denial {
        char *path;
        enum rules_action action;
        const char *rule; /* its pattern; "" for the default */
        uint64_t hash, count;
        int64_t first_ms, last_ms; /* wall-clock time */
};

struct warning {
        char *path;
        const char *message; /* static */
};

struct denial_log {
        struct denial *denials;
        struct warning *warnings;
        size_t denial_count, denial_max, warning_count, warning_max;
        uint64_t denials_dropped, warnings_dropped;
        size_t path_bytes; /* bounded, so that long paths cannot fill the answer */
        /* Called for a new denial; NULL: no listener. */
        void (*on_denial)(void *argument, const struct denial *denial);
        void *argument;
        uint64_t notified_ns; /* time up to which notifications are paid for; bounds their rate */
};

int denial_log_init(struct denial_log *log, size_t denials, size_t warnings);
void denial_log_done(struct denial_log *log);
void denial_log_deny(struct denial_log *log, const char *path, enum rules_action action, const char *rule);
void denial_log_warn(struct denial_log *log, const char *path, const char *message);

/* NULL when out of memory. */
json_t *denial_log_denial_json(const struct denial *denial);
json_t *denial_log_denials_json(const struct denial_log *log);
json_t *denial_log_warnings_json(const struct denial_log *log);

/* A path as JSON: a string, or {"$": "bytes", "b64": …} if it is not UTF-8 (spec/values.md). */
json_t *path_to_json(const char *path);
/* Owned by the caller; NULL if value has neither form or contains a NUL. */
char *path_from_json(const json_t *value);

#endif
