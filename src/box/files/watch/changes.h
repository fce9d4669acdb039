/* Changes not sent yet: bounded, duplicates merged. */
#ifndef CLOCHE_BOX_FILES_WATCH_CHANGES_H
#define CLOCHE_BOX_FILES_WATCH_CHANGES_H

#include "box/files/request.h"

#define CHANGES_MAX 1000

enum change_type { CHANGE_CREATE, CHANGE_MODIFY, CHANGE_DELETE, CHANGE_MOVE, CHANGE_ATTRIB };

struct watch_change {
        enum change_type type;
        char *path, *from; /* below the root; owned. from: of a move */
        int is_directory;
        struct timespec time;
};

struct watch_changes {
        struct watch_change items[CHANGES_MAX];
        size_t count;
        int is_lost; /* changes were dropped */
};

/* from: NULL except for a move. When full, all pending changes are dropped and marked lost. 0 or
 * -ENOMEM. */
CLOCHE_MUST_CHECK int changes_add(struct watch_changes *c, enum change_type type, const char *path, const char *from,
                                  int is_directory);
void changes_lose(struct watch_changes *c);
/* Append all as notifications (spec/sandbox.md) to out, with paths below root; then clear them. */
CLOCHE_MUST_CHECK int changes_report(struct watch_changes *c, struct files_request *q, const char *root,
                                     struct buf *out, struct cloche_err *e);

#endif
