/* Checks of the engine's requests: every field before use. Pure. */
#ifndef CLOCHE_KEEPER_REQUEST_H
#define CLOCHE_KEEPER_REQUEST_H

#include "proto/keeper.h"

/* size: number of bytes received. Returns 0 or an error that names the field. */
int keeper_request_check(const struct keeper_request *request, size_t size, struct cloche_err *e);

#endif
