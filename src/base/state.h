/* States of objects. Each object has a table of legal transitions: for each state, the set of the
 * states that may follow. A transition that is not in the table is a bug of ours, so it ends the
 * program. No guest and no caller can cause one: answers of a box's PID 1 are checked before they
 * reach a state (engine/loop/control.c). */
#ifndef CLOCHE_BASE_STATE_H
#define CLOCHE_BASE_STATE_H

#include <assert.h>

#define STATE_TO(state) (1u << (state))

#define STATE_CHECK(transitions, from, to) assert((transitions)[from] & STATE_TO(to))

#endif
