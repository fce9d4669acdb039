/* What is to become of each change: worked out by looking at the host's directory as it is, nothing written. The tree that the changes
 * would make is not built; where a path would be, and what would be there, is answered from the rows that place something and those that
 * take something away. */
#ifndef CLOCHE_SYNC_PLAN_H
#define CLOCHE_SYNC_PLAN_H

#include "step.h"

#include "fs/rules.h"

enum verdict { VERDICT_DO, VERDICT_SKIPPED, VERDICT_FAILED };
enum plan_action { ACTION_SKIP, ACTION_WRITE, ACTION_MKDIR, ACTION_SYMLINK, ACTION_LINK, ACTION_RENAME, ACTION_REMOVE, ACTION_CHMOD };
enum plan_how { HOW_NOT, HOW_PUT, HOW_SWAP, HOW_SET };
enum on_conflict { CONFLICT_REFUSE, CONFLICT_KEEP_BOTH, CONFLICT_OVERWRITE, CONFLICT_POLICY_COUNT };
enum on_error { ON_ERROR_ROLLBACK, ON_ERROR_CONTINUE, ON_ERROR_ABORT };

#define ROW_NONE UINT32_MAX

struct plan_row {
        enum verdict verdict;
        enum plan_action action;
        enum plan_how how;
        const char *code;    /* why it is skipped or failed; static */
        char *message;       /* the same for people; NULL: the code says it */
        char *real;          /* where it goes, NULL: its path */
        char *found_host;    /* where found is now; NULL: at its path */
        char *link_host;     /* where the host has what a link is to; NULL: link_row's slot */
        uint32_t link_row;
        struct stat taken;   /* of what is deleted or renamed */
        struct stat found;   /* of what is in its place */
        gid_t gid;           /* of what is made; -1: as it comes */
        size_t rule;         /* that denied it */
        enum rules_action denied;
        bool is_denied, is_conflict, is_beside, any_taken, any_found, has_found;
        bool settled; /* by a decision, or a failure when it was tried: stays so in the next round */
        bool staged;
        uint64_t ino; /* of what is staged */
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

/* Where a directory of the tree to come is. */
struct directory {
        char path[LIST_PATH_MAX + 1];
        char real[LIST_PATH_MAX + 1]; /* when the steps that place it are done */
        char host[LIST_PATH_MAX + 1]; /* now */
        bool is_known, on_host;
        int fd; /* O_PATH of host; only looked through: who writes opens anew */
        int error;
        uint32_t by; /* the row that places it, or a directory above; ROW_NONE */
        struct stat st;
};

struct plan {
        const struct list *list;
        const struct rules *rules;
        struct lower root;
        enum on_conflict policy;
        enum on_error on_error;
        bool links_inside; /* links that lead out of the directory are refused */
        struct plan_row *rows;
        struct key_list places, leaves, modified;
        struct edge *edges;
        size_t edge_count, edge_room;
        char **touched; /* directories of the host whose names change */
        size_t touched_count, touched_room;
        struct directory directory;
        bool out_of_memory;
};

/* The list is closed and stays as it is. plan_done() also after a failure. */
int plan_init(struct plan *plan, const struct list *list, const struct rules *rules, int root_fd, enum on_conflict policy,
              enum on_error on_error, bool links_inside, struct cloche_err *e);
void plan_done(struct plan *plan);

/* A decision, an array of {path, action, reason?}, before plan_evaluate(). */
int plan_decide(struct plan *plan, const json_t *decisions, struct cloche_err *e);

/* Again after something has failed. -CLOCHE_E_RESOURCE only. */
int plan_evaluate(struct plan *plan, struct cloche_err *e);
/* The row fails: code is static. For good, whatever is evaluated again. */
void plan_fail(struct plan *plan, uint32_t row, const char *code, const char *message);
void plan_fail_errno(struct plan *plan, uint32_t row, int number, const char *what);
const char *plan_errno_code(int number);

/* Is there a row that failed other than by being denied? */
bool plan_has_failed(const struct plan *plan);

/* All that is staged has its inode by now. 0 or -ENOMEM. */
int plan_build_steps(const struct plan *plan, struct steps *ret);

/* -- between plan*.c -- */
uint32_t plan_find(const struct key_list *list, const char *path);
const struct directory *plan_find_directory(struct plan *plan, const char *path);
void plan_forget_directory(struct plan *plan);
/* What a directory of the host lacks for names in it to change; 0 or -errno. */
int plan_touch(struct plan *plan, const char *host);
void plan_depend(struct plan *plan, uint32_t of, uint32_t on);
void plan_parent(const char *path, char ret[LIST_PATH_MAX + 1]);
const char *plan_real(const struct plan *plan, uint32_t row);

#endif
