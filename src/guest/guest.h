/* libcloche-guest: what is delicate about being a template, for agents of any language (ctypes, N-API, Fiddle, FFI). It
 * uses nothing but system calls and a few plain functions of whatever C library the interpreter has.
 *
 * Life cycle of a template: 1) cloche_guest_start before any code of others runs. 2) cloche_guest_freeze when everything
 * is set up: says what is in the way of forking, if anything. 3) cloche_guest_wait, again and again: it returns
 * when a child is wanted; 4) the language forks in its own way; 5) cloche_guest_parent in the template, which
 * waits again; cloche_guest_child in the child, which is then in its box, without rights, with its own 0, 1, 2
 * and channel on descriptor 3, and serves it like a freshly started agent.
 *
 * One thread calls these. Functions return 0 or more, or -errno. */
#ifndef CLOCHE_GUEST_H
#define CLOCHE_GUEST_H

#include <stddef.h>

#define CLOCHE_GUEST_API __attribute__((visibility("default")))

/* What a descriptor of the engine's is, before the agent moves it. */
#define CLOCHE_GUEST_CHANNEL_FD 3
#define CLOCHE_GUEST_FORK_FD 4

/* 1 when this process was started as a template (descriptor 4 is a fork socket), else 0. Takes the descriptor away from
 * number 4, takes CAP_SYS_ADMIN away from programs started by the code that is loaded next, and remembers which
 * descriptors and threads the interpreter itself has. */
CLOCHE_GUEST_API int cloche_guest_start(void);

/* 0 when the process can be forked; else -EBUSY and text says what is in the way: threads, descriptors, child processes. */
CLOCHE_GUEST_API int cloche_guest_freeze(int channel_fd, char *text, size_t size);

/* Wait until a child is wanted: 1. Meanwhile ends of children are told on the channel. 0: no more will be wanted. */
CLOCHE_GUEST_API int cloche_guest_wait(void);

/* In the template after its fork; pid: the child, or -errno of the fork. */
CLOCHE_GUEST_API void cloche_guest_parent(int pid);

/* In the child. Returns 1 when it is itself to be a template, else 0; a child that cannot enter says so on the template's
 * channel and ends. */
CLOCHE_GUEST_API int cloche_guest_child(void);

/* Memory for an interpreter's own allocator (Python's PyObjectArenaAllocator): from regions that the kernel backs with huge
 * pages. NULL when there is none. What is freed is given out again. */
CLOCHE_GUEST_API void *cloche_guest_arena_alloc(void *unused, size_t size);
CLOCHE_GUEST_API void cloche_guest_arena_free(void *unused, void *arena, size_t size);

/* Move the process's private writable memory onto huge pages (madvise(2) MADV_COLLAPSE, Linux 6.1), which makes a fork and the
 * end of a child several times cheaper. What it shares with another process, a prefix with its base, becomes its own by that,
 * so only on request. Returns how many bytes were moved; harmless where the kernel has none. */
CLOCHE_GUEST_API long cloche_guest_collapse(int shared_too);

#endif
