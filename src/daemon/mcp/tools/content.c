/* Results of tools: bounded texts, blocks of content, failures. Runs in: cloched-engine, on its
 * loop, with the rights of the daemon's user. */
#include "daemon/mcp/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HALF_BYTES (MCP_TEXT_BYTES / 2)
#define DENIALS_MAX 10 /* of a cell, as text */

/* -- texts ------------------------------------------------------------------------------------------------------- */

void mcp_cut_init(struct mcp_cut *cut)
{
        *cut = (struct mcp_cut){.head = BUF_INIT(HALF_BYTES), .tail = BUF_INIT(2 * HALF_BYTES)};
}

void mcp_cut_done(struct mcp_cut *cut)
{
        buf_done(&cut->head);
        buf_done(&cut->tail);
}

static void add_to_tail(struct buf *tail, const char *bytes, size_t size)
{
        if (size > HALF_BYTES) {
                bytes += size - HALF_BYTES;
                size = HALF_BYTES;
        }
        /* Twice the size, so that bytes are moved once in so many. */
        if (tail->size + size > tail->max)
                buf_consume(tail, tail->size + size - HALF_BYTES);
        (void)buf_append(tail, bytes, size);
}

void mcp_cut_add(struct mcp_cut *cut, const char *bytes, size_t size)
{
        size_t room = HALF_BYTES - cut->head.size, to_head = size < room ? size : room;

        cut->total += size;
        (void)buf_append(&cut->head, bytes, to_head);
        if (size > to_head)
                add_to_tail(&cut->tail, bytes + to_head, size - to_head);
}

int mcp_cut_is_short(const struct mcp_cut *cut)
{
        return cut->total > MCP_TEXT_BYTES;
}

static int is_inside(char c)
{
        return ((unsigned char)c & 0xC0) == 0x80;
}

/* Without the beginning of a character at its end. */
static size_t whole_size(const char *bytes, size_t size)
{
        size_t at = size;

        while (at > 0 && size - at < 3 && is_inside(bytes[at - 1]))
                at--;
        return at > 0 && (unsigned char)bytes[at - 1] >= 0xC0 ? at - 1 : size;
}

json_t *mcp_cut_text(const struct mcp_cut *cut)
{
        _cleanup_buf_ struct buf text = BUF_INIT(2 * MCP_TEXT_BYTES);
        const char *tail = cut->tail.data ? cut->tail.data : "";
        size_t size = cut->tail.size, head_size = cut->head.size;
        char middle[80];
        int r;

        if (mcp_cut_is_short(cut) && size >= HALF_BYTES) { /* less: no memory */
                tail += size - HALF_BYTES;
                for (size = HALF_BYTES; size > HALF_BYTES - 4 && is_inside(*tail); size--)
                        tail++;
                head_size = whole_size(cut->head.data, head_size);
        }
        r = buf_append(&text, cut->head.data, head_size);
        if (r == 0 && mcp_cut_is_short(cut)) {
                snprintf(middle, sizeof(middle), "\n[... %llu bytes are left out here ...]\n",
                         (unsigned long long)(cut->total - head_size - size));
                r = buf_append(&text, middle, strlen(middle));
        }
        if (r == 0)
                r = buf_append(&text, tail, size);
        return r < 0 ? NULL : json_valid_text(text.data ? text.data : "", text.size);
}

json_t *mcp_cut_of(const char *bytes, size_t size)
{
        struct mcp_cut cut;
        json_t *text;

        mcp_cut_init(&cut);
        mcp_cut_add(&cut, bytes, size);
        text = mcp_cut_text(&cut);
        mcp_cut_done(&cut);
        return text;
}

/* -- output ------------------------------------------------------------------------------------------------------ */

void mcp_output_init(struct mcp_output *output)
{
        mcp_cut_init(&output->stdout);
        mcp_cut_init(&output->stderr);
}

void mcp_output_take(struct mcp_exchange *x, struct mcp_output *output, const char *event, const json_t *about,
                     const struct buf *attachments)
{
        const char *stream = mcp_text(about, "stream"), *bytes;
        size_t size;

        if (strcmp(event, "output") != 0 || !stream ||
            !door_bytes(json_object_get(about, "data"), attachments, &bytes, &size))
                return;
        mcp_cut_add(strcmp(stream, "stderr") == 0 ? &output->stderr : &output->stdout, bytes, size);
        mcp_progress(x, bytes, size);
}

int mcp_output_is_short(const struct mcp_output *output)
{
        return mcp_cut_is_short(&output->stdout) || mcp_cut_is_short(&output->stderr);
}

void mcp_output_done(struct mcp_output *output)
{
        mcp_cut_done(&output->stdout);
        mcp_cut_done(&output->stderr);
}

/* -- blocks ------------------------------------------------------------------------------------------------------ */

const char *const mcp_image_types[] = {"image/png", "image/jpeg", "image/gif", "image/webp", NULL};

json_t *mcp_image_block(const char *mime, json_t *base64)
{
        return json_pack("{s:s, s:o, s:s}", "type", "image", "data", base64, "mimeType", mime);
}

json_t *mcp_text_block(const json_t *text)
{
        return json_pack("{s:s, s:O}", "type", "text", "text", text);
}

void mcp_add_text(json_t *content, const json_t *text)
{
        if (json_string_length(text) > 0)
                json_array_append_new(content, mcp_text_block(text));
}

void mcp_add_warnings(struct mcp_exchange *x, json_t *content, const json_t *ended)
{
        json_t *warnings = json_object_get(ended, "warnings"), *warning;
        size_t i;

        json_array_foreach (warnings, i, warning) {
                mcp_add_text(content, warning);
                mcp_log(x, MCP_WARNING, "network", json_incref(warning));
        }
}

void mcp_add_denials(struct mcp_exchange *x, json_t *content, const json_t *ended)
{
        json_t *denials = json_object_get(ended, "denials");

        for (size_t i = 0; i < json_array_size(denials) && i < DENIALS_MAX; i++) {
                const json_t *denial = json_array_get(denials, i);
                const char *host = mcp_text(denial, "host"), *address = mcp_text(denial, "address"),
                           *why = mcp_text(denial, "why");
                json_t *text = json_sprintf("[refused: %s: %s]",
                                            host      ? host
                                            : address ? address
                                                      : "a connection",
                                            why ? why : "no rule permits it");

                mcp_add_text(content, text);
                mcp_log(x, MCP_WARNING, "network", text);
        }
}

void mcp_tool_answer(struct mcp_exchange *x, json_t *content, json_t *structured, int is_error)
{
        mcp_answer(x, json_pack("{s:o, s:o*, s:b}", "content", content, "structuredContent", structured, "isError",
                                is_error));
}

void mcp_tool_answer_text(struct mcp_exchange *x, json_t *text, json_t *structured, int is_error)
{
        mcp_tool_answer(x, json_pack("[o]", mcp_text_block(text)), structured, is_error);
        json_decref(text);
}

/* -- failures ---------------------------------------------------------------------------------------------------- */

/* Words of the core for callers of operations, and those for agents, who have tools. */
static const struct {
        const char *core, *agent;
} words[] = {
        {"send the rest by process.input", "send the rest by send_input"},
        {" (process.start with stdin)", ""},
        {" (process.kill)", " (stop_process)"},
        {" (process.list lists them)", " (list_processes lists them)"},
        {" (sandbox.list lists them)", " (list_sandboxes lists them)"},
        {" (sandbox.stop)", " (delete_sandbox)"},
        {"delete one (session.delete)", "use one that is there"},
        {" (session.list lists them)", ""},
        {"delete one (context.delete)", "use one that is there"},
        {" (context.list lists them)", ""},
        {" (context.restart)", ""},
        {" (context.create with forkable, context create --forkable)", ": leave 'context' out"},
        {", delete it (snapshot.delete)", ""},
        {" (snapshot.list lists them)", " (checkpoint makes one)"},
        {"port.expose", "expose_port"},
};

static json_t *in_words_of_agents(const char *text)
{
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                const char *at = strstr(text, words[i].core);

                if (at)
                        return json_sprintf("%.*s%s%s", (int)(at - text), text, words[i].agent,
                                            at + strlen(words[i].core));
        }
        return json_valid_text(text, strlen(text));
}

/* The arguments name a thing that does not exist, or are not permitted. */
static int is_fault_of_arguments(enum cloche_code code)
{
        return code == CLOCHE_E_INVALID_ARGUMENT || code == CLOCHE_E_NOT_FOUND || code == CLOCHE_E_FILE_NOT_FOUND ||
               code == CLOCHE_E_UNKNOWN_LANGUAGE;
}

void mcp_tool_fail(struct mcp_exchange *x, const struct cloche_err *e)
{
        json_t *text = in_words_of_agents(e->msg);

        if (!is_fault_of_arguments(e->code)) {
                mcp_tool_answer_text(x, text, NULL, 1);
                return;
        }
        mcp_refuse(x, MCP_BAD_PARAMS, "%s", text ? json_string_value(text) : e->msg);
        json_decref(text);
}
