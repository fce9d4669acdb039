/* Files and trees of a sandbox as HTTP bodies. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "sandbox-raw.h"
#include "request.h"

#include "base/err.h"
#include "daemon/http/range.h"
#include "daemon/http/server.h"
#include "sandbox/core/sandbox.h"
#include "wire/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PIECE_BYTES (1u << 20)
#define BYTES_TYPE "application/octet-stream"

/* One body. It ends with its request, and its temporary file in the sandbox is removed then. */
struct raw {
        struct daemon *daemon;
        struct http_request *request;
        int64_t principal;
        json_t *sandbox, *path, *format;
        int is_put, is_tree;
        json_t *temp; /* our temporary file in the sandbox; NULL: none yet */
        struct sandbox_request *sandbox_request;
        void (*then)(struct raw *raw, const json_t *result, const struct buf *attachments);
        /* for a body that is sent */
        const json_t *source; /* path or temp */
        struct range range;
        uint64_t at, end;
        int is_begun;
        /* for a body that is received */
        struct buf in;
        uint64_t written;
        json_t *mode; /* of the file that is replaced */
        int is_ready, is_made, is_whole;
};

static void fail(struct raw *raw, const struct cloche_err *e, const json_t *about)
{
        if (raw->is_begun)
                http_stream_break(raw->request); /* raw is freed */
        else
                web_refuse_with(raw->request, web_status(e), e, about ? json_deep_copy(about) : NULL);
}

/* -- requests to the core ------------------------------------------------------------------------------------- */

static void on_result(void *data, const json_t *result, const struct buf *attachments)
{
        struct raw *raw = data;

        raw->sandbox_request = NULL;
        raw->then(raw, result, attachments);
}

static void on_fail(void *data, const struct cloche_err *e, const json_t *about)
{
        struct raw *raw = data;

        raw->sandbox_request = NULL;
        fail(raw, e, about);
}

static const struct sandbox_face face = {.result = on_result, .fail = on_fail};

/* params: stolen. */
static void send_request_with(struct raw *raw, const char *method, json_t *params, const struct buf *attachments,
                              const struct sandbox_face *callbacks,
                              void (*then)(struct raw *raw, const json_t *result, const struct buf *attachments))
{
        struct cloche_err e = {0};
        int r = params ? json_object_set(params, "sandbox", raw->sandbox) : -1;

        raw->then = then;
        r = r < 0 ? err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "make a request to a sandbox")
                  : sandboxes_request(raw->daemon->sandboxes, raw->principal, method, params, attachments, callbacks,
                                      raw, &raw->sandbox_request, &e);
        json_decref(params);
        if (r < 0)
                fail(raw, &e, NULL);
}

static void send_request(struct raw *raw, const char *method, json_t *params,
                         void (*then)(struct raw *raw, const json_t *result, const struct buf *attachments))
{
        static const struct buf none;

        send_request_with(raw, method, params, &none, &face, then);
}

/* -- temporary files in the sandbox --------------------------------------------------------------------------- */

/* A removal runs on its own. It does not start a sandbox that has ended or is stopped. */
struct sweep {
        struct daemon *daemon;
        int64_t principal;
        json_t *params;
};

static void sweep_free(struct sweep *sweep)
{
        json_decref(sweep->params);
        free(sweep);
}

static void on_swept(void *data, const json_t *result, const struct buf *attachments)
{
        (void)result;
        (void)attachments;
        sweep_free(data);
}

static void on_not_swept(void *data, const struct cloche_err *e, const json_t *about)
{
        (void)e;
        (void)about;
        sweep_free(data);
}

static void on_looked(void *data, const json_t *result, const struct buf *attachments)
{
        static const struct sandbox_face swept = {.result = on_swept, .fail = on_not_swept};
        const char *state = json_string_value(json_object_get(result, "state"));
        struct sweep *sweep = data;
        struct sandbox_request *none;

        (void)attachments;
        if (!state || strcmp(state, "running") != 0 ||
            sandboxes_request(sweep->daemon->sandboxes, sweep->principal, "file.remove", sweep->params,
                              &(struct buf){0}, &swept, sweep, &none, NULL) < 0)
                sweep_free(sweep);
}

static void remove_temp(struct raw *raw)
{
        static const struct sandbox_face looked = {.result = on_looked, .fail = on_not_swept};
        struct sweep *sweep = raw->temp ? calloc(1, sizeof(*sweep)) : NULL;
        json_t *which = sweep ? json_pack("{s:O}", "sandbox", raw->sandbox) : NULL;
        struct sandbox_request *none;

        if (!sweep)
                return;
        *sweep = (struct sweep){raw->daemon, raw->principal,
                                json_pack("{s:O, s:O, s:b}", "sandbox", raw->sandbox, "path", raw->temp, "force", 1)};
        if (!sweep->params || raw->daemon->state > DAEMON_STOPPING ||
            sandboxes_request(raw->daemon->sandboxes, raw->principal, "sandbox.get", which, &(struct buf){0}, &looked,
                              sweep, &none, NULL) < 0)
                sweep_free(sweep);
        json_decref(which);
}

static json_t *temp_name(const struct raw *raw)
{
        uint64_t number = 0;

        while (getrandom(&number, sizeof(number), 0) != sizeof(number))
                ;
        if (raw->is_tree)
                return json_sprintf("/tmp/.cloche-tree-%016" PRIx64 ".%s", number, json_string_value(raw->format));
        return json_sprintf("%s.cloche-upload-%016" PRIx64, json_string_value(raw->path), number);
}

/* -- sending -------------------------------------------------------------------------------------------------- */

static void on_piece(struct raw *raw, const json_t *result, const struct buf *attachments);

static void read_piece(struct raw *raw)
{
        uint64_t most =
                raw->range.kind == RANGE_LAST && !raw->is_begun ? 1 : PIECE_BYTES; /* the size is needed first */

        if (raw->is_begun && raw->end - raw->at < most)
                most = raw->end - raw->at;
        send_request(raw, "file.read",
                     json_pack("{s:O, s:I, s:I}", "path", raw->source, "offset", (json_int_t)raw->at, "limit",
                               (json_int_t)most),
                     on_piece);
}

static const char *content_of(const json_t *result, const struct buf *attachments, size_t *ret_size)
{
        const json_t *content = json_object_get(result, "content");
        json_int_t at = json_integer_value(json_object_get(content, "at")),
                   n = json_integer_value(json_object_get(content, "n"));

        *ret_size = json_is_string(content) ? json_string_length(content) : 0;
        if (json_is_string(content))
                return json_string_value(content);
        if (at < 0 || n < 0 || (size_t)at > attachments->size || (size_t)n > attachments->size - (size_t)at)
                return "";
        *ret_size = (size_t)n;
        return n ? attachments->data + at : "";
}

/* The first answer has the size of the file. 0: continue. */
static int begin_out(struct raw *raw, uint64_t total)
{
        struct cloche_err e = {0};
        char text[80];

        if (range_resolve(&raw->range, total, &raw->at, &raw->end) < 0) {
                snprintf(text, sizeof(text), "bytes */%" PRIu64, total);
                http_add_header(raw->request, "Content-Range", text);
                err_set(&e, CLOCHE_E_INVALID_ARGUMENT,
                        "the range begins after the end of the file, which has %" PRIu64 " bytes", total);
                web_refuse_with(raw->request, 416, &e, NULL);
                return -1;
        }
        http_add_header(raw->request, "Accept-Ranges", "bytes");
        http_add_header(raw->request, "Content-Disposition",
                        "attachment"); /* a browser must not show a guest's file as our page */
        if (raw->range.kind != RANGE_ALL) {
                snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, raw->at, raw->end - 1, total);
                http_add_header(raw->request, "Content-Range", text);
        }
        raw->is_begun = 1;
        http_stream_raw(raw->request, raw->range.kind == RANGE_ALL ? 200 : 206, BYTES_TYPE,
                        (int64_t)(raw->end - raw->at));
        return 0;
}

static void go_on_out(struct raw *raw)
{
        if (raw->at == raw->end)
                http_stream_end(raw->request);
        else if (!raw->sandbox_request && http_stream_waiting(raw->request) < PIECE_BYTES)
                read_piece(raw);
}

static void on_piece(struct raw *raw, const json_t *result, const struct buf *attachments)
{
        int is_first = !raw->is_begun, is_only_size = is_first && raw->range.kind == RANGE_LAST;
        size_t size;
        const char *bytes = content_of(result, attachments, &size);

        if (is_first && begin_out(raw, (uint64_t)json_integer_value(json_object_get(result, "total"))) < 0)
                return;
        if (is_only_size)
                size = 0;
        if (size > raw->end - raw->at)
                size = (size_t)(raw->end - raw->at);
        raw->at += size;
        if ((size == 0 && !is_only_size && raw->at < raw->end) || http_stream_write(raw->request, bytes, size) < 0)
                http_stream_break(raw->request); /* the file was truncated meanwhile */
        else
                go_on_out(raw);
}

static void on_packed(struct raw *raw, const json_t *result, const struct buf *attachments)
{
        (void)result;
        (void)attachments;
        raw->source = raw->temp;
        read_piece(raw);
}

static void start_out(struct raw *raw)
{
        raw->range = range_parse(http_request_header(raw->request, "Range"));
        raw->at = raw->range.kind == RANGE_FROM ? raw->range.first : 0;
        raw->source = raw->path;
        if (raw->is_tree)
                send_request(raw, "archive.create",
                             json_pack("{s:O, s:O, s:O}", "path", raw->path, "to", raw->temp, "format", raw->format),
                             on_packed);
        else
                read_piece(raw);
}

/* -- receiving ------------------------------------------------------------------------------------------------ */

static void on_moved(struct raw *raw, const json_t *result, const struct buf *attachments)
{
        (void)attachments;
        json_decref(raw->temp);
        raw->temp = NULL;
        web_answer(raw->request, 200,
                   json_pack("{s:O, s:I}", "path", json_object_get(result, "to"), "bytes", (json_int_t)raw->written));
}

static void on_extracted(struct raw *raw, const json_t *result, const struct buf *attachments)
{
        (void)attachments;
        web_answer(raw->request, 200,
                   json_pack("{s:O, s:O, s:O}", "path", json_object_get(result, "to"), "files",
                             json_object_get(result, "files"), "bytes", json_object_get(result, "bytes")));
}

/* A sandbox that ended meanwhile was restarted for the next piece: the file is then incomplete. */
static void on_checked(struct raw *raw, const json_t *result, const struct buf *attachments)
{
        struct cloche_err e = {0};

        (void)attachments;
        if ((uint64_t)json_integer_value(json_object_get(result, "size")) != raw->written) {
                err_set(&e, CLOCHE_E_SANDBOX_ENDED, "the sandbox ended while %" PRIu64 " bytes were written",
                        raw->written);
                fail(raw, &e, NULL);
        } else if (raw->is_tree) {
                send_request(raw, "archive.extract", json_pack("{s:O, s:O}", "path", raw->temp, "to", raw->path),
                             on_extracted);
        } else {
                send_request(raw, "file.move",
                             json_pack("{s:O, s:O, s:b}", "from", raw->temp, "to", raw->path, "overwrite", 1),
                             on_moved);
        }
}

static void go_on_in(struct raw *raw);

static void on_written(struct raw *raw, const json_t *result, const struct buf *attachments)
{
        (void)result;
        (void)attachments;
        go_on_in(raw);
}

/* The earlier pieces are gone: a new sandbox of that name was started meanwhile. */
static void on_not_written(void *data, const struct cloche_err *e, const json_t *about)
{
        struct raw *raw = data;
        struct cloche_err ended;

        raw->sandbox_request = NULL;
        if (e->code != CLOCHE_E_FILE_NOT_FOUND || !raw->is_made) {
                fail(raw, e, about);
                return;
        }
        err_set(&ended, CLOCHE_E_SANDBOX_ENDED, "the sandbox ended, or lost the file, while it was being written");
        fail(raw, &ended, NULL);
}

static void write_piece(struct raw *raw, size_t size)
{
        static const struct sandbox_face written = {.result = on_result, .fail = on_not_written};
        const struct buf piece = {.data = raw->in.data, .size = size};
        json_t *params = json_pack("{s:O, s:o}", "path", raw->temp, "content", json_attachment(0, size));

        if (raw->is_made) {
                json_object_set_new(params, "offset", json_integer((json_int_t)raw->written));
                json_object_set_new(params, "create", json_false());
        } else if (raw->mode) {
                json_object_set(params, "mode", raw->mode);
        }
        raw->written += size;
        send_request_with(raw, "file.write", params, &piece, &written, on_written);
        raw->is_made = 1;
        buf_consume(&raw->in, size);
}

static void go_on_in(struct raw *raw)
{
        if (raw->is_ready && !raw->sandbox_request) {
                if (raw->in.size >= PIECE_BYTES || (raw->is_whole && (raw->in.size > 0 || !raw->is_made)))
                        write_piece(raw, raw->in.size < PIECE_BYTES ? raw->in.size : PIECE_BYTES);
                else if (raw->is_whole)
                        send_request(raw, "file.stat", json_pack("{s:O}", "path", raw->temp), on_checked);
        }
        http_body_hold(raw->request, raw->in.size >= PIECE_BYTES);
}

static void on_body(void *data, const void *bytes, size_t size)
{
        struct raw *raw = data;
        struct cloche_err e = {0};

        raw->daemon->stats.bytes_read += size;
        if (buf_append(&raw->in, bytes, size) == 0) {
                go_on_in(raw);
        } else {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "hold a piece of a body");
                fail(raw, &e, NULL);
        }
}

static void on_whole(void *data)
{
        struct raw *raw = data;

        raw->is_whole = 1;
        go_on_in(raw);
}

static void begin_in(struct raw *raw)
{
        raw->is_ready = 1;
        go_on_in(raw);
}

/* The target exists: a file's mode is kept, a directory is an error. */
static void on_known(void *data, const json_t *result, const struct buf *attachments)
{
        struct raw *raw = data;
        const char *type = json_string_value(json_object_get(result, "type"));
        struct cloche_err e = {0};

        (void)attachments;
        raw->sandbox_request = NULL;
        if (type && strcmp(type, "directory") == 0) {
                err_set(&e, CLOCHE_E_FILE_KIND, "%.150s is a directory: fetch it as an archive",
                        json_string_value(raw->path));
                fail(raw, &e, NULL);
                return;
        }
        if (type && strcmp(type, "file") == 0)
                raw->mode = json_incref(json_object_get(result, "mode"));
        begin_in(raw);
}

static void on_not_known(void *data, const struct cloche_err *e, const json_t *about)
{
        struct raw *raw = data;

        raw->sandbox_request = NULL;
        if (e->code == CLOCHE_E_FILE_NOT_FOUND)
                begin_in(raw);
        else
                fail(raw, e, about);
}

static void start_in(struct raw *raw)
{
        static const struct sandbox_face known = {.result = on_known, .fail = on_not_known};

        if (raw->is_tree)
                begin_in(raw);
        else
                send_request_with(raw, "file.stat", json_pack("{s:O}", "path", raw->path), &(struct buf){0}, &known,
                                  NULL);
}

/* -- life ----------------------------------------------------------------------------------------------------- */

static void raw_free(struct raw *raw)
{
        json_decref(raw->sandbox);
        json_decref(raw->path);
        json_decref(raw->format);
        json_decref(raw->temp);
        json_decref(raw->mode);
        buf_done(&raw->in);
        free(raw);
}

static void on_over(void *data)
{
        struct raw *raw = data;
        struct daemon *d = raw->daemon;

        if (raw->sandbox_request)
                sandbox_request_cancel(raw->sandbox_request);
        remove_temp(raw);
        raw_free(raw);
        d->raw_count--;
        daemon_check_stop(d);
}

static void on_taken(void *data)
{
        struct raw *raw = data;

        if (raw->is_begun)
                go_on_out(raw);
}

static int check_format(const char *format, struct cloche_err *e)
{
        static const char *const formats[] = {"tar", "tar.gz", "tar.zst", "zip"};

        for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
                if (strcmp(formats[i], format) == 0)
                        return 0;
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "format must be tar, tar.gz, tar.zst or zip, not \"%.20s\"",
                       format);
}

static struct raw *raw_new(struct daemon *d, struct http_request *request, int64_t principal,
                           const struct operation *operation, const json_t *params)
{
        const json_t *format = json_object_get(params, "format");
        struct raw *raw = calloc(1, sizeof(*raw));

        if (!raw)
                return NULL;
        *raw = (struct raw){
                .daemon = d,
                .request = request,
                .principal = principal,
                .sandbox = json_incref(json_object_get(params, "sandbox")),
                .path = json_incref(json_object_get(params, "path")),
                .format = format ? json_incref((json_t *)format) : json_string("tar.gz"),
                .is_put = operation->symbol == OPERATION_RAW_PUT || operation->symbol == OPERATION_TREE_PUT,
                .is_tree = operation->symbol == OPERATION_TREE_GET || operation->symbol == OPERATION_TREE_PUT,
                .in = BUF_INIT(4 * PIECE_BYTES),
        };
        raw->temp = raw->is_put || raw->is_tree ? temp_name(raw) : NULL;
        return raw;
}

int sandbox_raw_begin(struct daemon *d, struct http_request *request, int64_t principal,
                      const struct operation *operation, const json_t *params, struct cloche_err *e)
{
        static const struct http_handler out = {.on_over = on_over, .on_taken = on_taken};
        static const struct http_handler in = {.on_body = on_body, .on_whole = on_whole, .on_over = on_over};
        const char *format = json_string_value(json_object_get(params, "format"));
        struct raw *raw;

        if (daemon_check_work(d, e) < 0)
                return -(int)e->code;
        if (format && check_format(format, e) < 0)
                return -CLOCHE_E_INVALID_ARGUMENT;
        raw = raw_new(d, request, principal, operation, params);
        if (!raw)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "take a body");
        d->raw_count++;
        http_request_handle(request, raw->is_put ? &in : &out, raw);
        if (raw->is_put)
                start_in(raw);
        else
                start_out(raw);
        return 0;
}
