/* Print names and contents chosen by guests: characters that control the terminal, or disguise a
 * line, are shown as \xNN. */
#ifndef CLOCHE_CLI_OUTPUT_PRINT_H
#define CLOCHE_CLI_OUTPUT_PRINT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A name is one line with doubled backslashes; text keeps line ends and tabs. */
enum say_as { SAY_NAME, SAY_TEXT };
void say_bytes(FILE *out, const void *bytes, size_t size, enum say_as as);
void say_name(FILE *out, const char *name); /* NULL: "?" */

/* Print a JSON string, or its tagged bytes. */
void say_path(FILE *out, const json_t *path);
/* The bytes, owned by the caller, terminated; NULL if the value is neither form or contains a NUL. */
char *say_path_bytes(const json_t *path);

#define SAY_AGE_BYTES 40
const char *say_age(json_int_t seconds, char ret[SAY_AGE_BYTES]);

/* Print a list as JSON text, or one line per row. */
void say_rows(const json_t *rows, int json, void (*say_row)(const json_t *row));

/* Write to standard error at once, in pieces that a pipe accepts whole. After patience_ms without
 * progress the rest is dropped. 0, or -1 then. */
int say_now(const char *text, size_t size, int patience_ms);

#endif
