/* The configuration of a sync: the params of the first request (README.md lists them). */
#ifndef CLOCHE_HELPERS_SYNC_SETTINGS_H
#define CLOCHE_HELPERS_SYNC_SETTINGS_H

#include "plan.h"

struct sync_settings {
        struct rules *rules;
        enum on_conflict policy;
        enum on_error on_error;
        bool landlock_optional, links_inside;
};

/* -CLOCHE_E_INVALID_ARGUMENT names the member. Call sync_settings_done() after a failure too. */
int sync_settings_load(const json_t *params, struct sync_settings *ret, struct cloche_err *e);
void sync_settings_done(struct sync_settings *settings);

/* -CLOCHE_E_INVALID_ARGUMENT for a member that is not in names (ends with NULL). */
int settings_check_members(const json_t *params, const char *const *names, struct cloche_err *e);

#endif
