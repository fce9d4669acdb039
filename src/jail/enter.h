/* From a fresh clone to PID 1 of a box. */
#ifndef CLOCHE_JAIL_ENTER_H
#define CLOCHE_JAIL_ENTER_H

#include "jail/root/plan.h"

#include <cloche/error.h>

/* Every namespace that a box is born in. The control group namespace comes later (reason:
 * enter.c). */
unsigned long enter_clone_flags(void);

/* Runs in the cloned child and does not return: executes plan->init_fd, or sends a struct
 * cloche_err to error_fd (a seqpacket socket) and exits. A template's box first sends one with code
 * 0 and the namespace of its root.
 * go_fd: becomes readable when the parent has mapped the user and moved us into our control groups;
 * end of file means that the parent gave up.
 * In a box that shares with a sandbox, end of file at error_fd means only that the child now enters
 * the sandbox's groups: it has entered them when its PID 1 answers. */
_Noreturn void enter_box(const struct jail_plan *plan, int go_fd, int error_fd);

/* The same for a child that was cloned in the namespaces of a sandbox, with its own pid and mount
 * namespaces. Box-init enters the control groups. */
_Noreturn void enter_shared_box(const struct jail_plan *plan, int go_fd, int error_fd);

#endif
