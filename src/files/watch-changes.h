/* Changes that are not told yet: joined where one says what another said, and few. */
#ifndef CLOCHE_FILES_WATCH_CHANGES_H
#define CLOCHE_FILES_WATCH_CHANGES_H

#include "request.h"

#define CHANGES_MAX 1000

enum change_type { CHANGE_CREATE, CHANGE_MODIFY, CHANGE_DELETE, CHANGE_MOVE, CHANGE_ATTRIB };

struct change {
        enum change_type type;
        char *path, *from; /* below the root; owned. from: of a move */
        int is_directory;
        struct timespec time;
};

struct changes {
        struct change items[CHANGES_MAX];
        size_t count;
        int is_lost; /* there were more */
};

/* from: NULL but of a move. When there is no room all are given up, and lost. 0 or -ENOMEM. */
CLOCHE_MUST_CHECK int changes_add(struct changes *c, enum change_type type, const char *path, const char *from, int is_directory);
void changes_lose(struct changes *c);
/* All of them as notifications (spec/sandbox.md) to out, below root; then there are none. */
CLOCHE_MUST_CHECK int changes_tell(struct changes *c, struct request *q, const char *root, struct buf *out, struct cloche_err *e);

#endif
