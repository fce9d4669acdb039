/* A transaction consists of steps. Each step is one system call, can be undone, and leaves a
 * visible trace of having been done. Thus a transaction resumes after a crash without a record of
 * its progress. */
#ifndef CLOCHE_HELPERS_SYNC_STEP_H
#define CLOCHE_HELPERS_SYNC_STEP_H

#include "stage.h"

enum step_op {
        STEP_TAKE, /* from its place into o<N> */
        STEP_PUT,  /* from its slot to a free place */
        STEP_SWAP, /* exchange the slot with the entry in its place */
        STEP_SET,  /* set mode and time */
        STEP_OP_COUNT
};

enum {
        STEP_ANY = 1,      /* displace any entry: the caller overwrites */
        STEP_FROM_OLD = 2, /* the slot is o<N>: a renamed entry */
        STEP_SET_MODE = 4, /* SET: attributes to set */
        STEP_SET_TIME = 8,
        STEP_FLAGS_ALL = 15,
};

struct step {
        enum step_op op;
        unsigned flags;
        uint32_t number;                 /* of the change and its slot */
        char *path;                      /* path once all earlier steps are done */
        struct lower_identity displaced; /* TAKE, SWAP, SET: the expected entry */
        unsigned displaced_mode;         /* whole st_mode */
        uint64_t moved;                  /* PUT, SWAP: inode of the new entry */
        unsigned mode;                   /* SET */
        int64_t mtime_ns;
};

struct steps {
        struct step *rows;
        size_t count, room;
};

/* Copies path; the list owns the copy. NULL when out of memory. */
struct step *steps_add(struct steps *steps, enum step_op op, uint32_t number, const char *path);
void steps_done(struct steps *steps);

/* A host entry that a step saved under another name because its place was not free. */
struct kept {
        char *path, *as;
};

struct kept_list {
        struct kept *rows;
        size_t count, room;
};

void kept_done(struct kept_list *list);

struct steps_run {
        const struct stage *stage;
        struct kept_list *kept;
};

#define STEP_CONFLICT (-10000) /* another entry was found than expected; it is back in its place */

/* 0, STEP_CONFLICT or -errno. After a failure nothing has changed. */
int step_do(const struct steps_run *run, const struct step *step);
/* 1, 0, or -errno if that cannot be determined. Always 0 for SET, which may be repeated. */
int step_is_done(const struct steps_run *run, const struct step *step);
/* Check a completed step: 0, or STEP_CONFLICT if it displaced the wrong entry. */
int step_check(const struct steps_run *run, const struct step *step);
/* Undo a step. Later changes by the host stay; the displaced entry is then kept
 * beside them. 0 or -errno. */
int step_undo(const struct steps_run *run, const struct step *step);
/* TAKE, SWAP: keep the displaced entry beside its place if it was written to after it was
 * displaced. */
void step_keep_late(const struct steps_run *run, const struct step *step);

/* NAME.cloche-conflict-N.EXT; false: the name is too long. */
bool step_conflict_name(const char *name, unsigned number, char ret[LIST_NAME_MAX + 1]);
/* O_PATH of the directory that contains path, *ret_name its last part; or -errno. */
int step_open_parent(int root_fd, const char *path, const char **ret_name);

#endif
