/* One function per operation: 0 with a result in q, or an error. Long ones run in
 * their own process (job.h). */
#ifndef CLOCHE_BOX_FILES_OPERATIONS_H
#define CLOCHE_BOX_FILES_OPERATIONS_H

#include "request.h"

typedef int (*operation_run)(struct files_request *q, struct cloche_err *e);

struct files_operation {
        const char *method;
        operation_run run;
        enum { SHORT, LONG, LONG_IF_RECURSIVE } length;
};

/* NULL: not found. */
const struct files_operation *operation_find(const char *method);
int operation_is_long(const struct files_operation *operation, const json_t *params);

int file_write(struct files_request *q, struct cloche_err *e);
int file_read(struct files_request *q, struct cloche_err *e);
int file_stat(struct files_request *q, struct cloche_err *e);
int file_exists(struct files_request *q, struct cloche_err *e);
int file_list(struct files_request *q, struct cloche_err *e);
int file_mkdir(struct files_request *q, struct cloche_err *e);
int file_move(struct files_request *q, struct cloche_err *e);
int file_copy(struct files_request *q, struct cloche_err *e);
int file_remove(struct files_request *q, struct cloche_err *e);
int file_search(struct files_request *q, struct cloche_err *e);
int file_replace(struct files_request *q, struct cloche_err *e);
int file_watch(struct files_request *q, struct cloche_err *e);
int archive_create(struct files_request *q, struct cloche_err *e);
int archive_extract(struct files_request *q, struct cloche_err *e);

#endif
