/* States of objects. Each object has a table of legal transitions: for each state, the set of
 * the states that may follow. A transition that is not in the table is a bug of ours, so it ends
 * the program. No guest and no caller can cause one. A message of a box's PID 1, of a shell or
 * of an agent causes a transition only if it is the one answer to a request that was sent
 * (engine/loop/control.c, sandbox/session/shell.c, wire/client.c) and the state is the one in
 * which it is awaited; otherwise it is an error of its sandbox. tests/unit/test-sandbox.c plays
 * boxes that send such messages at random. */
#ifndef CLOCHE_BASE_STATE_H
#define CLOCHE_BASE_STATE_H

#include <assert.h>

#define STATE_TO(state) (1u << (state))

#define STATE_CHECK(transitions, from, to) assert((transitions)[from] & STATE_TO(to))

#endif
