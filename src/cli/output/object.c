/* An object of a daemon for people: a line for each value. Runs in: the CLI, as its user. */
#include "object.h"

#include "cli/options/quantity.h"
#include "cli/sandbox/sandbox-options.h"
#include "print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_text(const char *text)
{
        print_bytes(stdout, text, strlen(text), PRINT_NAME);
}

static int ends_with(const char *name, const char *end)
{
        return strlen(name) >= strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

/* name: its suffix gives the unit of a number. */
static void print_scalar(const char *name, const json_t *value)
{
        char quantity[QUANTITY_TEXT_BYTES];
        int is_time = ends_with(name, "Ms");
        char *text;

        if (json_integer_value(value) > 0 && (is_time || ends_with(name, "Bytes"))) {
                puts((is_time ? quantity_ms_text : quantity_bytes_text)((double)json_integer_value(value), quantity));
                return;
        }
        text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

        print_text(text ? text : json_is_string(value) ? json_string_value(value) : "?");
        putchar('\n');
        free(text);
}

/* Print a line per value: the path of names, then the value. */
static void print_values(const char *before, const json_t *value)
{
        char name[200];
        const char *key;
        json_t *member;
        size_t i;

        if (json_is_array(value))
                json_array_foreach (value, i, member) {
                        printf("%-26s ", before);
                        print_scalar(before, member);
                }
        else if (json_is_object(value))
                json_object_foreach ((json_t *)value, key, member) {
                        snprintf(name, sizeof(name), "%s%s%s", before, *before ? "." : "", key);
                        print_values(name, member);
                }
        else {
                print_text(before);
                printf("%*s ", (int)(strlen(before) < 26 ? 26 - strlen(before) : 0), "");
                print_scalar(before, value);
        }
}

void print_object(const json_t *object, int json)
{
        if (json)
                sandbox_print_json(object);
        else
                print_values("", object);
}
