/* sandbox.logs: the lines lie in a file beside the definition, one object a line, so that they
 * outlive the daemon and cost no memory; without a state directory, in a list. A file that has
 * grown too large loses its older half. Runs in: cloched-engine, on its loop, with the rights of
 * the daemon's user. */
#include "log.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "sandbox/core/store.h"
#include "wire/json.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (64u << 10)
#define LINES_MAX 200 /* without a state directory */
#define MESSAGE_BYTES 512

/* -- the file --------------------------------------------------------------------------------------------------- */

/* Read its end: it has more than it should if it could not be shortened. NULL: there is none, or no
 * memory. */
static char *read_file(int dir_fd, size_t *ret_size)
{
        _cleanup_fd_ int fd = openat(dir_fd, SANDBOX_STORE_LOG, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat st;
        size_t size;
        char *text;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return NULL;
        size = st.st_size > 2 * FILE_BYTES_MAX ? 2 * FILE_BYTES_MAX : (size_t)st.st_size;
        text = malloc(size + 1);
        if (!text || lseek(fd, st.st_size - (off_t)size, SEEK_SET) < 0 || fd_read_full(fd, text, size) < 0) {
                free(text);
                return NULL;
        }
        text[size] = '\0';
        *ret_size = size;
        return text;
}

static void shorten(int dir_fd)
{
        size_t size;
        char *text = read_file(dir_fd, &size), *line = text ? memchr(text + size / 2, '\n', size - size / 2) : NULL;

        if (line)
                (void)sandbox_store_write_text(dir_fd, SANDBOX_STORE_LOG, line + 1); /* if it fails, the next tries */
        free(text);
}

/* The end of a line is written by the next one, so that a torn line takes no other with it. */
static int append(const struct sandbox *s, const json_t *row)
{
        _cleanup_fd_ int dir_fd = sandbox_store_open(s, 0), fd = -EBADF;
        char *text = json_dump_text(row, JSON_COMPACT), *line = NULL;
        struct stat st;
        int r = dir_fd < 0 ? dir_fd : text && asprintf(&line, "\n%s", text) > 0 ? 0 : -ENOMEM;

        if (r == 0)
                fd = openat(dir_fd, SANDBOX_STORE_LOG, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (r == 0)
                r = fd < 0 || fstat(fd, &st) < 0 ? -errno : fd_write_full(fd, line, strlen(line));
        if (r == 0 && st.st_size > FILE_BYTES_MAX)
                shorten(dir_fd);
        free(text);
        free(line);
        return r;
}

/* -- lines ------------------------------------------------------------------------------------------------------ */

static void keep(struct sandbox *s, json_t *row)
{
        if (!s->log)
                s->log = json_array();
        if (json_array_size(s->log) >= LINES_MAX)
                json_array_remove(s->log, 0);
        json_array_append(s->log, row);
}

void sandbox_log(struct sandbox *s, const char *event, const char *message)
{
        json_t *row;

        if (s->is_pooled || s->is_deleted || s->awaits_files)
                return;
        row = json_pack("{s:o, s:s, s:s*}", "time", sandbox_time_json(clock_real_ms()), "event", event, "message",
                        message);
        if (row && s->log_missed)
                json_object_set_new(row, "missed", json_integer(s->log_missed));
        if (!row || (s->all->state_fd >= 0 && append(s, row) < 0))
                s->log_missed++; /* the disk is full; a later line says so */
        else
                s->log_missed = 0;
        if (row && s->all->state_fd < 0)
                keep(s, row);
        json_decref(row);
}

void sandbox_log_format(struct sandbox *s, const char *event, const char *format, ...)
{
        char message[MESSAGE_BYTES];
        va_list args;

        va_start(args, format);
        vsnprintf(message, sizeof(message), format, args);
        va_end(args);
        sandbox_log(s, event, message);
}

void sandbox_log_state(struct sandbox *s, enum sandbox_state before)
{
        const char *cause = s->cause ? s->cause : "by a request";

        if (s->state == SANDBOX_RUNNING && before == SANDBOX_STARTING)
                sandbox_log(s, "started", NULL);
        else if (s->state == SANDBOX_RUNNING && before == SANDBOX_RESUMING)
                sandbox_log(s, "resumed", NULL);
        else if (s->state == SANDBOX_PAUSED)
                sandbox_log_format(s, "paused", "%s, with its memory", cause);
        else if (s->state == SANDBOX_STOPPED && s->has_files_only)
                sandbox_log_format(s, "paused", "%s, with its files only", cause);
        else if (s->state == SANDBOX_STOPPED)
                sandbox_log(s, "stopped", cause);
        if (s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED || s->state == SANDBOX_STOPPED)
                s->cause = NULL;
}

void sandbox_log_free(struct sandbox *s)
{
        json_decref(s->log);
        s->log = NULL;
}

/* -- the method ------------------------------------------------------------------------------------------------- */

/* A line that is torn by the end of a machine is none. */
static json_t *read_lines(const struct sandbox *s)
{
        _cleanup_fd_ int dir_fd = sandbox_store_open(s, 0);
        json_t *list = json_array();
        size_t size;
        char *text = dir_fd < 0 ? NULL : read_file(dir_fd, &size), *rest = text, *line;

        while (rest && (line = strsep(&rest, "\n"))) {
                json_t *row = json_loads(line, JSON_REJECT_DUPLICATES, NULL);

                if (json_is_string(json_object_get(row, "time")) && json_is_string(json_object_get(row, "event")))
                        json_array_append(list, row);
                json_decref(row);
        }
        free(text);
        return list;
}

int handle_LOGS(struct sandbox_request *request, struct cloche_err *e)
{
        const struct sandbox *s = request->sandbox;
        uint64_t limit = sandbox_request_count(request, "limit", UINT64_MAX);
        json_t *list = s->all->state_fd >= 0 ? read_lines(s) : s->log ? json_copy(s->log) : json_array();

        (void)e;
        while (json_array_size(list) > limit)
                json_array_remove(list, 0);
        sandbox_request_result(request, json_pack("{s:o}", "lines", list), NULL);
        return 0;
}
