/* libcloche-guest: the delicate parts of a template, for agents of any language (ctypes, N-API,
 * Fiddle, FFI). It uses only system calls and a few plain functions of the interpreter's C library.
 *
 * Life cycle of a template:
 * 1) cloche_guest_start, before any code of others runs.
 * 2) cloche_guest_freeze, when everything is set up: fails with the fork blockers, if any.
 * 3) cloche_guest_wait, in a loop: it returns when a child is requested.
 * 4) The language forks in its own way.
 * 5) cloche_guest_parent in the template, which waits again; cloche_guest_child in the child. The
 *    child is then in its box, without rights, with its own 0, 1, 2 and the channel on descriptor
 *    3, and serves it like a freshly started agent.
 *
 * A context that was forked to be a template runs code of others between its forks. On a `branch`
 * request it 1) freezes, which checks its present state; 2) answers; 3) calls cloche_guest_wait_for
 * in a loop, forking as above, until that returns 2: the next request has come. Its other children
 * belong to the code and are left alone. While no cell runs it waits in cloche_guest_idle and calls
 * cloche_guest_reap, so that boxes of dropped forks can end.
 * Its forks are still its children: code that waits for any child (wait(2)) may get one, and then
 * its status is lost. At most 27 contexts can be forked, each from the one before. A fork ends when
 * the box of its parent ends, not when the parent's interpreter does.
 * Hostile code may keep a way into later forks, and is in them anyway: forking is a wall only from
 * the fork back to its parent.
 *
 * One thread calls these. Functions return 0 or more, or -errno. */
#ifndef CLOCHE_BOX_JOIN_GUEST_H
#define CLOCHE_BOX_JOIN_GUEST_H

#include <stddef.h>

#define CLOCHE_GUEST_API __attribute__((visibility("default")))

/* Descriptors from the engine, before the agent moves them. */
#define CLOCHE_GUEST_CHANNEL_FD 3
#define CLOCHE_GUEST_FORK_FD 4

/* Return 1 if this process was started as a template (descriptor 4 is a fork socket), else 0. Move
 * the descriptor away from number 4, keep CAP_SYS_ADMIN from programs that later code starts, and
 * record the interpreter's own descriptors and threads. */
CLOCHE_GUEST_API int cloche_guest_start(void);

/* Return 0 if the process can be forked now; else -EBUSY, and text names the blockers: threads,
 * descriptors, child processes. Threads of a library that ends them around forks
 * (pthread_atfork(3)) count as long as they live: fork and end a child before. */
CLOCHE_GUEST_API int cloche_guest_freeze(int channel_fd, char *text, size_t size);

/* Tell of a file of the image that was read and not mapped, a module in source form. A fork in a
 * sandbox that changed it fails, as for the mapped ones, which freeze finds. */
CLOCHE_GUEST_API void cloche_guest_loaded(const char *path);

/* Wait for a request for a child: 1. Meanwhile exits of children are reported on the channel. 0: no
 * more requests will come. */
CLOCHE_GUEST_API int cloche_guest_wait(void);

/* For a context: the same, but 2 if channel_fd is readable and no fork is requested. With 2 and 0
 * the signals are as before. */
CLOCHE_GUEST_API int cloche_guest_wait_for(int channel_fd);
/* Wait without blocking threads or signals: 1 if channel_fd is readable; 0 if a fork has ended or a
 * signal came: reap, and wait again. */
CLOCHE_GUEST_API int cloche_guest_idle(int channel_fd);
/* Report forks that have ended, on the channel. No other thread may be writing to it. */
CLOCHE_GUEST_API void cloche_guest_reap(void);

/* Enter namespaces from pthread_atfork handlers, for interpreters that start a thread before fork
 * returns (Ruby 3.3): setns(CLONE_NEWUSER) fails in a process with threads. cloche_guest_child and
 * cloche_guest_parent are still called. Returns 0 or -errno. */
CLOCHE_GUEST_API int cloche_guest_watch_fork(void);

/* Call it in the template after its fork; pid: the child, or -errno of the fork. */
CLOCHE_GUEST_API void cloche_guest_parent(int pid);

/* Call it in the child. Returns 1 if the child is a template too, else 0. A child that cannot enter
 * reports that on the template's channel and exits. */
CLOCHE_GUEST_API int cloche_guest_child(void);

/* Memory for an interpreter's own allocator (Python's PyObjectArenaAllocator), from regions that
 * the kernel backs with huge pages. NULL if there is none. Freed arenas are reused. */
CLOCHE_GUEST_API void *cloche_guest_arena_alloc(void *unused, size_t size);
CLOCHE_GUEST_API void cloche_guest_arena_free(void *unused, void *arena, size_t size);

/* Move the process's private writable memory onto huge pages (madvise(2) MADV_COLLAPSE, Linux 6.1),
 * which makes a fork and the exit of a child several times cheaper. This unshares memory that a
 * prefix shares with its base, so that happens only with shared_too. Returns the number of bytes
 * moved; harmless where the kernel cannot. */
CLOCHE_GUEST_API long cloche_guest_collapse(int shared_too);

/* Replace the code of the program and its libraries, which is mapped from files, by copies on huge
 * pages. A fork maps these in its child, which otherwise faults once for every 16 pages of a file
 * that it runs in. Code smaller than a huge page stays. Returns the number of bytes moved; 0 where
 * the kernel has no MADV_COLLAPSE. */
CLOCHE_GUEST_API long cloche_guest_copy_code(void);

#endif
