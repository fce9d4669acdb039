#include "log.h"

#include "base/clock.h"

#include <jansson.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const names[] = {"error", "warning", "info", "debug"};
static enum level shown = LEVEL_INFO;
static unsigned long lost;

int level_find(const char *name)
{
        for (int i = 0; i < 4; i++)
                if (strcmp(names[i], name) == 0)
                        return i;
        return -1;
}

void log_set_level(enum level level)
{
        shown = level;
}

int log_has_level(enum level level)
{
        return level <= shown;
}

static json_t *now(void)
{
        char text[CLOCK_TEXT_SIZE];

        return json_string(clock_text_now(text));
}

/* A slow reader of the log loses lines, and the log counts them: the daemon does not block. */
static void put(const char *line, size_t size)
{
        struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

        if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT) || write(STDERR_FILENO, line, size) != (ssize_t)size)
                lost++;
        else
                lost = 0;
}

void log_event(enum level level, const char *event, const char *format, ...)
{
        json_t *line, *more = NULL;
        va_list ap;
        char *text;

        if (level > shown)
                return;
        if (format) {
                va_start(ap, format);
                more = json_vpack_ex(NULL, 0, format, ap);
                va_end(ap);
        }
        line = json_pack("{s:o, s:s, s:s}", "time", now(), "level", names[level], "event", event);
        if (lost)
                json_object_set_new(line, "linesLost", json_integer((json_int_t)lost));
        if (more)
                json_object_update(line, more);
        text = line ? json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
        if (text) {
                size_t size = strlen(text);

                text[size] = '\n'; /* replaces the NUL: put() gets the size */
                put(text, size + 1);
        }
        free(text);
        json_decref(line);
        json_decref(more);
}
