/* Colours on a terminal. Runs in: the CLI, as its user. */
#include "style.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names of colours, not their values: the user's terminal has chosen them for its background. */
static const char *const sequences[] = {
        [STYLE_NONE] = "",        [STYLE_HEADING] = "\033[1m", [STYLE_GOOD] = "\033[32m",  [STYLE_WAITING] = "\033[33m",
        [STYLE_BAD] = "\033[31m", [STYLE_PAST] = "\033[2m",    [STYLE_CHOSEN] = "\033[7m",
};

int style_is_on(FILE *out)
{
        const char *none = getenv("NO_COLOR"), *kind = getenv("TERM");

        return isatty(fileno(out)) && !(none && *none) && kind && *kind && strcmp(kind, "dumb") != 0;
}

const char *style_begin(enum style style, int is_on)
{
        return is_on ? sequences[style] : "";
}

const char *style_end(enum style style, int is_on)
{
        return is_on && style != STYLE_NONE ? "\033[0m" : "";
}

enum style style_of_state(const char *state)
{
        static const struct {
                const char *state;
                enum style style;
        } rows[] = {
                {"running", STYLE_GOOD},     {"ready", STYLE_GOOD},       {"idle", STYLE_GOOD},
                {"busy", STYLE_GOOD},        {"open", STYLE_GOOD},        {"enforced", STYLE_GOOD},
                {"allowed", STYLE_GOOD},     {"starting", STYLE_WAITING}, {"paused", STYLE_WAITING},
                {"degraded", STYLE_WAITING}, {"stopped", STYLE_PAST},     {"completed", STYLE_PAST},
                {"closed", STYLE_PAST},      {"off", STYLE_PAST},         {"failed", STYLE_BAD},
                {"error", STYLE_BAD},        {"killed", STYLE_BAD},       {"ended", STYLE_BAD},
                {"denied", STYLE_BAD},       {"absent", STYLE_BAD},
        };
        size_t size = strcspn(state, " ");

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (strlen(rows[i].state) == size && memcmp(rows[i].state, state, size) == 0)
                        return rows[i].style;
        return STYLE_NONE;
}
