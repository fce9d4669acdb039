/* Between the keeper and its helper cloche-scope: the exit status, and one line with the
 * reason on standard output. */
#ifndef CLOCHE_PROTO_SCOPE_H
#define CLOCHE_PROTO_SCOPE_H

enum scope_status {
        SCOPE_MOVED = 0,
        SCOPE_REFUSED = 1, /* the line has the reason */
        SCOPE_USAGE = 2,
        SCOPE_NO_MANAGER = 3, /* no service manager serves this user */
};

#define SCOPE_TIMEOUT_MS 20000 /* timeout of the helper, for all its steps together */

#endif
