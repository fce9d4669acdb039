/* Output of commands in answers. */
#ifndef CLOCHE_SANDBOX_SESSION_EXEC_H
#define CLOCHE_SANDBOX_SESSION_EXEC_H

#include "sandbox/process/process.h"

/* exec.c: add a page of output, cut between characters. Returns 0 or -ENOMEM. */
int session_put_page(json_t *answer, const char *name, const struct spool *spool, uint64_t offset, uint64_t most,
                     struct buf *attachments, uint64_t *ret_next);
/* Return the maximum of bytes of each stream in the answer. */
uint64_t session_output_most(const struct sandbox_request *request);

#endif
