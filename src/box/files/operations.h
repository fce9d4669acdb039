/* One function per operation: 0 with a result in q, or an error. Long ones run in their own process (job.h). */
#ifndef CLOCHE_BOX_FILES_OPERATIONS_H
#define CLOCHE_BOX_FILES_OPERATIONS_H

#include "request.h"

typedef int (*operation_run)(struct request *q, struct cloche_err *e);

struct operation {
        const char *method;
        operation_run run;
        enum { SHORT, LONG, LONG_IF_RECURSIVE } length;
};

/* NULL: not found. */
const struct operation *operation_find(const char *method);
int operation_is_long(const struct operation *operation, const json_t *params);

int file_write(struct request *q, struct cloche_err *e);
int file_read(struct request *q, struct cloche_err *e);
int file_stat(struct request *q, struct cloche_err *e);
int file_exists(struct request *q, struct cloche_err *e);
int file_list(struct request *q, struct cloche_err *e);
int file_mkdir(struct request *q, struct cloche_err *e);
int file_move(struct request *q, struct cloche_err *e);
int file_copy(struct request *q, struct cloche_err *e);
int file_remove(struct request *q, struct cloche_err *e);
int file_search(struct request *q, struct cloche_err *e);
int file_replace(struct request *q, struct cloche_err *e);
int file_watch(struct request *q, struct cloche_err *e);
int archive_create(struct request *q, struct cloche_err *e);
int archive_extract(struct request *q, struct cloche_err *e);

#endif
