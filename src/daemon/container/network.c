/* This API has no error for the network: a line after the output of a command or process names the
 * reason why a host is unreachable, and who can allow it. Runs in: cloched-engine, on its loop,
 * with the rights of the daemon's user. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void container_network_search(struct container_network *network, const struct buf *text)
{
        const char *from = network->words.is_found ? text->data : network_words_find(text->data, text->size);

        network_words_add(&network->words, text->data, text->size);
        if (network->words.is_found && !from)
                from = text->data; /* the words began in the piece before */
        network->is_line_complete |= from && memchr(from, '\n', (size_t)(text->data + text->size - from));
        network->is_in_line = text->size > 0 ? text->data[text->size - 1] != '\n' : network->is_in_line;
}

char *container_network_line(const struct container_request *q)
{
        char why[800], *line;

        if (!sandboxes_explain_network(q->door.daemon->sandboxes, q->door.principal, q->door.sandbox, why,
                                       sizeof(why)) ||
            asprintf(&line, "cloche: %s\n", why) < 0)
                return NULL;
        return line;
}

void container_network_explain(const struct container_request *q, json_t *outcome, const json_t *exit_code)
{
        const char *printed = json_string_value(json_object_get(outcome, "stderr"));
        int is_well = exit_code && json_integer_value(exit_code) == 0;
        char *line =
                printed && !is_well && network_words_find(printed, strlen(printed)) ? container_network_line(q) : NULL;

        if (line)
                json_object_set_new(outcome, "stderr",
                                    json_sprintf("%s%s%s", printed, printed[strlen(printed) - 1] == '\n' ? "" : "\n",
                                                 line));
        free(line);
}
