/* The file program of a sandbox. */
#ifndef CLOCHE_SANDBOX_CORE_TOOL_H
#define CLOCHE_SANDBOX_CORE_TOOL_H

#include "sandboxes.h"

/* Send a request to the file program. on_done: result or e. Cancel it with sandbox_tool_cancel. */
struct tool_job;
int sandbox_tool_request(struct sandbox *s, const char *method, json_t *params, const struct buf *attachments,
                         void (*on_done)(void *data, const json_t *result, const struct buf *attachments,
                                         const struct cloche_err *e),
                         void *data, struct tool_job **ret, struct cloche_err *e);
void sandbox_tool_cancel(struct tool_job *job);
void sandbox_tools_exited(struct sandbox *s, const struct init_answer *exit);
void sandbox_tools_on_box_closed(struct sandbox *s);

#endif
