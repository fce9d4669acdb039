/* Magics: the first line of a cell, "%cloche …", for acts on the sandbox. Runs in: cloche-kernel
 * and cloched-engine, with their rights. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

#define MAGIC "%cloche"
#define WORDS_MAX 4
#define USAGE "expected %cloche fork NAME, checkpoint [NAME], rollback [NAME], net allow HOST, or denials"

struct words {
        char text[1024];
        char *at[WORDS_MAX];
        size_t count; /* WORDS_MAX + 1: more than there may be */
};

struct magic {
        const char *first, *second; /* second: NULL: none */
        size_t least, most;         /* further words */
        const char *method;
        json_t *(*params)(const struct jupyter_kernel *k, const char *word); /* word: NULL if absent */
        json_t *(*text)(const struct jupyter_kernel *k, const json_t *result);
};

static const char *text_in(const json_t *object, const char *name)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text ? text : "";
}

static json_t *fork_params(const struct jupyter_kernel *k, const char *word)
{
        (void)k;
        return json_pack("{s:[s]}", "names", word);
}

static json_t *fork_text(const struct jupyter_kernel *k, const json_t *result)
{
        const json_t *made = json_array_get(json_object_get(result, "sandboxes"), 0);

        return json_sprintf("sandbox %s is a copy of %s\n", text_in(made, "sandbox"), k->sandbox);
}

static json_t *checkpoint_params(const struct jupyter_kernel *k, const char *word)
{
        return json_pack("{s:s, s:s*}", "context", k->context, "checkpoint", word);
}

static json_t *checkpoint_text(const struct jupyter_kernel *k, const json_t *result)
{
        (void)k;
        return json_sprintf("checkpoint %s\n", text_in(result, "checkpoint"));
}

static json_t *rollback_text(const struct jupyter_kernel *k, const json_t *result)
{
        (void)result;
        return json_sprintf("context %s is as it was at the checkpoint\n", k->context);
}

static json_t *allow_params(const struct jupyter_kernel *k, const char *word)
{
        (void)k;
        return json_pack("{s:{s:[s]}}", "addNetwork", "allow", word);
}

static json_t *allow_text(const struct jupyter_kernel *k, const json_t *result)
{
        (void)result;
        return json_sprintf("sandbox %s has a new rule\n", k->sandbox);
}

static json_t *denials_params(const struct jupyter_kernel *k, const char *word)
{
        (void)k;
        (void)word;
        return json_object();
}

static json_t *denials_text(const struct jupyter_kernel *k, const json_t *result)
{
        _cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
        const json_t *decision;
        char line[1200];
        size_t i;

        (void)k;
        json_array_foreach (json_object_get(result, "decisions"), i, decision) {
                const char *host = text_in(decision, "host");

                if (strcmp(text_in(decision, "verdict"), "denied") != 0)
                        continue;
                snprintf(line, sizeof(line), "%s %s %.300s:%lld %.300s\n", text_in(decision, "time"),
                         text_in(decision, "verdict"), *host ? host : text_in(decision, "address"),
                         (long long)json_integer_value(json_object_get(decision, "port")), text_in(decision, "why"));
                if (buf_append(&text, line, strlen(line)) < 0)
                        break;
        }
        return text.size ? text_of(text.data, text.size) : json_string("no connection was refused\n");
}

static const struct magic magics[] = {
        {"fork", NULL, 1, 1, "sandbox.fork", fork_params, fork_text},
        {"checkpoint", NULL, 0, 1, "context.checkpoint", checkpoint_params, checkpoint_text},
        {"rollback", NULL, 0, 1, "context.rollback", checkpoint_params, rollback_text},
        {"net", "allow", 1, 1, "sandbox.update", allow_params, allow_text},
        {"denials", NULL, 0, 0, "network.log", denials_params, denials_text},
};

size_t jupyter_magic_size(const char *code, size_t size)
{
        size_t end = sizeof(MAGIC) - 1;

        if (size < end || memcmp(code, MAGIC, end) != 0 || (size > end && !strchr(" \t\r\n", code[end])))
                return 0;
        while (end < size && code[end] != '\n')
                end++;
        return end;
}

static void split(const char *line, struct words *ret)
{
        char *rest;

        snprintf(ret->text, sizeof(ret->text), "%s", line);
        ret->count = strlen(line) >= sizeof(ret->text) ? WORDS_MAX + 1 : 0;
        for (char *word = strtok_r(ret->text, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest)) {
                if (ret->count < WORDS_MAX)
                        ret->at[ret->count] = word;
                ret->count += ret->count <= WORDS_MAX;
        }
}

static const struct magic *find(const struct words *words, size_t *ret_used)
{
        for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
                const struct magic *m = &magics[i];
                size_t used = m->second ? 2 : 1;

                if (words->count < used + m->least || words->count > used + m->most ||
                    strcmp(words->at[0], m->first) != 0 || (m->second && strcmp(words->at[1], m->second) != 0))
                        continue;
                *ret_used = used;
                return m;
        }
        return NULL;
}

static void on_done(struct jupyter_call *call, const struct jupyter_reply *reply)
{
        struct jupyter_request *request = call->request;
        const struct magic *magic = request->magic;

        if (reply->e) {
                jupyter_cell_fail(request, cloche_code_name(reply->e->code), reply->e->msg);
                return;
        }
        jupyter_cell_print(request, magic->text(request->kernel, reply->result));
        jupyter_cell_go_on(request);
}

void jupyter_run_magic(struct jupyter_request *request, const char *line)
{
        struct words words;
        const struct magic *magic;
        size_t used = 0;

        split(line + sizeof(MAGIC) - 1, &words);
        magic = find(&words, &used);
        if (!magic) {
                jupyter_cell_fail(request, "UsageError", USAGE);
                return;
        }
        request->magic = magic;
        jupyter_call_core(request->kernel, request, magic->method,
                          magic->params(request->kernel, words.count > used ? words.at[used] : NULL), on_done, NULL);
}
