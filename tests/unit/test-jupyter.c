/* The translator of Jupyter's messages on a carrier of the test's: what no daemon replies on demand. */
#include "tap.h"

#include "jupyter/jupyter.h"

#include <malloc.h>
#include <string.h>

#define CALLS_MAX 8

struct carrier {
        struct jupyter_call *calls[CALLS_MAX];
        size_t call_count;
        json_t *sent; /* messages */
        int has_ended;
};

static void on_send(void *data, enum jupyter_channel channel, const void *address, size_t address_size,
                    const json_t *message)
{
        struct carrier *c = data;

        (void)channel;
        (void)address;
        (void)address_size;
        json_array_append_new(c->sent, json_deep_copy(message));
}

static void on_call(void *data, struct jupyter_call *call, const char *method, json_t *params)
{
        struct carrier *c = data;

        (void)method;
        json_decref(params);
        c->calls[c->call_count++ % CALLS_MAX] = call;
}

static void on_drop(void *data, struct jupyter_call *call)
{
        (void)data;
        (void)call;
}

static void on_ended(void *data, enum jupyter_end how)
{
        struct carrier *c = data;

        c->has_ended = how == JUPYTER_SHUTDOWN;
}

static struct jupyter_kernel *begin(struct carrier *c)
{
        static const struct jupyter_carrier carrier = {.send = on_send,
                                                       .call = on_call,
                                                       .drop = on_drop,
                                                       .ended = on_ended};
        const struct jupyter_options options = {.language = "python", .sandbox = "s", .context = "c"};
        struct jupyter_kernel *k;

        *c = (struct carrier){.sent = json_array()};
        k = jupyter_kernel_new(&carrier, c, &options);
        if (k)
                jupyter_kernel_start(k);
        return k;
}

static void take(struct jupyter_kernel *k, enum jupyter_channel channel, const char *type)
{
        json_t *header = json_pack("{s:s, s:s}", "msg_id", "1", "msg_type", type), *content = json_object();

        jupyter_kernel_take(k, &(struct jupyter_message){.channel = channel,
                                                         .header = header,
                                                         .content = content,
                                                         .address = ""});
        json_decref(header);
        json_decref(content);
}

/* The content of the last message of this type; NULL: none was sent. */
static const json_t *sent(const struct carrier *c, const char *type)
{
        for (size_t i = json_array_size(c->sent); i > 0; i--) {
                const json_t *message = json_array_get(c->sent, i - 1),
                             *is = json_object_get(json_object_get(message, "header"), "msg_type");

                if (strcmp(json_string_value(is), type) == 0)
                        return json_object_get(message, "content");
        }
        return NULL;
}

static void end(struct carrier *c, struct jupyter_kernel *k)
{
        jupyter_kernel_free(k);
        json_decref(c->sent);
}

/* -- tests -------------------------------------------------------------------------------------------------------- */

static void test_a_context_after_the_end(void)
{
        const struct cloche_err e = {.code = CLOCHE_E_QUEUE_FULL, .msg = "too many requests"};
        json_t *made = json_pack("{s:i}", "executionCount", 0);
        const struct jupyter_reply replies[] = {{.e = &e}, {.result = made}};

        for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
                struct carrier c;
                struct jupyter_kernel *k = begin(&c);

                take(k, JUPYTER_CONTROL, "shutdown_request");
                jupyter_call_end(c.calls[1], &(struct jupyter_reply){.e = &e}); /* the deletion */
                CHECK(c.has_ended && sent(&c, "shutdown_reply"), "the kernel ends while its context is made");
                jupyter_call_end(c.calls[0], &replies[i]);
                CHECK(strcmp(jupyter_kernel_state(k), "dead") == 0, "and stays so");
                end(&c, k);
        }
        json_decref(made);
}

#define LONG "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" /* 62 bytes */

static void test_versions(void)
{
        static const struct {
                const char *interpreter, *version, *text;
        } rows[] = {
                {"IPython 8.5.0 on Python 3.11.2", "3.11.2", "the last word"},
                {"X " LONG "\xc3\xa9\xc3\xa9", LONG, "a long one is cut between characters"},
                {"X \x1b]0;t\x07", "\xe2\x90\x9b]0;t\xe2\x90\x87", "control characters are shown"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                json_t *made = json_pack("{s:s}", "interpreter", rows[i].interpreter);
                struct carrier c;
                struct jupyter_kernel *k = begin(&c);
                const json_t *info;
                const char *version;

                jupyter_call_end(c.calls[0], &(struct jupyter_reply){.result = made});
                take(k, JUPYTER_SHELL, "kernel_info_request");
                info = json_object_get(sent(&c, "kernel_info_reply"), "language_info");
                version = json_string_value(json_object_get(info, "version"));
                CHECK(version && strcmp(version, rows[i].version) == 0, "the interpreter's version: %s", rows[i].text);
                json_decref(made);
                end(&c, k);
        }
}

static void test_memory(void)
{
        json_t *made = json_object();
        struct carrier c;
        struct jupyter_kernel *k = begin(&c);
        size_t before = 0, after;

        jupyter_call_end(c.calls[0], &(struct jupyter_reply){.result = made});
        for (int i = 0; i < 1100; i++) {
                if (i == 100)
                        before = mallinfo2().uordblks;
                take(k, JUPYTER_SHELL, "execute_request");
                json_array_clear(c.sent);
        }
        after = mallinfo2().uordblks;
        CHECK(after < before + 10000, "1000 requests that fail leave %zu bytes", after - before);
        json_decref(made);
        end(&c, k);
}

int main(void)
{
        test_memory();
        test_versions();
        test_a_context_after_the_end();
        return tap_done();
}
