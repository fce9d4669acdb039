/* Print names and contents chosen by guests: characters that control the terminal, or disguise a
 * line, are shown as \xNN. */
#ifndef CLOCHE_CLI_OUTPUT_PRINT_H
#define CLOCHE_CLI_OUTPUT_PRINT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A name is one line with doubled backslashes; text keeps line ends and tabs. */
enum print_as { PRINT_NAME, PRINT_TEXT };
void print_bytes(FILE *out, const void *bytes, size_t size, enum print_as as);
void print_name(FILE *out, const char *name); /* NULL: "?" */

/* Print a JSON string, or its tagged bytes. */
void print_path(FILE *out, const json_t *path);
/* The bytes, owned by the caller, terminated; NULL if the value is neither form or contains a
 * NUL. */
char *output_path_bytes(const json_t *path);

/* Print a RefusedConnection or SandboxDenial of spec/answers.def as a line. */
void print_refused(FILE *out, const json_t *denied);
/* Print a line for each of an answer's denials; returns their number. of: the process that
 * each line names; NULL: none. */
size_t print_denials(FILE *out, const char *of, const json_t *answer);
/* Commands that are printed from now on are for the daemon with this socket, which --socket
 * named; it is not copied. */
void print_for_socket(const char *path);
/* Print text of the daemon. A `cloche net SANDBOX` in it gets the named socket. */
void print_advice(FILE *out, const char *text, enum print_as as);

#define OUTPUT_AGE_BYTES 40
const char *output_age(json_int_t seconds, char ret[OUTPUT_AGE_BYTES]);

/* Print a list as JSON text, or one line per row. */
void print_rows(const json_t *rows, int json, void (*print_row)(const json_t *row));

/* Write to standard error at once, in pieces that a pipe accepts whole. After patience_ms without
 * progress the rest is dropped. 0, or -1 then. */
int print_at_once(const char *text, size_t size, int patience_ms);

#endif
