/* Escaped output of names and bytes that guests chose. Runs in: the CLI, as its user. */
#include "print.h"
#include "style.h"

#include "base/utf8.h"
#include "wire/base64.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES_MAX (1u << 20)

/* -- characters ----------------------------------------------------------------------------------------------- */

/* C0, DEL and C1 control the terminal; the others reorder or hide text (CVE-2021-42574). */
static int steers(uint32_t character)
{
        static const struct {
                uint32_t first, last;
        } ranges[] = {
                {0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},     {0x200b, 0x200f},
                {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xe0000, 0xe0fff},
        };

        for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
                if (character >= ranges[i].first && character <= ranges[i].last)
                        return 1;
        return 0;
}

static int is_plain(uint32_t character, enum print_as as)
{
        /* Joiners belong to the spelling of some languages; in a name they could make two names
         * look the same. */
        if (as == PRINT_TEXT && (character == '\n' || character == '\t' || character == 0x200c || character == 0x200d))
                return 1;
        return !steers(character) && !(as == PRINT_NAME && character == '\\');
}

void print_bytes(FILE *out, const void *bytes, size_t size, enum print_as as)
{
        const unsigned char *at = bytes, *end = at + size;

        while (at < end) {
                const unsigned char *plain = at;
                uint32_t character = 0;
                size_t taken = 0;

                while (at < end && (taken = utf8_decode(at, (size_t)(end - at), &character)) && is_plain(character, as))
                        at += taken;
                if (at > plain) /* in one piece: stderr has no buffer */
                        fwrite(plain, 1, (size_t)(at - plain), out);
                if (at == end)
                        break;
                if (character == '\\' && taken)
                        fputs("\\\\", out);
                else
                        for (size_t i = 0; i < (taken ? taken : 1); i++)
                                fprintf(out, "\\x%02x", at[i]);
                at += taken ? taken : 1;
        }
}

void print_name(FILE *out, const char *name)
{
        print_bytes(out, name ? name : "?", name ? strlen(name) : 1, PRINT_NAME);
}

/* -- paths in JSON -------------------------------------------------------------------------------------------- */

char *output_path_bytes(const json_t *path)
{
        const char *encoded = json_string_value(json_object_get(path, "b64"));
        _cleanup_buf_ struct buf bytes = BUF_INIT(PATH_BYTES_MAX);

        if (json_is_string(path))
                return json_string_length(path) == strlen(json_string_value(path)) ? strdup(json_string_value(path))
                                                                                   : NULL;
        if (!encoded || base64_decode(&bytes, encoded, strlen(encoded)) < 0 ||
            (bytes.size && memchr(bytes.data, '\0', bytes.size)))
                return NULL;
        return strndup(bytes.data ? bytes.data : "", bytes.size);
}

void print_path(FILE *out, const json_t *path)
{
        char *bytes = output_path_bytes(path);

        print_name(out, bytes);
        free(bytes);
}

/* -- immediate output ----------------------------------------------------------------------------------------- */

int print_at_once(const char *text, size_t size, int patience_ms)
{
        struct pollfd polled = {.fd = STDERR_FILENO, .events = POLLOUT};

        while (size > 0) {
                size_t piece = size < PIPE_BUF ? size : PIPE_BUF;
                ssize_t n;

                if (poll(&polled, 1, patience_ms) <= 0)
                        return -1;
                n = write(STDERR_FILENO, text, piece);
                if (n < 0 && errno != EINTR && errno != EAGAIN)
                        return -1;
                text += n > 0 ? n : 0;
                size -= n > 0 ? (size_t)n : 0;
        }
        return 0;
}

/* -- denials -------------------------------------------------------------------------------------------------- */

static const char *named_socket;

void print_for_socket(const char *path)
{
        named_socket = path;
}

void print_advice(FILE *out, const char *text, enum print_as as)
{
        static const char command[] = "cloche net ";
        const char *name = named_socket ? strstr(text, command) : NULL, *rest = text;

        if (name) {
                name += sizeof(command) - 1;
                rest = name + strcspn(name, " :");
                print_bytes(out, text, (size_t)(rest - text), as);
                fputs(" --socket ", out);
                print_name(out, named_socket);
        }
        print_bytes(out, rest, strlen(rest), as);
}

/* of: the process that it happened to; NULL: the one that is known. */
static void print_refused_of(FILE *out, const char *of, const json_t *denied)
{
        const json_t *host = json_object_get(denied, "host"),
                     *target = host ? host : json_object_get(denied, "address");
        const char *remedy = json_string_value(json_object_get(denied, "remedy"));
        json_int_t count = json_integer_value(json_object_get(denied, "count"));

        fputs("cloche: ", out);
        if (of) {
                print_name(out, of);
                fputs(": ", out);
        }
        fprintf(out, "%sdenied%s %s ", style_begin(STYLE_BAD, style_is_on(out)), style_end(STYLE_BAD, style_is_on(out)),
                json_string_value(json_object_get(denied, "kind")));
        if (target)
                print_name(out, json_string_value(target));
        else
                fputs("connections", out); /* the network itself has ended, or has no room for one */
        if (json_object_get(denied, "port"))
                fprintf(out, ":%lld", (long long)json_integer_value(json_object_get(denied, "port")));
        fputs(": ", out);
        print_name(out, json_string_value(json_object_get(denied, "why")));
        if (count > 1)
                fprintf(out, " (%lld times)", (long long)count);
        if (remedy) {
                fputs("; ", out);
                print_name(out, remedy);
                if (named_socket) {
                        fputs(" --socket ", out);
                        print_name(out, named_socket);
                }
                fputs(" permits it", out);
        }
        fputc('\n', out);
}

void print_refused(FILE *out, const json_t *denied)
{
        print_refused_of(out, NULL, denied);
}

size_t print_denials(FILE *out, const char *of, const json_t *answer)
{
        const json_t *denied, *denials = json_object_get(answer, "denials");
        size_t i;

        json_array_foreach (denials, i, denied)
                print_refused_of(out, of, denied);
        return json_array_size(denials);
}

/* -- ages ----------------------------------------------------------------------------------------------------- */

const char *output_age(json_int_t seconds, char ret[OUTPUT_AGE_BYTES])
{
        static const struct {
                json_int_t seconds;
                const char *name;
        } units[] = {{86400, "days"}, {3600, "h"}, {60, "min"}, {1, "s"}};
        size_t i = 0;

        while (i < 3 && seconds < 2 * units[i].seconds)
                i++;
        snprintf(ret, OUTPUT_AGE_BYTES, "%lld %s", (long long)(seconds / units[i].seconds), units[i].name);
        return ret;
}

void print_rows(const json_t *rows, int json, void (*print_row)(const json_t *row))
{
        char *text = json ? json_dumps(rows, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
        const json_t *row;
        size_t i;

        if (json)
                printf("%s\n", text ? text : "[]");
        free(text);
        if (!json)
                json_array_foreach (rows, i, row)
                        print_row(row);
}
