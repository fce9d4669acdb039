/* Questions to the client: elicitation, sampling, roots. In the earlier era they are requests on
 * the stream of the answer; in the later one the answer lists them, and the client repeats its
 * request with what it was told. Tools see neither: their message is handled again, with the
 * answers. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"
#include "base/hex.h"
#include "wire/base64.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ANSWER_S 600      /* for a user who thinks */
#define STATE_BYTES 65536 /* of a request state */
#define MAC_DIGITS (2 * SHA256_DIGEST_SIZE)

struct mcp_asked {
        json_t *questions; /* by key */
        json_t *ids;       /* ids of requests by key; those that are answered are gone */
        json_t *kept;
};

/* -- forms ------------------------------------------------------------------------------------------------------- */

static int is_elicited(const json_t *answer)
{
        static const char *const actions[] = {"accept", "decline", "cancel"};
        const char *action = mcp_text(answer, "action");
        const json_t *content = json_object_get(answer, "content");

        for (size_t i = 0; action && i < sizeof(actions) / sizeof(actions[0]); i++)
                if (strcmp(actions[i], action) == 0)
                        return i > 0 || !content || json_is_object(content);
        return 0;
}

static int is_sampled(const json_t *answer)
{
        const json_t *content = json_object_get(answer, "content");

        return json_is_object(content) || json_is_array(content);
}

static int is_rooted(const json_t *answer)
{
        return json_is_array(json_object_get(answer, "roots"));
}

static const struct question_kind {
        const char *method, *capability;
        int (*is_answer)(const json_t *answer);
} kinds[] = {
        {"elicitation/create", "elicitation", is_elicited},
        {"sampling/createMessage", "sampling", is_sampled},
        {"roots/list", "roots", is_rooted},
};

static const struct question_kind *kind_of(const char *method)
{
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if (method && strcmp(kinds[i].method, method) == 0)
                        return &kinds[i];
        return NULL;
}

const json_t *mcp_input(const struct mcp_exchange *x, const char *key, const char *method)
{
        const json_t *answer = json_object_get(x->inputs, key);

        return json_is_object(answer) && kind_of(method)->is_answer(answer) ? answer : NULL;
}

/* -- capabilities ------------------------------------------------------------------------------------------------ */

int mcp_refuse_incapable(struct mcp_exchange *x, const char *capability)
{
        if (json_is_object(json_object_get(mcp_capabilities(x), capability)))
                return 0;
        if (x->is_modern)
                mcp_refuse_with(x, 400, MCP_NO_CAPABILITY, json_pack("{s:{s:{}}}", "requiredCapabilities", capability),
                                "the client must have the capability '%s' for this request", capability);
        else if (x->tool)
                mcp_tool_answer_text(x,
                                     json_sprintf("this needs a client with the capability '%s', which it did not "
                                                  "declare: nothing was done",
                                                  capability),
                                     NULL, 1);
        else
                mcp_refuse(x, MCP_BAD_PARAMS, "the client must have the capability '%s' for this request", capability);
        return 1;
}

static int refuse_questions(struct mcp_exchange *x, json_t *questions)
{
        const char *key;
        json_t *question;

        json_object_foreach (questions, key, question)
                if (mcp_refuse_incapable(x, kind_of(mcp_text(question, "method"))->capability))
                        return 1;
        return 0;
}

/* -- request states ---------------------------------------------------------------------------------------------- */

/* The request as it must be repeated, with its caller. */
static char *bound_to(const struct mcp_exchange *x)
{
        json_t *params = json_copy(x->params), *bound;
        char *text;

        json_object_del(params, "_meta");
        json_object_del(params, "inputResponses");
        json_object_del(params, "requestState");
        bound = json_pack("[I, s, o]", (json_int_t)x->door.principal, x->method, params);
        text = bound ? json_dumps(bound, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        json_decref(bound);
        return text;
}

static int sign(const struct mcp_exchange *x, const char *state, size_t size, char ret[MAC_DIGITS + 1])
{
        struct hmac_sha256_ctx mac;
        unsigned char sum[SHA256_DIGEST_SIZE];
        char *bound = bound_to(x);

        if (!bound)
                return 0;
        hmac_sha256_set_key(&mac, MCP_KEY_BYTES, x->door.daemon->mcp->key);
        hmac_sha256_update(&mac, strlen(bound) + 1, (const uint8_t *)bound);
        hmac_sha256_update(&mac, size, (const uint8_t *)state);
        hmac_sha256_digest(&mac, sizeof(sum), sum);
        hex_write(ret, sum, sizeof(sum));
        free(bound);
        return 1;
}

/* MAC and base64 of {until, kept, id}; the id makes each one new. NULL: out of memory. */
static json_t *state_of(const struct mcp_exchange *x, const json_t *kept)
{
        char id[MCP_SESSION_SIZE], mac[MAC_DIGITS + 1];
        json_t *state, *base64, *ret = NULL;
        char *text;

        mcp_random_id(id);
        state = json_pack("{s:I, s:O?, s:s}", "until", (json_int_t)(clock_now_ns() / 1000000000 + ANSWER_S), "kept",
                          kept, "id", id);
        text = state ? json_dumps(state, JSON_COMPACT) : NULL;
        base64 = text ? door_base64(text, strlen(text)) : NULL;
        if (base64 && sign(x, json_string_value(base64), json_string_length(base64), mac))
                ret = json_sprintf("%.*s%s", MAC_DIGITS, mac, json_string_value(base64));
        json_decref(state);
        json_decref(base64);
        free(text);
        return ret;
}

/* 0: it is none of ours, or none for this request. */
static int read_state(struct mcp_exchange *x, const json_t *given)
{
        _cleanup_buf_ struct buf bytes = BUF_INIT(STATE_BYTES);
        const char *text = json_string_value(given);
        size_t size = json_string_length(given);
        char mac[MAC_DIGITS + 1];
        json_t *state;
        int is_ours;

        if (size < MAC_DIGITS || size > STATE_BYTES || !sign(x, text + MAC_DIGITS, size - MAC_DIGITS, mac) ||
            !memeql_sec(mac, text, MAC_DIGITS) || base64_decode(&bytes, text + MAC_DIGITS, size - MAC_DIGITS) < 0)
                return 0;
        state = json_loadb(bytes.data, bytes.size, 0, NULL);
        is_ours = (uint64_t)json_integer_value(json_object_get(state, "until")) >= clock_now_ns() / 1000000000;
        x->kept = is_ours ? json_incref(json_object_get(state, "kept")) : NULL;
        json_decref(state);
        return is_ours;
}

int mcp_inputs_take(struct mcp_exchange *x)
{
        const json_t *inputs = json_object_get(x->params, "inputResponses"),
                     *state = json_object_get(x->params, "requestState");

        if (!x->is_modern || x->inputs)
                return 1;
        if (inputs && !json_is_object(inputs)) {
                mcp_refuse(x, MCP_BAD_PARAMS, "params.inputResponses must be an object");
                return 0;
        }
        if (state && !read_state(x, state)) {
                mcp_refuse(x, MCP_BAD_PARAMS,
                           "params.requestState is not that of this request, or has expired: send the request without "
                           "it");
                return 0;
        }
        x->inputs = json_incref((json_t *)(uintptr_t)inputs);
        return 1;
}

/* -- questions --------------------------------------------------------------------------------------------------- */

void mcp_asked_free(struct mcp_exchange *x)
{
        if (!x->asked)
                return;
        json_decref(x->asked->questions);
        json_decref(x->asked->ids);
        json_decref(x->asked->kept);
        free(x->asked);
        x->asked = NULL;
}

static void on_silence(struct mcp_exchange *x)
{
        mcp_asked_free(x);
        mcp_refuse(x, MCP_INTERNAL, "the client did not answer a question in ten minutes");
}

/* questions, kept: stolen. */
static void send_questions(struct mcp_exchange *x, json_t *questions, json_t *kept)
{
        char id[MCP_SESSION_SIZE];
        const char *key;
        json_t *question;
        int is_sent = 1;

        x->asked = calloc(1, sizeof(*x->asked));
        if (!x->asked) {
                json_decref(questions);
                json_decref(kept);
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
                return;
        }
        *x->asked = (struct mcp_asked){.questions = questions, .ids = json_object(), .kept = kept};
        json_object_foreach (questions, key, question) {
                mcp_random_id(id);
                json_object_set_new(x->asked->ids, key, json_string(id));
                is_sent &= x->carrier->notify(x, json_pack("{s:s, s:s, s:O, s:O*}", "jsonrpc", "2.0", "id", id,
                                                           "method", json_object_get(question, "method"), "params",
                                                           json_object_get(question, "params")));
        }
        if (is_sent) {
                mcp_set_deadline(x, clock_now_ns() + UINT64_C(1000000000) * ANSWER_S, on_silence);
                return;
        }
        mcp_asked_free(x);
        mcp_refuse(x, MCP_INTERNAL, "the client must take a stream (Accept: text/event-stream) to be asked");
}

void mcp_ask(struct mcp_exchange *x, json_t *questions, json_t *kept)
{
        if (refuse_questions(x, questions)) {
                json_decref(questions);
                json_decref(kept);
        } else if (!x->is_modern) {
                send_questions(x, questions, kept);
        } else {
                mcp_answer(x, json_pack("{s:s, s:o, s:o}", "resultType", "input_required", "inputRequests", questions,
                                        "requestState", state_of(x, kept)));
                json_decref(kept);
        }
}

/* -- answers of the earlier era ---------------------------------------------------------------------------------- */

/* The question that has this id; ids are random, so a client without a session can answer too. */
static struct mcp_exchange *find_asker(const struct mcp_exchange *x, const char **ret_key)
{
        struct mcp_exchange *other;
        json_t *id;

        TAILQ_FOREACH (other, &x->door.daemon->mcp->exchanges, link)
                if (other->asked && other->door.principal == x->door.principal && other->connection == x->connection)
                        json_object_foreach (other->asked->ids, *ret_key, id)
                                if (json_equal(id, x->id))
                                        return other;
        return NULL;
}

static void finish(struct mcp_exchange *x)
{
        json_decref(x->kept);
        x->kept = x->asked->kept;
        x->asked->kept = NULL;
        x->deadline_ns = 0;
        mcp_asked_free(x);
        mcp_exchange_again(x);
}

void mcp_on_response(struct mcp_exchange *x)
{
        const char *key = NULL;
        struct mcp_exchange *asker = find_asker(x, &key);
        json_t *result = json_object_get(x->message, "result");
        const json_t *error = json_object_get(x->message, "error");

        if (asker && result) {
                if (!asker->inputs)
                        asker->inputs = json_object();
                json_object_set(asker->inputs, key, result);
        }
        if (asker)
                json_object_del(asker->asked->ids, key); /* key is invalid now */
        if (asker && error) {
                const char *why = mcp_text(error, "message");

                mcp_asked_free(asker);
                asker->deadline_ns = 0;
                mcp_refuse(asker, MCP_INTERNAL, "the client refused a question: %.200s", why ? why : "no reason");
        } else if (asker && json_object_size(asker->asked->ids) == 0) {
                finish(asker);
        }
        x->carrier->answer(x, 202, NULL);
}
