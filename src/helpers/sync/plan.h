/* The plan decides the outcome of each change. It reads the host's directory as it is and writes
 * nothing. It does not build the tree that the changes would make: the rows that place or remove
 * something give each path's future location and contents. */
#ifndef CLOCHE_HELPERS_SYNC_PLAN_H
#define CLOCHE_HELPERS_SYNC_PLAN_H

#include "step.h"

#include "helpers/fs/rules/rules.h"

enum verdict { VERDICT_DO, VERDICT_SKIPPED, VERDICT_FAILED };
enum plan_action {
        ACTION_SKIP,
        ACTION_WRITE,
        ACTION_MKDIR,
        ACTION_SYMLINK,
        ACTION_LINK,
        ACTION_RENAME,
        ACTION_REMOVE,
        ACTION_CHMOD
};
enum plan_how { HOW_NOT, HOW_PUT, HOW_SWAP, HOW_SET };
enum on_conflict { CONFLICT_REFUSE, CONFLICT_KEEP_BOTH, CONFLICT_OVERWRITE, CONFLICT_POLICY_COUNT };
enum on_error { ON_ERROR_ROLLBACK, ON_ERROR_CONTINUE, ON_ERROR_ABORT };

#define ROW_NONE UINT32_MAX

struct plan_row {
        enum verdict verdict;
        enum plan_action action;
        enum plan_how how;
        const char *code; /* reason of a skip or failure; static */
        char *message;    /* the reason as prose; NULL: code is enough */
        char *real;       /* destination; NULL: its path */
        char *found_host; /* present path of found; NULL: its path */
        char *link_host;  /* host path of a hard link's target; NULL: link_row's slot */
        uint32_t link_row;
        struct stat taken; /* the entry deleted or renamed */
        struct stat found; /* the entry at the destination */
        gid_t gid;         /* of the new entry; -1: default */
        size_t rule;       /* the rule that denied it */
        enum rules_action denied;
        bool is_denied, is_conflict, is_beside, any_taken, any_found, has_found;
        bool settled; /* by a decision or by a failed attempt: kept in the next round */
        bool staged;
        uint64_t ino; /* of the staged contents */
        int policy;   /* enum on_conflict; -1: the plan's */
};

struct key {
        const char *path;
        uint32_t row;
};

struct key_list {
        struct key *keys;
        size_t count;
};

struct edge {
        uint32_t of, on;
};

/* Location of a directory of the future tree. */
struct directory {
        char path[LIST_PATH_MAX + 1];
        char real[LIST_PATH_MAX + 1]; /* after the steps that place it */
        char host[LIST_PATH_MAX + 1]; /* now */
        bool is_known, on_host;
        int fd; /* O_PATH of host, for lookups only: a writer opens it again */
        int error;
        uint32_t by; /* the row that places it or a directory above; ROW_NONE */
        struct stat st;
};

struct plan {
        const struct sync_list *list;
        const struct rules *rules;
        struct lower root;
        enum on_conflict policy;
        enum on_error on_error;
        bool links_inside; /* refuse links that lead out of the directory */
        struct plan_row *rows;
        struct key_list places, leaves, modified;
        struct edge *edges;
        size_t edge_count, edge_room;
        char **touched; /* directories of the host whose entries change */
        size_t touched_count, touched_room;
        struct directory directory;
        bool out_of_memory;
};

/* The list is closed and does not change any more. Call plan_done() after a failure too. */
int plan_init(struct plan *plan, const struct sync_list *list, const struct rules *rules, int root_fd,
              enum on_conflict policy, enum on_error on_error, bool links_inside, struct cloche_err *e);
void plan_done(struct plan *plan);

/* Add decisions, an array of {path, action, reason?}, before plan_evaluate(). */
int plan_decide(struct plan *plan, const json_t *decisions, struct cloche_err *e);

/* May be called again after a failure. Returns -CLOCHE_E_RESOURCE only. */
int plan_evaluate(struct plan *plan, struct cloche_err *e);
/* Fail the row permanently, across later evaluations. code is static. */
void plan_fail(struct plan *plan, uint32_t row, const char *code, const char *message);
void plan_fail_errno(struct plan *plan, uint32_t row, int number, const char *what);
const char *plan_errno_code(int number);

/* True if a row failed for another reason than a denial. */
bool plan_has_failed(const struct plan *plan);

/* All staged contents have their inode by now. 0 or -ENOMEM. */
int plan_build_steps(const struct plan *plan, struct steps *ret);

/* -- between plan*.c -- */
uint32_t plan_find(const struct key_list *list, const char *path);
const struct directory *plan_find_directory(struct plan *plan, const char *path);
void plan_drop_directory(struct plan *plan);
/* Record a directory of the host whose entries will change, after an access check. 0 or -errno. */
int plan_touch(struct plan *plan, const char *host);
void plan_depend(struct plan *plan, uint32_t of, uint32_t on);
void plan_parent(const char *path, char ret[LIST_PATH_MAX + 1]);
const char *plan_real(const struct plan *plan, uint32_t row);

#endif
