/* `.cloche-sync` in the root of what is synced: new contents before they are in their place, old ones until all is done.
 *
 * n<N>  made for the change N: a file, link or empty directory; when exchanged, what was there before
 * o<N>  what the change N took from its place
 * p<N>  o<N> has been put to its new place, or is about to be
 * draft, journal, undo, done, undone: the journal; its name is the state of the transaction (journal.h) */
#ifndef CLOCHE_SYNC_STAGE_H
#define CLOCHE_SYNC_STAGE_H

#include "list.h"

enum stage_state { STAGE_NONE, STAGE_DRAFT, STAGE_JOURNAL, STAGE_UNDO, STAGE_DONE, STAGE_UNDONE };

struct stage {
        int root_fd; /* borrowed */
        int dir_fd;  /* -EBADF: there is none */
};

#define STAGE_SLOT_SIZE 16
void stage_slot(char ret[STAGE_SLOT_SIZE], char letter, uint32_t number);

#define STAGE_PATIENCE_MS 10000

/* Find it, or with make create it, and lock it, for which other syncs are waited for. 1; 0: there is none; -CLOCHE_E_STATE: it is not
 * ours, or with os_errno EBUSY: another sync has it still. */
int stage_open(struct stage *stage, bool make, unsigned patience_ms, struct cloche_err *e);
void stage_close(struct stage *stage);

/* STAGE_DRAFT also with no journal at all: then nothing has been displaced yet. */
enum stage_state stage_find_state(const struct stage *stage);
const char *stage_state_name(enum stage_state state);
/* From one name of the journal to the next, on the disk when it returns. 0 or -errno. */
int stage_set_state(const struct stage *stage, enum stage_state from, enum stage_state to);

/* Is something of the host's in it? In a draft there is not, or somebody has taken the journal away. */
bool stage_has_displaced(const struct stage *stage);
/* Then it tells nothing: it was just made, or all but removed. */
bool stage_is_empty(const struct stage *stage);

/* All that is named as above is removed, the journal last, then the directory, and it is closed. 0 or -errno; -ENOTEMPTY: something else
 * is in it. */
int stage_remove(struct stage *stage);

#endif
