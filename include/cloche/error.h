/* The errors of libcloche, and how runs end. Part of cloche.h. */
#ifndef CLOCHE_ERROR_H
#define CLOCHE_ERROR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CLOCHE_API __attribute__((visibility("default")))
#define CLOCHE_MUST_CHECK __attribute__((warn_unused_result))

enum cloche_fault { CLOCHE_FAULT_NONE, CLOCHE_FAULT_CALLER, CLOCHE_FAULT_GUEST, CLOCHE_FAULT_HOST, CLOCHE_FAULT_BUG };

enum cloche_code {
        CLOCHE_OK,
#define CLOCHE_ERROR(symbol, name, fault, http, text) CLOCHE_E_##symbol,
#include <cloche/errors.def>
#undef CLOCHE_ERROR
        CLOCHE_CODE_COUNT
};

enum cloche_status {
#define CLOCHE_STATUS(symbol, name, exit_code, doc) CLOCHE_STATUS_##symbol,
#include <cloche/statuses.def>
#undef CLOCHE_STATUS
        CLOCHE_STATUS_COUNT
};

/* Exit code of a script that did not compile (sysexits.h, EX_DATAERR). The type of its error is
 * CompileError or BuildError. */
#define CLOCHE_EXIT_NOT_COMPILED 65

/* An error value: plain bytes without allocations, of one layout in every process. Its 256 bytes
 * are written to a pipe in one piece (pipe(7), PIPE_BUF). */
struct cloche_err {
        uint16_t code; /* enum cloche_code */
        uint16_t reserved;
        int32_t os_errno; /* 0 when the cause is not a system call */
        char msg[248];    /* "build root: bind /usr: No such file or directory"; always terminated */
};

CLOCHE_API const char *cloche_code_name(unsigned code);
CLOCHE_API const char *cloche_code_text(unsigned code);
CLOCHE_API enum cloche_fault cloche_code_fault(unsigned code);
CLOCHE_API const char *cloche_status_name(enum cloche_status status);

#ifdef __cplusplus
}
#endif
#endif
