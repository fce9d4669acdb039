/* The library for agents in C, from the engine's side of a socketpair; the agent is a forked process. */
#include "tap.h"

#include "base/fd.h"
#include "box/agent/agent.h"
#include "wire/frame.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* -- a language: the code is the name of what to do ------------------------------------------------------------ */

static json_t *asked_host(struct agent *a, const struct agent_request *q)
{
        struct agent_answer answer;
        json_t *made;

        if (agent_bridge(a, json_pack("[s,s]", "global", "f"), json_incref((json_t *)q->args), NULL, "xyz", 3,
                         &answer) < 0)
                return json_string("no channel");
        made = answer.error ? json_incref(answer.error) : json_incref(answer.value);
        agent_answer_done(&answer);
        return made;
}

/* Two processes ask at once; each finds its own argument in its answer. */
static json_t *asked_by_forks(struct agent *a)
{
        int good = 0;
        pid_t pids[2];

        for (int i = 0; i < 2; i++) {
                pids[i] = fork();
                if (pids[i] == 0) {
                        struct agent_answer answer;
                        int r = agent_bridge(a, json_pack("[s,s]", "global", "f"), json_pack("[i]", i), NULL, NULL, 0,
                                             &answer);

                        _exit(r == 0 && json_integer_value(json_array_get(answer.value, 0)) == i ? 0 : 1);
                }
        }
        for (int i = 0; i < 2; i++) {
                int status;

                waitpid(pids[i], &status, 0);
                good += status == 0;
        }
        return json_integer(good);
}

static json_t *described_bytes(const struct agent_request *q)
{
        const unsigned char *data;
        size_t size = 0;

        if (!agent_bytes(q, json_array_get(q->args, 0), &data, &size))
                return json_null();
        return json_stringn((const char *)data, size);
}

static json_t *two_attachments(struct agent_reply *reply)
{
        json_t *first = agent_attach(reply, "\0\1", 2);

        return json_pack("[o,o]", first, agent_attach_array(reply, "u16", "abcd", 4));
}

static json_t *as_text(const struct agent_request *q)
{
        size_t size;
        char *text = agent_json_text(q, q->args, &size);
        json_t *made = json_stringn(text, size);

        free(text);
        return made;
}

static json_t *names(const struct agent_request *q)
{
        char text[100] = "";
        const char *key;
        json_t *value;

        json_object_foreach ((json_t *)q->kwargs, key, value)
                snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s,", key);
        return json_string(text);
}

static json_t *numbers(void)
{
        return json_pack("[o,o,o,o,o,o]", agent_real(NAN), agent_real(-0.0), agent_real(0.1), agent_integer(INT64_MIN),
                         agent_unsigned(UINT64_MAX), agent_integer(-5));
}

static json_t *seen(const struct agent_request *q)
{
        return json_pack("[s, O?, O?, O?, O?, b, b]", q->function, q->kwargs, q->order, q->build, q->holes,
                         agent_is_hole(q, 0), agent_is_hole(q, 1));
}

static int call(struct agent *a, const struct agent_request *q, struct agent_reply *reply)
{
        static const char raw[] = "a\xff\xc3\xa9\xed\xa0\x80z";
        char why[200];

        reply->signature_source = "inferred";
        if (strcmp(q->code, "throw") == 0)
                return agent_throw(reply, "Odd\xff", "in f", "%s: %d", raw, 7);
        if (strcmp(q->code, "ask") == 0)
                reply->value = asked_host(a, q);
        else if (strcmp(q->code, "ask twice") == 0)
                reply->value = asked_by_forks(a);
        else if (strcmp(q->code, "bytes") == 0)
                reply->value = described_bytes(q);
        else if (strcmp(q->code, "attach") == 0)
                reply->value = two_attachments(reply);
        else if (strcmp(q->code, "attach much") == 0)
                reply->value = json_pack("[o?]", agent_attach(reply, q->attachments, q->attachments_size));
        else if (strcmp(q->code, "text") == 0)
                reply->value = as_text(q);
        else if (strcmp(q->code, "numbers") == 0)
                reply->value = numbers();
        else if (strcmp(q->code, "names") == 0)
                reply->value = names(q);
        else if (strcmp(q->code, "seen") == 0)
                reply->value = seen(q);
        else if (strcmp(q->code, "bad tag") == 0)
                reply->value = json_pack("{s:[{s:s}]}", "rows", "$", "nonsense");
        else if (strcmp(q->code, "text form") == 0 &&
                 agent_reply_text_form(reply, json_array_get(q->args, 0), why, sizeof(why)) < 0)
                return agent_throw(reply, "Refused", NULL, "%s", why);
        else if (strcmp(q->code, "echo") == 0)
                reply->value = json_incref((json_t *)q->args);
        return 0;
}

static int prepare(struct agent *a, const struct agent_request *q, struct agent_reply *reply)
{
        json_t *answer = asked_host(a, q);
        int r = agent_is_preparing(a)
                        ? agent_throw(reply, "Told", NULL, "%s", json_string_value(json_object_get(answer, "message")))
                        : 0;

        json_decref(answer);
        return r;
}

/* Built anew unless what is brought is good. */
static int build(struct agent *a, const struct agent_request *q, struct agent_reply *reply)
{
        const unsigned char *data;
        size_t size;

        (void)a;
        if (strcmp(q->code, "bad") == 0)
                return agent_throw(reply, "CompileError", "main:1", "no");
        if (!q->artifact || !agent_bytes(q, q->artifact, &data, &size) || size != 4 || memcmp(data, "\0ELF", 4) != 0)
                reply->value = agent_attach(reply, "\0ELF", 4);
        return 0;
}

static int run(struct agent *a, const struct agent_request *q)
{
        (void)a;
        return (int)json_array_size(q->argv) + 40;
}

static const struct agent_language language =
        {.call = call, .prepare = prepare, .run = run, .build = build, .refused = "Refused", .forks_send_requests = 1};

/* -- the engine's side ---------------------------------------------------------------------------------------- */

static int socket_fd;
static pid_t agent_pid;
static struct frame_reader reader;

static void begin(void)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
                abort();
        fflush(stdout);
        agent_pid = fork();
        if (agent_pid == 0) {
                close(pair[0]);
                dup2(pair[1], 3);
                if (pair[1] != 3)
                        close(pair[1]);
                exit(agent_serve(&language, NULL)); /* not _exit: leaks are looked for */
        }
        close(pair[1]);
        socket_fd = pair[0];
        frame_reader_init(&reader, FRAME_BYTES_MAX);
}

static int end(void)
{
        int status;

        frame_reader_done(&reader);
        close(socket_fd);
        waitpid(agent_pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void tell(const char *json, const char *attachments, size_t size)
{
        _cleanup_buf_ struct buf out = BUF_INIT(FRAME_BYTES_MAX);
        struct cloche_err e;

        if (frame_build(&out, json, strlen(json), attachments, size, &e) < 0 ||
            fd_write_full(socket_fd, out.data, out.size) < 0)
                abort();
}

/* The next message, attachments under "attachments" as a string. NULL at the end. */
static json_t *hear(void)
{
        struct cloche_err e;
        struct frame frame;

        for (;;) {
                size_t room;
                ssize_t n;
                char *at;

                if (frame_reader_next(&reader, &frame, &e) == 1) {
                        json_t *message = json_loadb(frame.json, frame.json_size, 0, NULL);

                        json_object_set_new(message, "attachments",
                                            json_stringn((const char *)frame.attachments, frame.attachments_size));
                        return message;
                }
                at = frame_reader_room(&reader, &room);
                n = read(socket_fd, at, room);
                if (n <= 0)
                        return NULL;
                frame_reader_filled(&reader, (size_t)n);
        }
}

static void send_call(const char *code, const char *more, const char *attachments, size_t size)
{
        char json[4096];

        snprintf(json, sizeof(json),
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"call\",\"params\":{\"code\":\"%s\",\"resultBytes\":1000%s}"
                 "}",
                 code, more);
        tell(json, attachments, size);
}

/* Does the answer hold this at this path of members ("/" between)? */
static int holds(json_t *message, const char *path, const char *expected)
{
        json_t *at = message, *wanted = json_loads(expected, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        char steps[100];
        int same;

        snprintf(steps, sizeof(steps), "%s", path);
        for (char *save, *step = strtok_r(steps, "/", &save); step; step = strtok_r(NULL, "/", &save))
                at = json_object_get(at, step);
        same = json_equal(at, wanted);
        if (!same) {
                char *text = message ? json_dumps(message, 0) : NULL;

                printf("# %s\n", text ? text : "no message");
                free(text);
        }
        json_decref(wanted);
        json_decref(message);
        return same;
}

static json_t *called(const char *code, const char *more)
{
        send_call(code, more, NULL, 0);
        return hear();
}

/* -- tests ---------------------------------------------------------------------------------------------------- */

static void test_values(void)
{
        CHECK(holds(called("nothing", ""), "result", "{\"signatureSource\":\"inferred\",\"value\":null}"),
              "a reply is null unless set");
        send_call("bytes", ",\"args\":[{\"$\":\"bytes\",\"at\":1,\"n\":3}]", "abcde", 5);
        CHECK(holds(hear(), "result/value", "\"bcd\""), "bytes are reachable where they came");
        CHECK(holds(called("attach", ""), "result/value",
                    "[{\"$\":\"bytes\",\"at\":0,\"n\":2},{\"$\":\"array\",\"t\":\"u16\",\"at\":2,\"n\":4}]"),
              "bytes are attached");
        CHECK(holds(called("attach", ""), "attachments", "\"\\u0000\\u0001abcd\""), "and stand behind the JSON");
        send_call("text",
                  ",\"args\":[{\"$\":\"bytes\",\"at\":0,\"n\":2},1,2.0,0.1,1e300,100.0,\"é\\n\",{\"a\":[null,true]}]",
                  "ab", 2);
        CHECK(holds(hear(), "result/value",
                    "\"[{\\\"$\\\":\\\"bytes\\\",\\\"b64\\\":\\\"YWI=\\\"},1,2.0,0.1,1e+300,100.0,\\\"é\\\\n\\\",{"
                    "\\\"a\\\":[null,true]}]\""),
              "values as text");
        CHECK(holds(called("numbers", ""), "result/value",
                    "[{\"$\":\"number\",\"v\":\"NaN\"},{\"$\":\"number\",\"v\":\"-0\"},0.1,{\"$\":\"bigint\",\"v\":\"-"
                    "9223372036854775808\"},"
                    "{\"$\":\"bigint\",\"v\":\"18446744073709551615\"},-5]"),
              "numbers that JSON lacks");
        CHECK(holds(called("text form", ",\"args\":[{\"$\":\"map\",\"v\":[[1,2]]}]"), "result/value",
                    "{\"$\":\"map\",\"v\":[[1,2]]}"),
              "a value in text form");
}

static void test_kwargs(void)
{
        CHECK(holds(called("seen", ",\"function\":\"g\",\"args\":[null,2],\"holes\":[0],\"order\":[\"x\"],\"build\":{"
                                   "\"flags\":[]},"
                                   "\"kwargs\":{\"k\":[2]}"),
                    "result/value", "[\"g\",{\"k\":[2]},[\"x\"],{\"flags\":[]},[0],true,false]"),
              "what a call has");
        CHECK(holds(called("names", ",\"kwargs\":{\"$\":\"object\",\"v\":[[\"$\",1],[\"k\",[2]]]}"), "result/value",
                    "\"$,k,\""),
              "kwargs in the escaped form");
}

static void test_references(void)
{
        CHECK(holds(called("echo", ",\"args\":[[1],{\"$\":\"ref\",\"n\":1},{\"$\":\"set\",\"v\":[[2]]},{\"$\":\"ref\","
                                   "\"n\":3}]"),
                    "result/value", "[[1],[1],{\"$\":\"set\",\"v\":[[2]]},[2]]"),
              "what is shared stands twice");
        CHECK(holds(called("echo", ",\"args\":[[{\"$\":\"ref\",\"n\":1}]]"), "error/code", "-32602"),
              "a value that holds itself is refused");
        CHECK(holds(called("echo", ",\"args\":[{\"$\":\"error\",\"v\":{\"name\":\"E\",\"message\":\"m\",\"fields\":{"
                                   "\"a\":[1]}}},"
                                   "{\"$\":\"ref\",\"n\":2},{\"$\":\"map\",\"v\":[[1,[5]]]},{\"$\":\"ref\",\"n\":4}]"),
                    "result/value",
                    "[{\"$\":\"error\",\"v\":{\"name\":\"E\",\"message\":\"m\",\"fields\":{\"a\":[1]}}},[1],{\"$\":"
                    "\"map\",\"v\":[[1,[5]]]},[5]]"),
              "the numbers of an error's and a map's parts");
}

static void test_errors(void)
{
        CHECK(holds(called("throw", ""), "error",
                    "{\"code\":-32000,\"message\":\"a\\ufffdé\\ufffd\\ufffd\\ufffdz: "
                    "7\",\"data\":{\"type\":\"Odd\\ufffd\",\"message\":"
                    "\"a\\ufffdé\\ufffd\\ufffd\\ufffdz: 7\",\"stack\":\"in f\",\"signatureSource\":\"inferred\"}}"),
              "an error, its text repaired");
        CHECK(holds(called("bad tag", ""), "error/data/message", "\"$.rows[0]: there is no tag \\\"nonsense\\\"\""),
              "a bad value is named");
        CHECK(holds(called("bad tag", ""), "error/data/type", "\"Refused\""), "with the language's type");
        CHECK(holds(called("echo", ",\"resultBytes\":3"), "error/code", "-32700"), "a key twice is no request");
        tell("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"call\",\"params\":{\"code\":\"echo\",\"args\":[\"abcdef\"],"
             "\"resultBytes\":9}}",
             NULL, 0);
        CHECK(holds(hear(), "error/data/type", "\"ValueError\""), "a result over the limit");
        send_call("attach much", "", (char[1001]){0}, 1001);
        CHECK(holds(hear(), "error/message", "\"the result is over the limit of 1000 bytes (resultBytes)\""),
              "bytes over the limit");
        CHECK(holds(called("echo", ",\"args\":{}"), "error/message", "\"params.args must be an array\""),
              "args of another type");
        CHECK(holds(called("echo", ",\"args\":[1],\"holes\":[1]"), "error/message",
                    "\"params.holes names a position outside args\""),
              "holes outside");
        CHECK(holds(called("echo", ",\"args\":[{\"$\":\"bytes\",\"at\":0,\"n\":1}]"), "error/message",
                    "\"params.args: $[0]: the range is outside the attachments\""),
              "bytes that are not there");
        tell("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"dance\"}", NULL, 0);
        CHECK(holds(hear(), "error", "{\"code\":-32601,\"message\":\"unknown method 'dance'\"}"), "an unknown method");
        tell("[1]", NULL, 0);
        CHECK(holds(hear(), "error/code", "-32700"), "no message");
        tell("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"freeze\",\"params\":{}}", NULL, 0);
        CHECK(holds(hear(), "error", "{\"code\":-32001,\"message\":\"this process was not started as a template\"}"),
              "no template");
}

static void test_bridge(void)
{
        json_t *question;

        send_call("ask", ",\"args\":[{\"$\":\"bytes\",\"at\":0,\"n\":3}]", "abc", 3);
        question = hear();
        CHECK(holds(json_incref(question), "params",
                    "{\"target\":[\"global\",\"f\"],\"args\":[{\"$\":\"bytes\",\"at\":0,\"n\":3}],\"kwargs\":{}}"),
              "a question");
        CHECK(holds(question, "attachments", "\"xyz\""), "its bytes");
        tell("{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{\"value\":1}}", NULL, 0);
        tell("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"value\":[[4],{\"$\":\"ref\",\"n\":1}]}}", NULL, 0);
        CHECK(holds(hear(), "result/value", "[[4],[4]]"), "the answer, and none to another question");
        send_call("ask", "", NULL, 0);
        json_decref(hear());
        tell("{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32000,\"message\":\"m\",\"data\":{\"name\":\"N\","
             "\"message\":\"m\"}}}",
             NULL, 0);
        CHECK(holds(hear(), "result/value", "{\"name\":\"N\",\"message\":\"m\"}"), "the host threw");
        tell("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"prepare\",\"params\":{\"code\":\"x\"}}", NULL, 0);
        CHECK(holds(hear(), "error/data/message", "\"the host cannot be asked while set-up code runs\""),
              "not while preparing");
        send_call("ask twice", "", NULL, 0);
        for (int i = 0; i < 2; i++) {
                json_t *asked = hear();
                char *args = json_dumps(json_object_get(json_object_get(asked, "params"), "args"), 0), text[200];

                snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"value\":%s}}",
                         (int)json_integer_value(json_object_get(asked, "id")), args);
                tell(text, NULL, 0);
                free(args);
                json_decref(asked);
        }
        CHECK(holds(hear(), "result/value", "2"), "forked processes ask one after the other");
}

static void test_build(void)
{
        static const char ask[] =
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"build\",\"params\":{\"code\":\"%s\",\"artifact\":%s}}";
        char text[200];

        snprintf(text, sizeof(text), ask, "x", "null");
        tell(text, NULL, 0);
        CHECK(holds(hear(), "result", "{\"artifact\":{\"$\":\"bytes\",\"at\":0,\"n\":4}}"), "what was built");
        snprintf(text, sizeof(text), ask, "x", "{\"$\":\"bytes\",\"at\":0,\"n\":4}");
        tell(text, "\0ELF", 4);
        CHECK(holds(hear(), "result", "{\"artifact\":null}"), "nothing, where what was brought is good");
        snprintf(text, sizeof(text), ask, "bad", "null");
        tell(text, NULL, 0);
        CHECK(holds(hear(), "error/data/type", "\"CompileError\""), "code that cannot be built");
        snprintf(text, sizeof(text), ask, "x", "[]");
        tell(text, NULL, 0);
        CHECK(holds(hear(), "error/code", "-32602"), "an artifact that is no bytes");
}

static void test_ends(void)
{
        begin();
        tell("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"run\",\"params\":{\"code\":\"x\",\"argv\":[\"a\",\"b\"]}}",
             NULL, 0);
        CHECK(hear() == NULL && end() == 42, "a script's exit status, without an answer");
        begin();
        if (fd_write_full(socket_fd, "\377\377\377\377\0\0\0\0", 8) < 0)
                abort();
        json_decref(hear());
        CHECK(end() == 1, "a frame that cannot be followed ends the process");
        begin();
        CHECK(end() == 0, "so does the end of the channel");
}

int main(void)
{
        alarm(30);
        begin();
        test_values();
        test_kwargs();
        test_references();
        test_errors();
        test_bridge();
        test_build();
        CHECK(end() == 0, "the end");
        test_ends();
        return tap_done();
}
