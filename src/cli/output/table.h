/* Lists of objects, a column for each row of a table. On a terminal: headings, aligned columns, and
 * lines that are cut to its width. Otherwise each line has all cells whole, separated by tabs, with
 * exact sizes and times. A guest's names are escaped (print.h), so a cell has no tab of its own. */
#ifndef CLOCHE_CLI_OUTPUT_TABLE_H
#define CLOCHE_CLI_OUTPUT_TABLE_H

#include <jansson.h>
#include <stdio.h>

enum table_cell {
        CELL_NAME,  /* text, or a path of any bytes; a list of them: separated by commas */
        CELL_STATE, /* a name in the colour of the state */
        CELL_COUNT,
        CELL_BYTES, /* on a terminal in units */
        CELL_TIME,  /* RFC 3339; on a terminal the age */
        CELL_AGE,   /* seconds; on a terminal in units */
};

struct table_column {
        const char *heading;
        enum table_cell cell;
        const char *member; /* of the row, a missing one is an empty cell */
        unsigned least;     /* the width to which it may be cut on a narrow terminal; 0: it is never cut */
        /* Write the cell; NULL: the member is the cell. */
        void (*make)(FILE *out, const json_t *row, int is_plain);
};

struct table_look {
        int is_plain; /* tabs, no headings */
        int has_colours;
        unsigned width;          /* of the terminal */
        const char *end_of_line; /* before each newline */
        size_t from, count;      /* the rows that are written; the columns fit all */
        size_t chosen;           /* the row that is highlighted; SIZE_MAX: none */
        const char *sorted;      /* the heading that is highlighted; NULL: none */
};

#define TABLE_COLUMNS_MAX 16

/* Print rows on standard output, or as JSON text. */
void table_print(const struct table_column *columns, size_t count, const json_t *rows, int json);
void table_write(FILE *out, const struct table_column *columns, size_t count, const json_t *rows,
                 const struct table_look *look);
#define TABLE_PRINT(columns, rows, json) table_print(columns, sizeof(columns) / sizeof((columns)[0]), rows, json)

/* Return the columns of a terminal that a text takes; one that is not valid UTF-8 has one for each
 * byte. */
size_t table_width(const char *text);
/* Write a text, cut to that width by an ellipsis. Returns the width written. */
size_t table_write_cut(FILE *out, const char *text, size_t width);
/* Format a size in its unit, with a digit behind the point: "1.5M". */
#define TABLE_BYTES_TEXT 24
const char *table_bytes_text(json_int_t bytes, char ret[TABLE_BYTES_TEXT]);
/* Return the seconds since a time in RFC 3339; -1: it is none. */
json_int_t table_age(const char *time);

#endif
