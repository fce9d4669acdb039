/* This API has no word for the network: a line behind the output of commands and processes says why a host could not be reached, and who can allow it. */
#include "container-internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Find the words of a program that could not reach a name or a host: they say nothing of a policy. NULL: there are none. */
static const char *find_name(const char *text)
{
        static const char *const said[] = {
                "ould not resolve host", "emporary failure in name resolution", "ailure resolving", "ame or service not known", "nable to resolve",
                "EAI_AGAIN", "ENOTFOUND", "etwork is unreachable", "ENETUNREACH", "ame resolution", "rname not found",
        };
        const char *found = NULL;

        for (size_t i = 0; i < sizeof(said) / sizeof(said[0]) && !found; i++)
                found = strstr(text, said[i]);
        return found;
}

void container_network_look(struct container_network *network, const struct buf *text)
{
        _cleanup_buf_ struct buf whole = BUF_INIT(SIZE_MAX / 2);
        const char *from;
        size_t kept;

        if (buf_append(&whole, network->end, strlen(network->end)) < 0 || buf_append(&whole, text->data, text->size) < 0 || buf_append(&whole, "", 1) < 0)
                return;
        from = network->is_named ? whole.data + strlen(network->end) : find_name(whole.data);
        network->is_named = from != NULL;
        network->is_line_over |= from && strchr(from, '\n');
        network->is_in_line = whole.size > 1 && whole.data[whole.size - 2] != '\n';
        kept = whole.size < sizeof(network->end) ? whole.size : sizeof(network->end);
        memcpy(network->end, whole.data + whole.size - kept, kept);
}

char *container_network_line(const struct container_ask *a)
{
        char why[800], *line;

        if (!sandboxes_explain_network(a->daemon->sandboxes, a->principal, a->sandbox, why, sizeof(why)) || asprintf(&line, "cloche: %s\n", why) < 0)
                return NULL;
        return line;
}

void container_network_explain(const struct container_ask *a, json_t *outcome, const json_t *exit_code)
{
        const char *printed = json_string_value(json_object_get(outcome, "stderr"));
        int is_well = exit_code && json_integer_value(exit_code) == 0;
        char *line = printed && !is_well && find_name(printed) ? container_network_line(a) : NULL;

        if (line)
                json_object_set_new(outcome, "stderr", json_sprintf("%s%s%s", printed, printed[strlen(printed) - 1] == '\n' ? "" : "\n", line));
        free(line);
}
