#include "err.h"

#include <cloche/guards.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
        const char *name;
        const char *text;
        enum cloche_fault fault;
} codes[CLOCHE_CODE_COUNT] = {
        [CLOCHE_OK] = {"ok", "No error.", CLOCHE_FAULT_NONE},
#define CLOCHE_ERROR(symbol, name, fault, http, text) [CLOCHE_E_##symbol] = {name, text, CLOCHE_FAULT_##fault},
#include <cloche/errors.def>
#undef CLOCHE_ERROR
};

static const char *const status_names[CLOCHE_STATUS_COUNT] = {
#define CLOCHE_STATUS(symbol, name, exit_code, doc) [CLOCHE_STATUS_##symbol] = name,
#include <cloche/statuses.def>
#undef CLOCHE_STATUS
};

static const char *const guard_names[CLOCHE_GUARD_COUNT] = {
#define CLOCHE_GUARD(symbol, name, profile, doc) [CLOCHE_GUARD_##symbol] = name,
#include <cloche/guards.def>
#undef CLOCHE_GUARD
};

static const char *const guard_state_names[CLOCHE_GUARD_STATE_COUNT] = {
        [CLOCHE_GUARD_ABSENT] = "absent",
        [CLOCHE_GUARD_DEGRADED] = "degraded",
        [CLOCHE_GUARD_ENFORCED] = "enforced",
        [CLOCHE_GUARD_OFF] = "off",
};

static const enum cloche_profile guard_profiles[CLOCHE_GUARD_COUNT] = {
#define CLOCHE_GUARD(symbol, name, profile, doc) [CLOCHE_GUARD_##symbol] = CLOCHE_PROFILE_##profile,
#include <cloche/guards.def>
#undef CLOCHE_GUARD
};

const char *cloche_code_name(unsigned code)
{
        return code < CLOCHE_CODE_COUNT ? codes[code].name : "unknown";
}

const char *cloche_code_text(unsigned code)
{
        return code < CLOCHE_CODE_COUNT ? codes[code].text : "An error of a newer Cloche.";
}

enum cloche_fault cloche_code_fault(unsigned code)
{
        return code < CLOCHE_CODE_COUNT ? codes[code].fault : CLOCHE_FAULT_BUG;
}

const char *cloche_status_name(enum cloche_status status)
{
        return (unsigned)status < CLOCHE_STATUS_COUNT ? status_names[status] : "unknown";
}

const char *cloche_guard_name(enum cloche_guard guard)
{
        return (unsigned)guard < CLOCHE_GUARD_COUNT ? guard_names[guard] : "unknown";
}

const char *cloche_guard_state_name(enum cloche_guard_state state)
{
        return (unsigned)state < CLOCHE_GUARD_STATE_COUNT ? guard_state_names[state] : "unknown";
}

int cloche_guard_is_missing(enum cloche_guard_state state)
{
        return state != CLOCHE_GUARD_ENFORCED && state != CLOCHE_GUARD_OFF;
}

uint32_t cloche_profile_guards(enum cloche_profile profile)
{
        uint32_t guards = 0;

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                if (profile != CLOCHE_PROFILE_NONE && guard_profiles[g] == profile)
                        guards |= 1u << g;
        return guards;
}

int err_set(struct cloche_err *e, enum cloche_code code, const char *format, ...)
{
        va_list ap;

        if (!e)
                return -(int)code;
        *e = (struct cloche_err){.code = (uint16_t)code};
        va_start(ap, format);
        vsnprintf(e->msg, sizeof(e->msg), format, ap);
        va_end(ap);
        return -(int)code;
}

int err_os(struct cloche_err *e, enum cloche_code code, int os_errno, const char *format, ...)
{
        char cause[64];
        va_list ap;
        int n;

        if (!e)
                return -(int)code;
        *e = (struct cloche_err){.code = (uint16_t)code, .os_errno = os_errno};
        snprintf(cause, sizeof(cause), ": %s", strerror(os_errno));
        va_start(ap, format);
        n = vsnprintf(e->msg, sizeof(e->msg), format, ap);
        va_end(ap);
        if (n < 0)
                n = 0;
        if ((size_t)n + strlen(cause) >= sizeof(e->msg))
                n = (int)(sizeof(e->msg) - strlen(cause) - 1);
        strcpy(e->msg + n, cause);
        return -(int)code;
}

int err_wrap(struct cloche_err *e, const char *format, ...)
{
        char context[sizeof(e->msg)];
        size_t cause_size, room;
        va_list ap;

        if (!e)
                return -CLOCHE_E_INTERNAL;
        va_start(ap, format);
        vsnprintf(context, sizeof(context), format, ap);
        va_end(ap);
        cause_size = strlen(e->msg) + 1;
        if (cause_size + 2 >= sizeof(e->msg))
                return -(int)e->code;
        room = sizeof(e->msg) - cause_size - 2;
        if (strlen(context) > room)
                context[room] = '\0';
        memmove(e->msg + strlen(context) + 2, e->msg, cause_size);
        memcpy(e->msg, context, strlen(context));
        memcpy(e->msg + strlen(context), ": ", 2);
        return -(int)e->code;
}

int err_check(struct cloche_err *e)
{
        if (e->code >= CLOCHE_CODE_COUNT || !memchr(e->msg, '\0', sizeof(e->msg)))
                return err_set(e, CLOCHE_E_PROTOCOL, "an error value from another process is malformed");
        return 0;
}
