/* What is to be told of a mount beside its changes: denials, equal ones counted, and warnings. Both bounded. Pure. */
#ifndef CLOCHE_FS_LEDGER_H
#define CLOCHE_FS_LEDGER_H

#include "rules.h"

#include <stdbool.h>
#include <stdint.h>

struct denial {
        char *path;
        enum rules_action action;
        const char *rule; /* its pattern; "" for the default */
        uint64_t hash, count;
        int64_t first_ms, last_ms; /* of the wall clock */
};

struct warning {
        char *path;
        const char *message; /* static */
};

struct ledger {
        struct denial *denials;
        struct warning *warnings;
        size_t denial_count, denial_max, warning_count, warning_max;
        uint64_t denials_dropped, warnings_dropped;
        size_t path_bytes; /* a guest that makes long paths is not to fill the answer */
        /* Called for a denial that is news; NULL: nobody listens. */
        void (*tell)(void *argument, const struct denial *denial);
        void *argument;
        uint64_t told_ns; /* notifications sent are so much time ahead; bounds their rate */
};

int ledger_init(struct ledger *ledger, size_t denials, size_t warnings);
void ledger_done(struct ledger *ledger);
void ledger_deny(struct ledger *ledger, const char *path, enum rules_action action, const char *rule);
void ledger_warn(struct ledger *ledger, const char *path, const char *message);

/* NULL with no memory. */
json_t *ledger_denial_json(const struct denial *denial);
json_t *ledger_denials_json(const struct ledger *ledger);
json_t *ledger_warnings_json(const struct ledger *ledger);

/* A path as JSON: a string, or {"$": "bytes", "b64": …} when it is no UTF-8 (spec/values.md). */
json_t *path_to_json(const char *path);
/* Owned by the caller; NULL when it is neither, or holds a NUL. */
char *path_from_json(const json_t *value);

#endif
