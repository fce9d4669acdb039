/* What a transaction is made of: steps that each are done by one system call, that can be undone, and of which can be seen whether they
 * are done. In that, a transaction goes on after a crash without knowing how far it came. */
#ifndef CLOCHE_SYNC_STEP_H
#define CLOCHE_SYNC_STEP_H

#include "stage.h"

enum step_op {
        STEP_TAKE, /* from its place into o<N> */
        STEP_PUT,  /* from its slot to a free place */
        STEP_SWAP, /* the slot's and what is in its place change places */
        STEP_SET,  /* mode and time */
        STEP_OP_COUNT
};

enum {
        STEP_ANY = 1,      /* whatever is displaced: who asked for it overwrites */
        STEP_FROM_OLD = 2, /* the slot is o<N>: something renamed */
        STEP_SET_MODE = 4, /* SET: what doing it sets */
        STEP_SET_TIME = 8,
        STEP_FLAGS_ALL = 15,
};

struct step {
        enum step_op op;
        unsigned flags;
        uint32_t number;                 /* the change's, and its slot's */
        char *path;                      /* where, when all steps before are done */
        struct lower_identity displaced; /* TAKE, SWAP, SET: what has to be there */
        unsigned displaced_mode;         /* whole st_mode */
        uint64_t moved;                  /* PUT, SWAP: inode of what comes */
        unsigned mode;                   /* SET */
        int64_t mtime_ns;
};

struct steps {
        struct step *rows;
        size_t count, room;
};

/* The paths are owned. NULL with no memory. */
struct step *steps_add(struct steps *steps, enum step_op op, uint32_t number, const char *path);
void steps_done(struct steps *steps);

/* What a step had to save: something that is the host's and whose place is not free. */
struct kept {
        char *path, *as;
};

struct kept_list {
        struct kept *rows;
        size_t count, room;
};

void kept_add(struct kept_list *list, const char *path, const char *as);
void kept_done(struct kept_list *list);

struct steps_run {
        const struct stage *stage;
        struct kept_list *kept;
};

#define STEP_CONFLICT (-10000) /* what was there was not what was expected; it is there again */

/* 0, STEP_CONFLICT or -errno; then nothing has changed. */
int step_do(const struct steps_run *run, const struct step *step);
/* 1, 0, or -errno when that cannot be seen. Always 0 for SET, which can be done again. */
int step_is_done(const struct steps_run *run, const struct step *step);
/* A step that is done: was it right to? 0 or STEP_CONFLICT. */
int step_check(const struct steps_run *run, const struct step *step);
/* As before the step. What the host has changed since is left, and what was displaced is kept beside it. 0 or -errno. */
int step_undo(const struct steps_run *run, const struct step *step);
/* TAKE, SWAP: somebody has written to what was displaced since: it is kept beside. */
void step_keep_late(const struct steps_run *run, const struct step *step);

/* NAME.cloche-conflict-N.EXT; false: it has no room. */
bool step_conflict_name(const char *name, unsigned number, char ret[LIST_NAME_MAX + 1]);
/* O_PATH of the directory path is in, *ret_name its last part; or -errno. */
int step_open_parent(int root_fd, const char *path, const char **ret_name);

#endif
