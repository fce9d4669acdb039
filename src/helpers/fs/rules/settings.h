/* The configuration of a mount: the params of the first request on the control socket (README.md
 * lists them). */
#ifndef CLOCHE_HELPERS_FS_RULES_SETTINGS_H
#define CLOCHE_HELPERS_FS_RULES_SETTINGS_H

#include "helpers/fs/tree/node.h"
#include "rules.h"

#define SETTINGS_POINTS_MAX 8

enum denied_policy { DENIED_THROW, DENIED_IGNORE, DENIED_VIRTUAL };
enum links_policy { LINKS_SHOWN, LINKS_NONE, LINKS_RESTRICTED };
enum loading_mode { LOADING_LAZY, LOADING_EAGER, LOADING_EXPLICIT };

struct settings {
        struct rules *rules;
        bool all_alike; /* the default is the only rule: decisions do not depend on the path */
        enum denied_policy on_denied;
        enum links_policy links;
        enum loading_mode loading;
        json_t *include;                          /* for LOADING_EXPLICIT */
        uint64_t max_file_bytes, max_total_bytes; /* 0: none */
        char *source, *target; /* path on the host and in the guest, for absolute links; NULL: unknown */
        char *file;            /* the mount is this one file of the directory; NULL: the directory */
        json_t *points;        /* where other mounts stand in this one: [{path, kind}], or NULL */
        uid_t uid;
        gid_t gid;
        double cache_s; /* the kernel's cache timeout for data that only the host can change */
        struct tree_limits tree;
        size_t open_files, denials, warnings;
        uint64_t upper_bytes;
        bool landlock_optional, seccomp_optional;
};

/* -CLOCHE_E_INVALID_ARGUMENT names the member. Call fs_settings_done() after a failure too. */
int fs_settings_load(const json_t *params, struct settings *ret, struct cloche_err *e);
void fs_settings_done(struct settings *settings);
/* Read a whole number; an absent or null one leaves *ret as it is. */
int fs_settings_number(const json_t *object, const char *key, uint64_t *ret, struct cloche_err *e);

#endif
