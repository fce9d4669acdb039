/* exec and output.read. Runs in: cloched-engine, on its loop, with the rights of the daemon's
 * user. */
#include "exec.h"
#include "sandbox/context/cell-output.h"
#include "sandbox/network/connections.h"
#include "sandbox/process/process.h"

#include "base/err.h"
#include "base/utf8.h"
#include "engine/box/network-words.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_BYTES (1u << 20)
#define OUTPUT_BYTES_MAX (256u << 20)
#define KEEP_BYTES (UINT64_C(64) << 20)
#define LOOK_BYTES (64u << 10) /* of the end of the errors, for words about the network */
#define TIMED_OUT_CODE 124     /* as timeout(1) returns */

struct exec {
        struct sandbox_request *request;
        struct process *process;
        struct follower follower;
        int is_pinned;
};

static void exec_free(struct exec *x)
{
        process_unfollow(&x->follower);
        if (x->is_pinned) {
                x->process->on_end = NULL; /* followers are fed before on_end, and one of them called us */
                process_unpin(x->process);
        }
        free(x);
}

static void exec_cancel(struct sandbox_request *request)
{
        struct exec *x = request->state;

        process_unfollow(&x->follower); /* detaching a command that has not begun calls back at once, which would
                                   deliver an outcome */
        if (x->process)
                process_detach(x->process);
        exec_free(x);
}

/* Return the size without an incomplete character at the end: the rest of it is on the next
 * page. */
static uint64_t cut_character(const char *data, uint64_t size)
{
        for (size_t back = 1; back <= 3 && back < size; back++) {
                size_t good;

                if (utf8_character(data + size - back, back, &good) == 0 && good == back)
                        return size - back;
        }
        return size;
}

/* Add the part of a stream from offset, cut between characters if it is text. */
static int put_stream(json_t *answer, const char *name, const struct spool *spool, uint64_t offset, uint64_t most,
                      struct buf *attachments, uint64_t *ret_put)
{
        uint64_t end = spool_end(spool), left = offset < end ? end - offset : 0;
        size_t size;
        char *data = spool_copy(spool, offset, left < most ? left : most, &size);
        int r = 0;

        if (!data)
                return -ENOMEM;
        if (offset + size < end)
                size = cut_character(data, size);
        r = sandbox_put_bytes(answer, name, data, size, attachments);
        free(data);
        *ret_put = size;
        return r;
}

int session_put_page(json_t *answer, const char *name, const struct spool *spool, uint64_t offset, uint64_t most,
                     struct buf *attachments, uint64_t *ret_next)
{
        uint64_t begin = spool_begin(spool), put = 0;
        int r;

        offset = offset < begin ? begin : offset;
        r = put_stream(answer, name, spool, offset, most, attachments, &put);
        *ret_next = offset + put;
        return r;
}

uint64_t session_output_most(const struct sandbox_request *request)
{
        uint64_t most = sandbox_request_count(request, "outputBytes", OUTPUT_BYTES);

        return most < OUTPUT_BYTES_MAX ? most : OUTPUT_BYTES_MAX;
}

/* Add a line that names who can allow the connection that a command lacked. */
static void warn_of_network(const struct exec *x, json_t *answer)
{
        const struct spool *printed = &x->process->streams[STREAM_ERR].spool;
        uint64_t begin = spool_begin(printed), size = spool_bytes(printed);
        size_t taken = 0;
        char why[800], *text = NULL;

        if (x->process->exit_code == 0)
                return;
        text = spool_copy(printed, size > LOOK_BYTES ? begin + size - LOOK_BYTES : begin, LOOK_BYTES, &taken);
        if (text && network_words_find(text, taken)) {
                sandbox_explain_network(x->request->sandbox, why, sizeof(why));
                json_object_set_new(answer, "warnings", json_pack("[s]", why));
        }
        free(text);
}

static json_t *answer_of(struct exec *x, struct buf *attachments)
{
        const struct process *p = x->process;
        const struct spool *out = &p->streams[STREAM_OUT].spool, *err = &p->streams[STREAM_ERR].spool;
        uint64_t most = session_output_most(x->request), next_out = 0, next_err = 0;
        const char *cwd = p->session->cwd ? p->session->cwd : p->session->start_cwd;
        json_t *answer;

        answer = json_pack("{s:i, s:I, s:I, s:b, s:I, s:s, s:b}", "exitCode",
                           p->timed_out ? TIMED_OUT_CODE : p->exit_code, "stdoutBytes", (json_int_t)out->total,
                           "stderrBytes", (json_int_t)err->total, "timedOut", p->timed_out, "durationMs",
                           (json_int_t)((p->ended_ns - p->started_ns) / 1000000), "session", p->session->name,
                           "sessionEnded", p->session_ended);
        if (!answer || session_put_page(answer, "stdout", out, 0, most, attachments, &next_out) < 0 ||
            session_put_page(answer, "stderr", err, 0, most, attachments, &next_err) < 0) {
                json_decref(answer);
                return NULL;
        }
        json_object_set_new(answer, "cwd", json_string(cwd));
        json_object_set_new(answer, "truncated", json_boolean(next_out < out->total || next_err < err->total));
        json_object_set_new(answer, "output", json_string(p->id));
        if (p->signal)
                json_object_set_new(answer, "signal", process_signal_json(p->signal));
        if (p->denials)
                json_object_set(answer, "denials", p->denials);
        warn_of_network(x, answer);
        return answer;
}

static void finish(struct exec *x)
{
        struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        struct sandbox_request *request = x->request;
        json_t *answer = answer_of(x, &attachments);

        exec_free(x);
        sandbox_request_result(request, answer, &attachments);
        buf_done(&attachments);
}

static void on_complete(struct follower *f)
{
        finish((struct exec *)((char *)f - offsetof(struct exec, follower)));
}

static void on_release(struct sandbox_request *request)
{
        struct exec *x = request->state;

        if (x->follower.process)
                process_follower_feed(&x->follower);
}

static void on_begin(struct process *p, const struct cloche_err *e)
{
        struct exec *x = p->data;
        struct sandbox_request *request = x->request;

        if (!e)
                return;
        exec_free(x);
        sandbox_request_fail(request, e, NULL);
}

/* With a stream, on_complete answers, after the remaining output. */
static void on_end(struct process *p)
{
        struct exec *x = p->data;

        if (!x->follower.process)
                finish(x);
}

int handle_EXEC(struct sandbox_request *request, struct cloche_err *e)
{
        struct process_options opt = {
                .session = sandbox_request_text(request, "session"),
                .cwd = sandbox_request_text(request, "cwd"),
                .env = json_object_get(request->params, "env"),
                .timeout_ms = sandbox_request_count(request, "timeoutMs", 0),
                .is_foreground = !sandbox_request_flag(request, "fork", 0),
                .is_hidden = 1,
                .keep = SPOOL_FIRST,
                .keep_bytes = KEEP_BYTES,
                .on_begin = on_begin,
                .on_end = on_end,
        };
        struct exec *x = calloc(1, sizeof(*x));
        int r;

        if (!x)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "run a command");
        x->request = request;
        opt.data = x;
        opt.command = sandbox_request_bytes(request, "command", &opt.command_size);
        opt.stdin_data = sandbox_request_bytes(request, "stdin", &opt.stdin_size);
        if (!opt.command) {
                free(x);
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "exec needs the field \"command\": text");
        }
        request->state = x;
        request->cancel = exec_cancel;
        request->release = on_release;
        r = process_start(request->sandbox, &opt, &x->process, e);
        if (r < 0) {
                request->cancel = NULL;
                free(x);
                return r;
        }
        if (request->state != x)
                return 0; /* it could not begin; the outcome is set */
        process_pin(x->process);
        x->is_pinned = 1;
        if (sandbox_request_flag(request, "stream", 0))
                process_follow(&x->follower, x->process, request, 0, on_complete);
        return 0;
}

int handle_OUTPUT_READ(struct sandbox_request *request, struct cloche_err *e)
{
        const char *id = sandbox_request_text(request, "output"), *stream = sandbox_request_text(request, "stream");
        enum stream_index index = stream && strcmp(stream, "stderr") == 0 ? STREAM_ERR : STREAM_OUT;
        struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        const struct spool *spool = id ? context_output_find(request->sandbox, id, index) : NULL;
        uint64_t offset = sandbox_request_count(request, "offset", 0), next;
        json_t *answer;

        if (!spool)
                return err_set(e, CLOCHE_E_NOT_FOUND,
                               "there is no output \"%.64s\" in this sandbox, or it is too old: the last %d are kept",
                               id ? id : "", SANDBOX_OUTPUTS_MAX);
        if (!stream || (strcmp(stream, "stdout") != 0 && strcmp(stream, "stderr") != 0))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "stream must be stdout or stderr");
        answer = json_pack("{s:I, s:I}", "offset", (json_int_t)offset, "total", (json_int_t)spool->total);
        if (answer &&
            session_put_page(answer, "data", spool, offset, sandbox_request_count(request, "limit", OUTPUT_BYTES),
                             &attachments, &next) == 0) {
                json_object_set_new(answer, "next", json_integer((json_int_t)next));
                json_object_set_new(answer, "end", json_boolean(next >= spool_end(spool)));
        }
        sandbox_request_result(request, answer, &attachments);
        buf_done(&attachments);
        return 0;
}
