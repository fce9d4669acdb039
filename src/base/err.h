/* The one error value. Allocation-free: works between clone and exec, after
 * out-of-memory, and across pipes. */
#ifndef CLOCHE_BASE_ERR_H
#define CLOCHE_BASE_ERR_H

#include <cloche/error.h>

/* Set *e and return -code. e may be NULL. */
int err_set(struct cloche_err *e, enum cloche_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same for a failed system call: ": strerror(os_errno)" is appended. */
int err_os(struct cloche_err *e, enum cloche_code code, int os_errno, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* Put "context: " before the message; if it does not fit, context is cut, never the cause. Returns
 * -e->code. */
int err_wrap(struct cloche_err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Check a value from another process: code in range, text terminated. Returns 0, or
 * -CLOCHE_E_PROTOCOL with *e replaced. */
int err_check(struct cloche_err *e);

#endif
