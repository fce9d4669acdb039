/* An object of a daemon on standard output. */
#ifndef CLOCHE_CLI_OUTPUT_OBJECT_H
#define CLOCHE_CLI_OUTPUT_OBJECT_H

#include <jansson.h>

/* json: as one line of JSON; else a line for each value, the path of names before it. */
void print_object(const json_t *object, int json);

#endif
