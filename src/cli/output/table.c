/* Lists of objects as a table, or as lines with tabs. Runs in: the CLI, as its user. */
#include "table.h"
#include "print.h"
#include "style.h"

#include "base/utf8.h"
#include "cli/sandbox/terminal.h"

#include <limits.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define GAP 2
#define ELLIPSIS "\xe2\x80\xa6"

/* -- widths --------------------------------------------------------------------------------------------------- */

/* Widths are those of Unicode, whatever the user's locale is: names are written in UTF-8. */
static void use_widths(void)
{
        static locale_t widths;

        if (!widths && (widths = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0)))
                uselocale(widths);
}

/* Return the size of the first character, and its width. */
static size_t next(const char *text, size_t size, size_t *ret_width)
{
        uint32_t character;
        size_t taken = utf8_decode(text, size, &character);
        int width = taken ? wcwidth((wchar_t)character) : 1;

        *ret_width = width < 0 ? 1 : (size_t)width;
        return taken ? taken : 1;
}

size_t table_width(const char *text)
{
        size_t size = strlen(text), width = 0, one;

        use_widths();
        for (size_t at = 0; at < size; width += one)
                at += next(text + at, size - at, &one);
        return width;
}

size_t table_write_cut(FILE *out, const char *text, size_t width)
{
        size_t size = strlen(text), at = 0, written = 0, one, taken;
        int is_cut = table_width(text) > width;

        while (at < size) {
                taken = next(text + at, size - at, &one);
                if (written + one + (size_t)is_cut > width)
                        break;
                fwrite(text + at, 1, taken, out);
                at += taken;
                written += one;
        }
        if (is_cut && width > 0) {
                fputs(ELLIPSIS, out);
                written++;
        }
        return written;
}

/* -- cells ---------------------------------------------------------------------------------------------------- */

const char *table_bytes_text(json_int_t bytes, char ret[TABLE_BYTES_TEXT])
{
        static const char units[] = "KMGT";
        double amount = (double)bytes;
        size_t unit = 0;

        if (bytes < 1024) {
                snprintf(ret, TABLE_BYTES_TEXT, "%lld", (long long)bytes);
                return ret;
        }
        for (amount /= 1024; amount >= 1024 && unit + 2 < sizeof(units); unit++)
                amount /= 1024;
        snprintf(ret, TABLE_BYTES_TEXT, "%.1f%c", amount, units[unit]);
        return ret;
}

json_int_t table_age(const char *text)
{
        struct tm tm = {0};
        const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
        time_t then = rest ? timegm(&tm) : -1, now = time(NULL);

        return then < 0 ? -1 : now > then ? (json_int_t)(now - then) : 0;
}

static void write_time(FILE *out, const char *text, int is_plain)
{
        char age[OUTPUT_AGE_BYTES];
        json_int_t seconds = is_plain ? -1 : table_age(text);

        if (seconds < 0)
                print_name(out, text);
        else
                fputs(output_age(seconds, age), out);
}

static void write_number(FILE *out, enum table_cell cell, const json_t *value, int is_plain)
{
        char text[TABLE_BYTES_TEXT], age[OUTPUT_AGE_BYTES];

        if (cell == CELL_BYTES && !is_plain)
                fputs(table_bytes_text(json_integer_value(value), text), out);
        else if (cell == CELL_AGE && !is_plain)
                fputs(output_age(json_integer_value(value), age), out);
        else
                fprintf(out, "%lld", (long long)json_integer_value(value));
}

static void write_value(FILE *out, enum table_cell cell, const json_t *value, int is_plain)
{
        const json_t *item;
        size_t i;

        if (!value || json_is_null(value))
                return;
        if (json_is_array(value))
                json_array_foreach (value, i, item) {
                        fputs(i ? "," : "", out);
                        write_value(out, cell, item, is_plain);
                }
        else if (json_is_integer(value))
                write_number(out, cell, value, is_plain);
        else if (cell == CELL_TIME && json_is_string(value))
                write_time(out, json_string_value(value), is_plain);
        else if (json_is_boolean(value))
                fputs(json_is_true(value) ? "yes" : "no", out);
        else
                print_path(out, value);
}

static char *make_cell(const struct table_column *column, const json_t *row, int is_plain)
{
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        if (!out)
                abort(); /* out of memory */
        if (column->make)
                column->make(out, row, is_plain);
        else
                write_value(out, column->cell, json_object_get(row, column->member), is_plain);
        if (fclose(out) != 0)
                abort(); /* out of memory */
        return text;
}

/* -- the layout ----------------------------------------------------------------------------------------------- */

struct layout {
        const struct table_column *columns;
        size_t count, widths[TABLE_COLUMNS_MAX];
        char **cells; /* by rows */
        size_t row_count;
        const struct table_look *look;
};

static int is_right(const struct table_column *column)
{
        return column->cell == CELL_COUNT || column->cell == CELL_BYTES;
}

static char *cell_of(const struct layout *l, size_t row, size_t column)
{
        return l->cells[row * l->count + column];
}

/* A column without any text is left out. */
static void measure(struct layout *l)
{
        for (size_t c = 0; c < l->count; c++) {
                size_t most = 0, width;

                for (size_t r = 0; r < l->row_count; r++)
                        if ((width = table_width(cell_of(l, r, c))) > most)
                                most = width;
                width = table_width(l->columns[c].heading);
                l->widths[c] = most > 0 && most < width ? width : most;
        }
}

static size_t total(const struct layout *l)
{
        size_t sum = 0;

        for (size_t c = 0; c < l->count; c++)
                sum += l->widths[c] ? l->widths[c] + GAP : 0;
        return sum > GAP ? sum - GAP : 0;
}

/* The widest of the columns that may be cut loses first. */
static void fit(struct layout *l)
{
        for (size_t sum = total(l); sum > l->look->width; sum--) {
                size_t widest = SIZE_MAX;

                for (size_t c = 0; c < l->count; c++)
                        if (l->columns[c].least && l->widths[c] > l->columns[c].least &&
                            (widest == SIZE_MAX || l->widths[c] >= l->widths[widest]))
                                widest = c;
                if (widest == SIZE_MAX)
                        return;
                l->widths[widest]--;
        }
}

static enum style style_of(const struct layout *l, size_t row, size_t column)
{
        if (row == l->look->chosen)
                return STYLE_CHOSEN;
        return l->columns[column].cell == CELL_STATE ? style_of_state(cell_of(l, row, column)) : STYLE_NONE;
}

/* *room: the columns that are left of the line. */
static void write_cell(FILE *out, const struct layout *l, size_t c, const char *text, enum style style, size_t *room)
{
        size_t width = l->widths[c] < *room ? l->widths[c] : *room, own = table_width(text);
        int pad = (int)(own < width ? width - own : 0), is_last = 1;

        for (size_t after = c + 1; after < l->count; after++)
                is_last = is_last && !l->widths[after];
        fprintf(out, "%*s%s", is_right(&l->columns[c]) ? pad : 0, "", style_begin(style, l->look->has_colours));
        (void)table_write_cut(out, text, width);
        fprintf(out, "%s%*s", style_end(style, l->look->has_colours),
                is_right(&l->columns[c]) || (is_last && style == STYLE_NONE) ? 0 : pad, "");
        *room -= width;
        if (!is_last && *room > GAP) {
                fprintf(out, "%*s", GAP, "");
                *room -= GAP;
        } else {
                *room = 0;
        }
}

static int is_sorted(const struct layout *l, size_t column)
{
        const char *by = l->look->sorted;

        return by && strcmp(l->columns[column].heading, by) == 0;
}

static void write_headings(FILE *out, const struct layout *l)
{
        size_t room = l->look->width;

        for (size_t c = 0; c < l->count && room > 0; c++)
                if (l->widths[c])
                        write_cell(out, l, c, l->columns[c].heading, is_sorted(l, c) ? STYLE_CHOSEN : STYLE_HEADING,
                                   &room);
        fprintf(out, "%s\n", l->look->end_of_line);
}

static void write_row(FILE *out, const struct layout *l, size_t row)
{
        size_t room = l->look->width;

        for (size_t c = 0; c < l->count && room > 0; c++)
                if (l->widths[c])
                        write_cell(out, l, c, cell_of(l, row, c), style_of(l, row, c), &room);
        fprintf(out, "%s\n", l->look->end_of_line);
}

static void write_plain(FILE *out, const struct layout *l, size_t row)
{
        for (size_t c = 0; c < l->count; c++)
                fprintf(out, "%s%s", c ? "\t" : "", cell_of(l, row, c));
        putc('\n', out);
}

/* -- writing -------------------------------------------------------------------------------------------------- */

static void fill(struct layout *l, const json_t *rows)
{
        l->cells = calloc(l->row_count * l->count + 1, sizeof(*l->cells));
        if (!l->cells)
                abort(); /* out of memory */
        for (size_t r = 0; r < l->row_count; r++)
                for (size_t c = 0; c < l->count; c++)
                        l->cells[r * l->count + c] =
                                make_cell(&l->columns[c], json_array_get(rows, r), l->look->is_plain);
}

void table_write(FILE *out, const struct table_column *columns, size_t count, const json_t *rows,
                 const struct table_look *look)
{
        struct layout l = {.columns = columns, .count = count, .row_count = json_array_size(rows), .look = look};
        size_t end;

        fill(&l, rows);
        if (!look->is_plain) {
                measure(&l);
                fit(&l);
                write_headings(out, &l);
        }
        end = look->count < l.row_count - look->from ? look->from + look->count : l.row_count;
        for (size_t r = look->from; r < end; r++)
                (look->is_plain ? write_plain : write_row)(out, &l, r);
        for (size_t i = 0; i < l.row_count * count; i++)
                free(l.cells[i]);
        free(l.cells);
}

void table_print(const struct table_column *columns, size_t count, const json_t *rows, int json)
{
        struct table_look look = {.is_plain = !isatty(STDOUT_FILENO),
                                  .has_colours = style_is_on(stdout),
                                  .end_of_line = "",
                                  .count = SIZE_MAX,
                                  .chosen = SIZE_MAX};
        unsigned lines;

        if (json || json_array_size(rows) == 0) {
                print_rows(rows, json, NULL);
                return;
        }
        terminal_size(&look.width, &lines);
        table_write(stdout, columns, count, rows, &look);
}
