/* `.cloche-sync` in the root of the synced directory. It holds new contents before they are placed
 * and old contents until all steps are done.
 *
 * n<N>  made for change N: a file, link or empty directory; after an exchange, the displaced entry
 * o<N>  the entry that change N took from its place
 * p<N>  o<N> has been put to its new place, or is about to be
 * draft, journal, undo, done, undone: the journal; its name is the state of the transaction
 * (journal.h) */
#ifndef CLOCHE_HELPERS_SYNC_STAGE_H
#define CLOCHE_HELPERS_SYNC_STAGE_H

#include "list.h"

enum stage_state { STAGE_NONE, STAGE_DRAFT, STAGE_JOURNAL, STAGE_UNDO, STAGE_DONE, STAGE_UNDONE };

struct stage {
        int root_fd; /* borrowed */
        int dir_fd;  /* -EBADF: none */
};

#define STAGE_SLOT_SIZE 16
void stage_slot(char ret[STAGE_SLOT_SIZE], char letter, uint32_t number);

#define STAGE_PATIENCE_MS 10000

/* Find the stage, or create it if make is set, and lock it; other syncs are waited for. 1; 0: none;
 * -CLOCHE_E_STATE: it is not ours, or (os_errno EBUSY) another sync still holds it. */
int stage_open(struct stage *stage, bool make, unsigned patience_ms, struct cloche_err *e);
void stage_close(struct stage *stage);

/* STAGE_DRAFT also without a journal: nothing has been displaced yet. */
enum stage_state stage_find_state(const struct stage *stage);
const char *stage_state_name(enum stage_state state);
/* Rename the journal to its next state; on disk on return. 0 or -errno. */
int stage_set_state(const struct stage *stage, enum stage_state from, enum stage_state to);

/* True if the stage holds entries of the host. A draft has none unless somebody removed the
 * journal. */
bool stage_has_displaced(const struct stage *stage);
/* True if the stage has no entries: it is new, or its removal was interrupted. */
bool stage_is_empty(const struct stage *stage);

/* Remove all names above, the journal last, then the directory, and close it. 0 or -errno;
 * -ENOTEMPTY: it holds something else. */
int stage_remove(struct stage *stage);

#endif
