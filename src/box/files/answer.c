#include "answer.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/utf8.h"
#include "box/files/tree/contents.h"
#include "wire/rpc.h"

#include <poll.h>
#include <string.h>

#define CODE_UNKNOWN_METHOD (-32601)
#define CODE_ERROR (-32000)

/* The channel may be non-blocking. */
static int write_all(int fd, const char *data, size_t size)
{
        while (size > 0) {
                ssize_t n = write(fd, data, size);
                struct pollfd polled = {.fd = fd, .events = POLLOUT};

                if (n < 0 && errno == EAGAIN)
                        poll(&polled, 1, -1);
                else if (n < 0 && errno != EINTR)
                        return -1;
                if (n > 0) {
                        data += n;
                        size -= (size_t)n;
                }
        }
        return 0;
}

static int write_frame(int fd, struct buf *frame, int r)
{
        if (r == 0)
                r = write_all(fd, frame->data, frame->size);
        buf_done(frame);
        return r < 0 ? -1 : 0;
}

int answer_frame(int fd, const struct frame *frame)
{
        struct buf out = BUF_INIT(FRAME_BYTES_MAX);

        return write_frame(fd, &out,
                           frame_build(&out, frame->json, frame->json_size, frame->attachments, frame->attachments_size,
                                       NULL));
}

int answer_result(int fd, struct request *q)
{
        struct buf out = BUF_INIT(FRAME_BYTES_MAX);
        json_t *result = q->result;
        struct cloche_err e = {0};
        int r;

        q->result = NULL;
        r = rpc_result(json_incref((json_t *)q->id), result, q->attached.data, q->attached.size, &out, &e);
        if (r < 0) {
                buf_done(&out);
                return answer_error(fd, q->id, &e);
        }
        return write_frame(fd, &out, 0);
}

/* A message may contain a file name that is not UTF-8, or be cut inside a character. */
static void make_utf8(char *text)
{
        size_t left = strlen(text);

        for (size_t size = utf8_valid_size(text, left); size < left; size = utf8_valid_size(text, left)) {
                text[size] = '?';
                text += size;
                left -= size;
        }
}

static int tell_error(int fd, const json_t *id, int code, enum cloche_code name, const char *message)
{
        struct buf out = BUF_INIT(FRAME_BYTES_MAX);
        char text[sizeof(((struct cloche_err *)NULL)->msg)];
        int r;

        strncpy(text, message, sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        make_utf8(text);
        r = rpc_error(json_incref((json_t *)id), code, text, json_pack("{s:s}", "name", cloche_code_name(name)), &out,
                      NULL);
        return write_frame(fd, &out, r);
}

int answer_error(int fd, const json_t *id, const struct cloche_err *error)
{
        return tell_error(fd, id, CODE_ERROR, error->code, error->msg);
}

int answer_unknown(int fd, const json_t *id, const char *method)
{
        struct cloche_err e;

        err_set(&e, CLOCHE_E_INVALID_ARGUMENT, "there is no method \"%.80s\" here", method);
        return tell_error(fd, id, CODE_UNKNOWN_METHOD, e.code, e.msg);
}

int answer_event(struct buf *out, const struct request *q, const char *event, json_t *about, const struct buf *attached,
                 struct cloche_err *e)
{
        json_t *params = json_pack("{s:O, s:s, s:o}", "id", q->id, "event", event, "about", about);

        if (!params)
                return request_no_memory(e);
        return rpc_notify("event", params, attached ? attached->data : NULL, attached ? attached->size : 0, out, e);
}
