/* Errors of the search for a daemon, in the words of spec/discovery-faults.def.
 * Runs in: the CLI and cloched, as the user who started them. */
#include "discovery.h"

#include "base/err.h"

#include <string.h>

int discovery_fault(struct cloche_err *e, enum discovery_fault fault, const char *about, const char *more)
{
        static const struct {
                enum cloche_code code;
                const char *text;
        } rows[] = {
#define DISCOVERY_FAULT(symbol, code, text) [DISCOVERY_##symbol] = {CLOCHE_E_##code, text},
#include <cloche/discovery-faults.def>
#undef DISCOVERY_FAULT
        };
        const char *text = rows[fault].text, *first = strstr(text, "%s"),
                   *second = first ? strstr(first + 2, "%s") : NULL, *end = text + strlen(text);
        const char *after = first ? first + 2 : end, *last = second ? second + 2 : end;

        return err_set(e, rows[fault].code, "%.*s%s%.*s%s%s", (int)((first ? first : end) - text), text,
                       about ? about : "", (int)((second ? second : end) - after), after, second && more ? more : "",
                       last);
}
