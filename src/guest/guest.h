/* libcloche-guest: what is delicate about being a template, for agents of any language (ctypes, N-API, Fiddle, FFI). It
 * uses nothing but system calls and a few plain functions of whatever C library the interpreter has.
 *
 * Life cycle of a template: 1) cloche_guest_start before any code of others runs. 2) cloche_guest_freeze when everything
 * is set up: says what is in the way of forking, if anything. 3) cloche_guest_wait, again and again: it returns
 * when a child is wanted; 4) the language forks in its own way; 5) cloche_guest_parent in the template, which
 * waits again; cloche_guest_child in the child, which is then in its box, without rights, with its own 0, 1, 2
 * and channel on descriptor 3, and serves it like a freshly started agent.
 *
 * A context that was forked to be a template runs code of others between its forks. Asked to `branch` it 1) freezes, which judges what is there now; 2) answers;
 * 3) calls cloche_guest_wait_for, again and again, forking as above, until that returns 2: the next request has come. Its other children are the code's own
 * and left alone. While no cell runs it waits in cloche_guest_idle and calls cloche_guest_reap, so that boxes of forks that were dropped can end.
 * Its forks are its children all the same: code that waits for any child (wait(2)) may be given one, and then nobody learns how that ended. One out of the
 * other, 27 contexts can be forked; what was forked ends when the box of the one it was forked from does, not with the interpreter in it.
 * Who is hostile before a fork may keep a way into it, and is in it anyway: forking is no wall between what was and what comes of it, only back from there.
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

/* 0 when the process can be forked now; else -EBUSY and text says what is in the way: threads, descriptors, child processes. Threads of a library that ends them
 * around forks (pthread_atfork(3)) count as long as they live: fork and end a child before. */
CLOCHE_GUEST_API int cloche_guest_freeze(int channel_fd, char *text, size_t size);

/* Wait until a child is wanted: 1. Meanwhile ends of children are told on the channel. 0: no more will be wanted. */
CLOCHE_GUEST_API int cloche_guest_wait(void);

/* Of a context: the same, but 2 when something is to be read at channel_fd and nobody waits to be forked. With 2 and 0 signals are as they were before. */
CLOCHE_GUEST_API int cloche_guest_wait_for(int channel_fd);
/* Wait without holding up threads or signals: 1 when something is to be read at channel_fd; 0 when a fork has ended or a signal came: reap, and wait again. */
CLOCHE_GUEST_API int cloche_guest_idle(int channel_fd);
/* Tell of forks that have ended, on the channel, to which nobody else may be writing. */
CLOCHE_GUEST_API void cloche_guest_reap(void);

/* Enter namespaces from pthread_atfork handlers, for interpreters that start a thread before fork returns (Ruby 3.3).
 * setns(CLONE_NEWUSER) fails in a process with threads. cloche_guest_child and cloche_guest_parent are still called.
 * 0, or -errno. */
CLOCHE_GUEST_API int cloche_guest_watch_fork(void);

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
