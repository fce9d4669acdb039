/* Directories and files of the host in a sandbox, under the rules that runs have. */
#ifndef CLOCHE_SANDBOX_ENVIRONMENT_MOUNTS_H
#define CLOCHE_SANDBOX_ENVIRONMENT_MOUNTS_H

#include "sandbox/core/sandboxes.h"

/* Check the member "mount" of a request that creates a sandbox. */
int sandbox_mounts_check(const struct sandbox_request *request, struct cloche_err *e);
/* Give the new sandbox the mounts that were checked. */
void sandbox_mounts_define(struct sandbox *s, const struct sandbox_request *request);

/* Before its box is made; then, when it is. user: of the keeper's answer. */
CLOCHE_MUST_CHECK int sandbox_mounts_prepare(struct sandbox *s, struct cloche_err *e);
CLOCHE_MUST_CHECK int sandbox_mounts_serve(struct sandbox *s, uint32_t user, struct cloche_err *e);
/* True if all are served, or there are none. */
int sandbox_mounts_are_ready(const struct sandbox *s);
void sandbox_mounts_close(struct sandbox *s);

/* The unix socket of the user whose request it is, borrowed; negative: none. */
int sandbox_mounts_caller(const struct sandbox_request *request);

/* mounts-sync.c: if the request to stop the sandbox has "sync", remember it in s->mounts_sync. */
int sandbox_mounts_want_sync(struct sandbox *s, const struct sandbox_request *request, struct cloche_err *e);
/* Write the changes to the host; no program of the guest runs any more. sandbox_mounts_turn
 * calls done; the outcome is in s->synced. */
void sandbox_mounts_sync(struct sandbox *s, void (*done)(struct sandbox *s, const struct cloche_err *e));
void sandbox_mounts_turn(struct sandbox *s);
/* Undo or finish it without a call of done. */
void sandbox_mounts_end_sync(struct sandbox *s);

/* The mounts, each with its state. */
json_t *sandbox_mounts_json(const struct sandbox *s);

#endif
