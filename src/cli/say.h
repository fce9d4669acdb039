/* Names and contents that guests chose, on a terminal: what could steer it, or make a line read as another, is shown as \xNN. */
#ifndef CLOCHE_CLI_SAY_H
#define CLOCHE_CLI_SAY_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A name is on one line, and its backslashes are doubled; in text line ends and tabs stay. */
enum say_as { SAY_NAME, SAY_TEXT };
void say_bytes(FILE *out, const void *bytes, size_t size, enum say_as as);
void say_name(FILE *out, const char *name); /* NULL: "?" */

/* Text of JSON, or its tagged bytes. */
void say_path(FILE *out, const json_t *path);
/* Its bytes, owned by the caller, terminated; NULL when it is neither, or has a NUL. */
char *say_path_bytes(const json_t *path);

#define SAY_AGE_BYTES 40
const char *say_age(json_int_t seconds, char ret[SAY_AGE_BYTES]);

/* A list as JSON text, or a line each. */
void say_rows(const json_t *rows, int json, void (*say_row)(const json_t *row));

/* On standard error at once, in pieces a pipe takes whole; a reader who takes nothing for so long misses the rest. 0, or -1 then. */
int say_now(const char *text, size_t size, int patience_ms);

#endif
