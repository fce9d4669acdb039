#include "bash-agent.h"

#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

static const char spaces[] = " \t\r\n";

static int begins_json(char first)
{
        return strchr("{[\"-0123456789tfn", first) != NULL;
}

json_t *json_of(const char *text, size_t size)
{
        struct cloche_err e;
        json_t *value;

        while (size && memchr(spaces, text[size - 1], sizeof(spaces) - 1))
                size--;
        while (size && memchr(spaces, *text, sizeof(spaces) - 1)) {
                text++;
                size--;
        }
        if (size == 0 || !*text || !begins_json(*text))
                return NULL;
        return json_load_human(text, size, &value, &e) == 0 ? value : NULL;
}

static int reply_json(struct agent_reply *reply, json_t *json)
{
        char why[256];
        int r = agent_reply_text_form(reply, json, why, sizeof(why));

        json_decref(json);
        return r < 0 ? agent_throw(reply, "ResultError", NULL, "%s", why) : 0;
}

int result_from_text(struct agent_reply *reply, const char *text, size_t size)
{
        json_t *json = json_of(text, size);
        size_t line = size && text[size - 1] == '\n' ? size - 1 : size;

        if (json)
                return reply_json(reply, json);
        reply->value = json_stringn(text, line);
        if (!reply->value)
                reply->value = agent_attach(reply, text, size); /* invalid UTF-8: the bytes as printed */
        return 0;
}
