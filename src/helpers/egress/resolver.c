/* DNS service of the box, on UDP and TCP.
 * Runs in: cloche-egress, without capabilities and files, filtered. */
#include "resolver.h"

#include "egress.h"
#include "end.h"
#include "helpers/egress/read/dns.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUESTIONS_A_TICK 500
#define QUESTIONS_A_TURN 64
#define QUESTION_MAX 4096
#define TTL_S 60
#define STREAM_TICKS 10 /* total lifetime of a stream */

struct resolver_stream {
        struct resolver *resolver;
        struct end end;
        unsigned char in[2 + QUESTION_MAX];
        size_t size;
        unsigned ticks;
};

/* -- one query ---------------------------------------------------------------------------------------------------- */

static void report(struct egress *egress, const struct dns_question *question, const struct policy_verdict *verdict)
{
        report_decision(&egress->report, &(struct decision){.kind = "dns",
                                                            .host = question->name,
                                                            .rule = verdict->rule,
                                                            .why = verdict->why,
                                                            .port = 53,
                                                            .allowed = verdict->allowed});
}

static enum dns_code decide(struct egress *egress, const struct dns_question *question, uint32_t *ret_address)
{
        struct policy_verdict verdict;

        if (!question->is_host)
                return DNS_NO_SUCH_NAME;
        verdict = policy_resolves(egress->policy, question->name);
        report(egress, question, &verdict);
        if (!verdict.allowed)
                return DNS_NO_SUCH_NAME;
        return names_address(&egress->names, question->name, clock_now_ns(), ret_address) < 0 ? DNS_FAILED : DNS_OK;
}

/* Return the size of the answer; 0: none. */
static size_t answer(struct resolver *resolver, const unsigned char *message, size_t size,
                     unsigned char ret[DNS_MESSAGE_MAX])
{
        struct dns_question question;
        uint32_t address = 0;
        int code = dns_read(message, size, &question);

        resolver->budget--;
        if (code < 0)
                return 0;
        if (code == DNS_OK)
                code = (int)decide(resolver->egress, &question, &address);
        return dns_write(&question, (enum dns_code)code, address && question.type == DNS_TYPE_A ? &address : NULL,
                         TTL_S, ret);
}

/* -- UDP ---------------------------------------------------------------------------------------------------------- */

/* Stop reading when the budget is used up. The box's kernel drops excess queries, and that time is
 * charged to the guest. */
static void on_udp(uv_poll_t *poll, int status, int events)
{
        struct resolver *resolver = poll->data;
        unsigned char in[QUESTION_MAX], out[DNS_MESSAGE_MAX];

        (void)status;
        (void)events;
        for (int i = 0; i < QUESTIONS_A_TURN && resolver->budget > 0; i++) {
                struct sockaddr_storage from;
                socklen_t from_size = sizeof(from);
                ssize_t n =
                        recvfrom(resolver->udp_fd, in, sizeof(in), MSG_DONTWAIT, (struct sockaddr *)&from, &from_size);
                size_t size;

                if (n < 0)
                        return;
                size = answer(resolver, in, (size_t)n, out);
                if (size > 0)
                        (void)sendto(resolver->udp_fd, out, size, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&from,
                                     from_size);
        }
        if (resolver->budget == 0)
                uv_poll_stop(&resolver->udp);
}

/* -- TCP ---------------------------------------------------------------------------------------------------------- */

static void end_stream(struct resolver_stream *stream)
{
        struct resolver *resolver = stream->resolver;

        for (size_t i = 0; i < RESOLVER_STREAMS_MAX; i++)
                if (resolver->streams[i] == stream)
                        resolver->streams[i] = NULL;
        end_close(&stream->end, 0);
        free(stream);
}

/* 1: one query answered; 0: more bytes are needed; -1: close. An answer fits in the socket's buffer
 * unless the client does not read. */
static int answer_next(struct resolver_stream *stream)
{
        unsigned char out[2 + DNS_MESSAGE_MAX];
        size_t size = stream->size < 2 ? 0 : (size_t)stream->in[0] << 8 | stream->in[1], answered;

        if (size > QUESTION_MAX || stream->resolver->budget == 0)
                return -1;
        if (stream->size < 2 || stream->size < 2 + size)
                return 0;
        answered = answer(stream->resolver, stream->in + 2, size, out + 2);
        out[0] = (unsigned char)(answered >> 8);
        out[1] = (unsigned char)answered;
        stream->size -= 2 + size;
        memmove(stream->in, stream->in + 2 + size, stream->size);
        return answered > 0 && send(stream->end.fd, out, 2 + answered, MSG_DONTWAIT | MSG_NOSIGNAL) ==
                                       (ssize_t)(2 + answered)
                       ? 1
                       : -1;
}

static void on_stream(uv_poll_t *poll, int status, int events)
{
        struct resolver_stream *stream = poll->data;
        ssize_t n = status < 0 ? 0
                               : recv(stream->end.fd, stream->in + stream->size, sizeof(stream->in) - stream->size,
                                      MSG_DONTWAIT);
        int r = 1;

        (void)events;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n > 0)
                stream->size += (size_t)n;
        while (n > 0 && r > 0)
                r = answer_next(stream);
        if (n <= 0 || r < 0)
                end_stream(stream);
}

static void take_stream(struct resolver *resolver, size_t slot, int fd)
{
        struct resolver_stream *stream = calloc(1, sizeof(*stream));

        if (!stream) {
                close(fd);
                return;
        }
        stream->resolver = resolver;
        if (end_open(&stream->end, &resolver->egress->loop, fd, on_stream, stream) < 0) {
                free(stream);
                return;
        }
        resolver->streams[slot] = stream;
        end_watch(&stream->end, UV_READABLE);
}

/* When all slots are taken, new streams wait; each slot is freed within seconds. */
static void on_tcp(uv_poll_t *poll, int status, int events)
{
        struct resolver *resolver = poll->data;
        int fd = 0;

        (void)status;
        (void)events;
        for (size_t i = 0; i < RESOLVER_STREAMS_MAX && fd >= 0; i++)
                if (!resolver->streams[i] &&
                    (fd = accept4(resolver->tcp_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
                        take_stream(resolver, i, fd);
        if (fd >= 0)
                uv_poll_stop(&resolver->tcp);
}

/* -- life --------------------------------------------------------------------------------------------------------- */

int resolver_listen(struct resolver *resolver, struct egress *egress, int udp_fd, int tcp_fd, struct cloche_err *e)
{
        int r = uv_poll_init(&egress->loop, &resolver->udp, udp_fd);

        if (r == 0)
                r = uv_poll_init(&egress->loop, &resolver->tcp, tcp_fd);
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch the box's questions for names");
        resolver->egress = egress;
        resolver->udp_fd = udp_fd;
        resolver->tcp_fd = tcp_fd;
        resolver->budget = QUESTIONS_A_TICK;
        resolver->udp.data = resolver;
        resolver->tcp.data = resolver;
        uv_poll_start(&resolver->udp, UV_READABLE, on_udp);
        uv_poll_start(&resolver->tcp, UV_READABLE, on_tcp);
        return 0;
}

void resolver_tick(struct resolver *resolver)
{
        if (!resolver->egress) /* not started yet */
                return;
        resolver->budget = QUESTIONS_A_TICK;
        for (size_t i = 0; i < RESOLVER_STREAMS_MAX; i++)
                if (resolver->streams[i] && ++resolver->streams[i]->ticks > STREAM_TICKS)
                        end_stream(resolver->streams[i]);
        uv_poll_start(&resolver->udp, UV_READABLE, on_udp);
        uv_poll_start(&resolver->tcp, UV_READABLE, on_tcp);
}
