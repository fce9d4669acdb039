#include "bash-agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- values to words ------------------------------------------------------------------------------------------- */

/* Allocated by the shell's allocator. */
static char *word_of(const char *text, size_t size, const char *nul, const char **ret_why)
{
        char *word;

        if (memchr(text, '\0', size)) {
                *ret_why = nul;
                return NULL;
        }
        word = xmalloc(size + 1);
        memcpy(word, text, size);
        word[size] = '\0';
        return word;
}

static char *json_word(const struct agent_request *request, const json_t *value, const char **ret_why)
{
        size_t size;
        char *text = agent_json_text(request, value, &size), *word;

        if (!text) {
                *ret_why = "there is no memory for its JSON";
                return NULL;
        }
        word = word_of(text, size, "", ret_why);
        free(text);
        return word;
}

/* Tagged forms that are naturally one word; others are JSON. */
static char *tagged_word(const struct agent_request *request, const json_t *value, const char *tag,
                         const char **ret_why)
{
        static const char *const simple[] = {"number", "bigint", "date"};
        const char *v = json_string_value(json_object_get(value, "v"));
        const unsigned char *data;
        size_t size;

        if (strcmp(tag, "undefined") == 0 || strcmp(tag, "hole") == 0)
                return savestring("");
        if (strcmp(tag, "utf16") == 0) {
                *ret_why = "a string with a lone surrogate cannot be held by the shell";
                return NULL;
        }
        for (size_t i = 0; i < sizeof(simple) / sizeof(simple[0]); i++)
                if (strcmp(tag, simple[i]) == 0)
                        return savestring(v ? v : "");
        if (strcmp(tag, "array") != 0 && agent_bytes(request, value, &data, &size))
                return word_of((const char *)data, size, "bytes with a NUL among them cannot be held by the shell",
                               ret_why);
        return json_word(request, value, ret_why);
}

char *value_word(const struct agent_request *request, const json_t *value, const char **ret_why)
{
        const char *tag = agent_tag(value);

        if (tag)
                return tagged_word(request, value, tag, ret_why);
        if (json_is_null(value))
                return savestring("");
        if (json_is_string(value))
                return word_of(json_string_value(value), json_string_length(value),
                               "a string with NUL in it cannot be held by the shell", ret_why);
        return json_word(request, value, ret_why);
}

/* -- positions ------------------------------------------------------------------------------------------------- */

static int position_in(const json_t *order, const char *name)
{
        for (size_t i = 0; i < json_array_size(order); i++)
                if (strcmp(json_string_value(json_array_get(order, i)), name) == 0)
                        return (int)i;
        return -1;
}

/* Values by position, borrowed; NULL if omitted. */
struct positions {
        const json_t **values;
        size_t count;
};

static int place_keywords(const struct agent_request *request, struct agent_reply *reply, struct positions *p)
{
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)request->kwargs, name, value) {
                int position = position_in(request->order, name);

                if (position < 0)
                        return agent_throw(reply, "ArgumentError", NULL,
                                           "argument '%s': Bash has no named parameters: give it by position, or name "
                                           "the positions in a schema",
                                           name);
                if (p->values[position])
                        return agent_throw(reply, "ArgumentError", NULL, "argument '%s' is given twice", name);
                p->values[position] = value;
                if ((size_t)position >= p->count)
                        p->count = (size_t)position + 1;
        }
        return 0;
}

static int read_positions(const struct agent_request *request, struct agent_reply *reply, struct positions *ret)
{
        size_t given = json_array_size(request->args);

        ret->values = xmalloc((given + json_array_size(request->order) + 1) * sizeof(ret->values[0]));
        memset(ret->values, 0, (given + json_array_size(request->order) + 1) * sizeof(ret->values[0]));
        for (size_t i = 0; i < given; i++)
                if (!agent_is_hole(request, i)) {
                        ret->values[i] = json_array_get(request->args, i);
                        ret->count = i + 1;
                }
        return place_keywords(request, reply, ret);
}

/* The shell cannot omit a position: an omitted argument is empty, which ${1:-default} treats as missing. */
static int make_words(const struct agent_request *request, struct agent_reply *reply, const struct positions *p,
                      WORD_LIST **ret)
{
        for (size_t i = p->count; i-- > 0;) {
                const char *why;
                char *text = p->values[i] ? value_word(request, p->values[i], &why) : savestring("");

                if (!text)
                        return agent_throw(reply, "ArgumentError", NULL, "argument %zu: %s", i + 1, why);
                *ret = make_word_list(make_word(text), *ret);
                free(text);
        }
        return 0;
}

int arguments_read(const struct agent_request *request, struct agent_reply *reply, WORD_LIST **ret)
{
        struct positions positions = {0};
        WORD_LIST *words = NULL;
        int r = read_positions(request, reply, &positions);

        if (r == 0)
                r = make_words(request, reply, &positions, &words);
        free(positions.values);
        if (r < 0)
                dispose_words(words);
        else
                *ret = words;
        return r;
}
